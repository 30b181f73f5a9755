package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/prefix"
)

// Errors of Begin.
var (
	// ErrNoEndpoint means that no endpoint is there to take the request.
	ErrNoEndpoint = errors.New("no endpoint is available")
	// ErrUnknownLLM means that no endpoint serves the LLM asked for.
	ErrUnknownLLM = errors.New("no endpoint serves this model")
)

// Shed is the error of a request turned away on purpose.
type Shed struct{ RetryAfter time.Duration }

// Error says when to come back.
func (s *Shed) Error() string {
	return fmt.Sprintf("the fleet is saturated; retry after %s", s.RetryAfter.Round(time.Second))
}

// Pool is where endpoints come from.
type Pool interface {
	Snapshot() *pool.Snapshot
	ReportFailure(endpoint string)
	ReportSuccess(endpoint string)
}

// Router decides, follows and records requests. Create it with New and keep
// Run running.
type Router struct {
	config     Config
	pool       Pool
	forecaster Forecaster // nil: forecasts are never asked for
	recorder   Recorder
	log        *slog.Logger
	metrics    *metrics
	scratch    sync.Pool

	mu        sync.Mutex // choosing and charging is one step under this lock
	ledger    *ledger.Ledger
	index     *prefix.Index
	endpoints map[string]*endpoint
	llms      map[string]*llm
	profiles  map[kind]*physics.Profile
	epoch     uint64
	turn      uint64
	changes   []Transition
	recent    []Recent
}

// New makes a Router. forecaster may be nil, which leaves every LLM cold.
func New(config Config, endpoints Pool, forecaster Forecaster, recorder Recorder, log *slog.Logger, reg prometheus.Registerer) (*Router, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	r := &Router{
		config:     config,
		pool:       endpoints,
		forecaster: forecaster,
		recorder:   recorder,
		log:        log,
		metrics:    newMetrics(reg),
		ledger:     ledger.New(),
		index:      prefix.New(prefix.Config{TokensPerByte: config.TokensPerByte, CapacityTokens: float64(config.DefaultProfile.KVCapacityTokens)}),
		endpoints:  map[string]*endpoint{},
		llms:       map[string]*llm{},
		profiles:   map[kind]*physics.Profile{},
	}
	r.scratch.New = func() any { return &scratch{} }
	return r, nil
}

// Run observes speeds, lets states age and probes the predictor until ctx is
// done.
func (r *Router) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	probe := time.NewTicker(r.config.ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
			r.tick(time.Now())
		case <-probe.C:
			r.probe(ctx)
		}
	}
}

func (r *Router) tick(now time.Time) {
	snap := r.pool.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sync(snap)
	for i := range snap.Endpoints {
		s := &snap.Endpoints[i]
		r.observeSpeed(now, s.ScrapedAt, r.endpoint(s), r.profile(s))
		for _, name := range s.LLMs {
			r.llm(name, now)
		}
	}
	for _, l := range r.llms {
		r.note(l)(l.machine.Tick(now))
	}
}

// llm returns what is known of an LLM.
func (r *Router) llm(name string, now time.Time) *llm {
	l, ok := r.llms[name]
	if !ok {
		l = newLLM(name, &r.config, now)
		r.llms[name] = l
		r.metrics.state(name, correction.Cold)
	}
	return l
}

// note makes a state change visible: log line, metric and history.
func (r *Router) note(l *llm) func(correction.Change, bool) {
	return func(c correction.Change, moved bool) {
		if !moved {
			return
		}
		r.metrics.state(l.name, c.To)
		r.metrics.changes.WithLabelValues(string(c.From), string(c.To)).Inc()
		r.log.Info("forecast state changed", "llm", l.name, "from", c.From, "to", c.To, "reason", c.Reason)
		r.changes = append(r.changes, Transition{At: c.At, LLM: l.name, From: string(c.From), To: string(c.To), Reason: c.Reason})
		if extra := len(r.changes) - historyLength; extra > 0 {
			r.changes = slices.Delete(r.changes, 0, extra)
		}
	}
}

// settled tells the LLM's machine how one forecast call ended.
func (r *Router) settled(l *llm, now time.Time, a Answer, result correction.Result, why string) {
	if result == correction.Answered {
		if a.Bundle != l.bundle {
			if l.bundle != 0 {
				for _, e := range r.endpoints {
					e.offset.Forget()
				}
			}
			l.bundle = a.Bundle
		}
		r.note(l)(l.machine.Answered(now, a.Validated, a.MaxAge))
		return
	}
	r.metrics.failures.WithLabelValues(resultNames[result]).Inc()
	r.note(l)(l.machine.Failed(now, result, why))
}

// probe asks for one forecast of an ordinary request for every LLM whose
// requests don't ask themselves, to see when the predictor is well.
func (r *Router) probe(ctx context.Context) {
	if r.forecaster == nil || r.config.Policy != policy.Predicted {
		return
	}
	r.mu.Lock()
	var quiet []string
	for name, l := range r.llms {
		if s, _, _ := l.machine.State(); !asks(s) {
			quiet = append(quiet, name)
		}
	}
	r.mu.Unlock()
	slices.Sort(quiet)
	for _, name := range quiet {
		c := policy.Candidate{
			Coefficients: r.config.DefaultProfile.Coefficients,
			Load: feature.Load{
				Scraped: feature.Scraped{Waiting: 0, Running: 0, KVUsed: 0, Age: 0},
				Profile: profileLoad(&r.config.DefaultProfile, 0, 1),
			},
		}
		request := policy.Request{PromptTokens: 1000, ExpectedOutputTokens: coldOutput, MaxOutputTokens: feature.Unknown, Completions: 1}
		var out [1]feature.Forecast
		answer, result, why := r.ask(ctx, name, []feature.Vector{c.Vector(&request)}, out[:])
		r.mu.Lock()
		if l := r.llms[name]; l != nil {
			r.settled(l, time.Now(), answer, result, why)
		}
		r.mu.Unlock()
	}
}

// asks reports whether requests ask for forecasts in a state. In the others
// only the probe does, so that no request waits for a predictor that is known
// to be slow or gone.
func asks(s correction.State) bool {
	return s == correction.Live || s == correction.Stale || s == correction.Wrong
}

// ask makes one forecast call within the deadline.
func (r *Router) ask(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Answer, correction.Result, string) {
	ctx, cancel := context.WithTimeout(ctx, r.config.ForecastDeadline)
	defer cancel()
	began := time.Now()
	answer, err := r.forecaster.Forecast(ctx, llm, vectors, out)
	r.metrics.forecast.Observe(time.Since(began).Seconds())
	if err == nil {
		for i := range out {
			if !plausible(&out[i]) {
				return answer, correction.Invalid, fmt.Sprintf("bundle %d forecast TTFT %g s, TPOT %g s", answer.Bundle, out[i].TTFT.P50, out[i].TPOT.P50)
			}
		}
	} else if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	result, why := classify(err)
	return answer, result, why
}

// Models is the union of the LLMs that endpoints serve, sorted.
func (r *Router) Models() []string {
	var models []string
	for _, e := range r.pool.Snapshot().Endpoints {
		models = append(models, e.LLMs...)
	}
	slices.Sort(models)
	return slices.Compact(models)
}

// draw is a seed for one decision's own draws.
func draw() uint64 { return rand.Uint64() }
