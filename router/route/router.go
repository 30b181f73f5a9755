package route

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
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

// Pool is where endpoints come from.
type Pool interface {
	Snapshot() *pool.Snapshot
	ReportFailure(endpoint string) // a request failed for the endpoint's own fault
	ReportSuccess(endpoint string)
}

// Router decides, follows and records requests. Create it with New and keep
// Run running.
type Router struct {
	config     Config
	usual      Arm    // what decides outside of an experiment
	tried      string // the design of the experiment, as rows carry it; empty: none
	asks       bool   // forecasts may decide now or later
	turn       part   // of the experiment, when last looked at
	pool       Pool
	forecaster Forecaster // nil: forecasts are never asked for
	recorder   Recorder
	log        *slog.Logger
	metrics    *metrics
	scratch    sync.Pool

	mu        sync.Mutex // choosing and charging is one step under this lock
	ledger    *ledger.Ledger
	index     *prefix.Index
	snapshot  *pool.Snapshot       // that sync saw last
	endpoints map[string]*endpoint // of that snapshot, by id
	present   []*endpoint          // the same, ordered by id
	open      map[*Ticket]struct{} // begun and not ended, wherever they are
	llms      map[string]*llm
	others    *llm // shared by the LLMs there is no room for
	profiles  map[kind]*physics.Profile
	changes   []Transition
	tell      func(*Word) // what others should know; nil: there is nobody
	charges   uint64      // the number given last to a charge
	peers     []*Peer
	silent    map[*Peer]bool
	without   string // the silent ones, as reasons name them
	recent    []Recent
	drill     time.Time // until then forecasts decide nothing

	probed string // whom the last bounded round of probes ended with; Run's alone
}

// New makes a Router. forecaster may be nil, which leaves every LLM cold.
func New(config Config, endpoints Pool, forecaster Forecaster, recorder Recorder, log *slog.Logger, reg prometheus.Registerer) (*Router, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	r := &Router{
		config:     config,
		usual:      Arm{Policy: config.Policy, Fallback: config.Fallback, Settings: config.Settings},
		tried:      config.design(),
		asks:       config.Forecasting(),
		pool:       endpoints,
		forecaster: forecaster,
		recorder:   recorder,
		log:        log,
		ledger:     ledger.New(),
		index:      prefix.New(prefix.Config{TokensPerByte: config.TokensPerByte, CapacityTokens: float64(config.DefaultProfile.KVCapacityTokens), Seed: draw()}),
		endpoints:  map[string]*endpoint{},
		open:       map[*Ticket]struct{}{},
		llms:       map[string]*llm{},
		profiles:   map[kind]*physics.Profile{},
		silent:     map[*Peer]bool{},
	}
	r.metrics = newMetrics(reg, r)
	digester := prefix.NewDigester(digestKey(config.Salt))
	r.scratch.New = func() any { return &scratch{digester: digester} }
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sync()
	r.takeTurns(now)
	for _, e := range r.present {
		r.observeSpeed(now, e)
		r.observeOverdue(e, now)
		e.pace.tick(e.chosen)
		for _, name := range e.state.LLMs {
			r.listed(name, now)
		}
	}
	for _, l := range r.sorted() {
		l.bytes.settle()
		r.note(l, nil)(l.guard.Tick(now))
		r.account(l, now)
	}
	if r.others != nil {
		r.account(r.others, now)
	}
	for _, e := range r.present {
		r.resize(e)
	}
}

// OldestOpen is when the decision of the oldest request was made that has not
// ended; false when none is open.
func (r *Router) OldestOpen() (decidedAt time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.open {
		if !ok || t.decidedAt.Before(decidedAt) {
			decidedAt, ok = t.decidedAt, true
		}
	}
	return decidedAt, ok
}

// account counts the time that an LLM was in its present state.
func (r *Router) account(l *llm, now time.Time) {
	state, _, _ := l.guard.State()
	r.spent(l, state, now)
}

func (r *Router) spent(l *llm, state correction.State, now time.Time) {
	passed := now.Sub(l.accounted)
	if passed <= 0 {
		return
	}
	l.accounted = now
	if l == r.others || l == r.llms[l.name] { // else its labels went with its place
		r.metrics.stateSeconds.WithLabelValues(l.name, string(state)).Add(passed.Seconds())
	}
}

// note makes a state change visible: log line, metric and history. detail, if
// there is any, is for the log alone.
func (r *Router) note(l *llm, detail error) func(correction.Change, bool) {
	return func(c correction.Change, moved bool) {
		if !moved {
			return
		}
		if l == r.others || l == r.llms[l.name] { // else its labels went with its place
			r.metrics.state(l.name, c.To)
		}
		r.spent(l, c.From, c.At)
		r.metrics.changes.WithLabelValues(string(c.From), string(c.To)).Inc()
		line := []any{"llm", l.name, "from", c.From, "to", c.To, "reason", c.Reason}
		if detail != nil {
			line = append(line, "error", detail)
		}
		r.log.Info("forecast state changed", line...)
		r.changes = append(r.changes, Transition{At: c.At, LLM: l.name, From: string(c.From), To: string(c.To), Reason: c.Reason})
		if extra := len(r.changes) - historyLength; extra > 0 {
			r.changes = slices.Delete(r.changes, 0, extra)
		}
	}
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
