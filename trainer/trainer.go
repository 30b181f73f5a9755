package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Trainer runs refit cycles.
type Trainer struct {
	config  Config
	owner   string
	store   Store
	log     *slog.Logger
	metrics *metrics
	watched map[string]*watched // by LLM; of Run and its cycles alone
	ready   readiness
}

// New makes a Trainer. owner names it in the lease, and must not be that of
// another trainer which runs at the same time.
func New(config Config, owner string, store Store, log *slog.Logger, reg prometheus.Registerer) (*Trainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	return &Trainer{config: config, owner: owner, store: store, log: log, metrics: newMetrics(reg),
		watched: map[string]*watched{}, ready: readiness{well: time.Now()}}, nil
}

// Result is what a cycle did for one LLM.
type Result struct {
	LLM     string   `json:"llm"`
	Outcome string   `json:"outcome"` // one of Outcomes
	Version int64    `json:"version"` // of the stored bundle; 0 when none was stored
	Rows    int      `json:"rows"`    // samples in the window
	Verdict *Verdict `json:"verdict,omitempty"`
	Why     string   `json:"why,omitempty"` // of a refusal, or what an accepted bundle lacks
}

// Outcomes of a cycle.
const (
	Accepted = "accepted"
	Held     = "held"     // the gate said yes, but a person pinned what is served; that is judged as after a refusal
	Refused  = "refused"  // the gate said no; the served bundle stays, and is fresh again if it is still good
	Quiet    = "quiet"    // too few new rows since the last judgement; the served bundle is extended
	TooFew   = "too_few"  // too few rows to judge anything; the served bundle is extended
	Unfitted = "unfitted" // the fit failed; the served bundle is judged as after a refusal
	Spoilt   = "spoilt"   // too many rows are no measurements to learn from any; the served bundle is extended
)

var outcomes = []string{Accepted, Held, Refused, Quiet, TooFew, Unfitted, Spoilt}

// Run refits on schedule, and earlier when outcomes drift from their forecasts,
// until ctx is done, then returns nil. A cycle that
// fails is logged and counted, and the next one tries again.
func (t *Trainer) Run(ctx context.Context) error {
	schedule, err := t.config.schedule()
	if err != nil {
		return err
	}
	for {
		if !t.pause(ctx, schedule.Next(time.Now())) {
			return nil
		}
		if _, err := t.Once(ctx); err != nil && ctx.Err() == nil {
			t.log.Error("refit failed", "error", err)
		}
	}
}

// Once runs one cycle for every LLM, unless another trainer holds the lease:
// then it does nothing and returns no results. An LLM that fails does not keep
// the others from their refit; the error names each that did. When the lease
// is lost nothing more is published. A Trainer runs one cycle at a time.
func (t *Trainer) Once(ctx context.Context) ([]Result, error) {
	results, worked, err := t.once(ctx)
	now := time.Now()
	switch {
	case err != nil && ctx.Err() != nil: // asked to end
	case err != nil:
		t.metrics.failures.Inc()
		t.ready.failed(err)
	default:
		t.ready.succeeded(now)
		if worked {
			t.metrics.lastSuccess.Set(float64(now.UnixMicro()) / 1e6)
		}
	}
	return results, err
}

// once does so; worked is false when another trainer holds the lease.
func (t *Trainer) once(ctx context.Context) (results []Result, worked bool, err error) {
	lease, ok, err := t.store.Lease(ctx, t.owner, leaseTime)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		t.log.Info("another trainer holds the lease")
		return nil, false, nil
	}
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := lease.Release(release); err != nil {
			t.log.Warn("the lease was not released and ends by itself", "error", err)
		}
	}()
	defer keep(ctx, lease, t.log)()
	results, err = t.cycles(ctx, lease)
	return results, true, err
}

// DryRun is Once without a lease, and without a trace: it says what a cycle
// would do now, and neither stores a bundle nor renews what is served.
func (t *Trainer) DryRun(ctx context.Context) ([]Result, error) {
	return t.cycles(ctx, idle{t.store})
}

// cycles refits every LLM.
func (t *Trainer) cycles(ctx context.Context, lease Lease) (results []Result, err error) {
	llms, err := t.store.LLMs(ctx)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, llm := range llms {
		if err := lease.Renew(ctx, leaseTime); err != nil {
			return results, errors.Join(append(failed, err)...)
		}
		result, err := t.refit(ctx, lease, llm)
		if err != nil {
			failed = append(failed, fmt.Errorf("refit %s: %w", llm, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		_, dry := lease.(idle)
		t.metrics.cycles.WithLabelValues(result.Outcome).Inc()
		level := slog.LevelInfo
		if result.Outcome == Unfitted || result.Outcome == Spoilt {
			level = slog.LevelError
		}
		t.log.Log(ctx, level, "refit", "llm", llm, "outcome", result.Outcome, "rows", result.Rows, "version", result.Version, "why", result.Why, "dry_run", dry)
		results = append(results, result)
	}
	return results, errors.Join(failed...)
}

// cycle is the refit of one LLM.
type cycle struct {
	lease  Lease
	began  time.Time
	all    []sample
	newest time.Time // decision of the newest row, flawed or not
	// judgeFrom, when set, is since when rows tell what is: only they may judge.
	judgeFrom time.Time
	flaws     flaws
	served    Served // its version is 0 when nothing is
	result    Result

	engine       string // that grew the p50 heads; empty: Spillway's own
	engineFailed string // why another than the configured one did
}

// refit runs one cycle for one LLM: window, fit, judge, gate, publish.
func (t *Trainer) refit(ctx context.Context, lease Lease, llm string) (Result, error) {
	c := cycle{lease: lease, began: time.Now(), result: Result{LLM: llm}}
	defer func() { t.metrics.seconds.Observe(time.Since(c.began).Seconds()) }()
	err := t.run(ctx, &c)
	return c.result, err
}

func (t *Trainer) run(ctx context.Context, c *cycle) error {
	llm := c.result.LLM
	if err := t.samples(ctx, c); err != nil {
		return err
	}
	c.result.Rows = len(c.all)
	var err error
	if c.served, err = t.store.Served(ctx, llm); err != nil && !errors.Is(err, ErrNotServed) {
		return err
	}
	last, known, err := t.lastJudgement(ctx, llm, c.served)
	if err != nil {
		return err
	}
	if n := decidedAfter(c.all, last.until); known && n < t.config.MinNewRows {
		c.result.Outcome, c.result.Why = Quiet, fmt.Sprintf("%d new rows, want %d", n, t.config.MinNewRows)
		return t.extend(ctx, c, last)
	}
	past, judge := t.split(c)
	learned, err := t.learnable(past, judge)
	switch {
	case c.flaws.spoilt():
		return t.spoilt(ctx, c, last, c.flaws.String())
	case err != nil:
		c.result.Outcome, c.result.Why = TooFew, err.Error()
		return t.extend(ctx, c, last)
	}
	if column := t.disagreement(c.all); column != "" {
		return t.spoilt(ctx, c, last, column+" does not follow from the rest of its vectors")
	}
	r, err := t.rivals(c.served, past, judge)
	if err != nil {
		return err
	}
	written, err := t.compete(ctx, c, past, judge, learned, r)
	if err != nil {
		return err
	}
	served, err := t.publish(ctx, c, written)
	verdict := c.result.Verdict
	switch {
	case err != nil:
		return err
	case !verdict.Accepted:
		for _, ground := range verdict.Grounds {
			t.metrics.refusals.WithLabelValues(string(ground)).Inc()
		}
		c.result.Outcome, c.result.Why = Refused, strings.Join(verdict.Reasons, "; ")
		if slices.Contains(verdict.Grounds, NoFit) {
			c.result.Outcome = Unfitted
		}
		return t.rescore(ctx, c)
	case !served:
		c.result.Outcome, c.result.Why = Held, "the served bundle is pinned by a rollback until it is released"
		return t.rescore(ctx, c)
	}
	c.result.Outcome, c.result.Why = Accepted, strings.Join(verdict.Missing, "; ")
	return nil
}

// compete fits a candidate and judges it; the verdict goes into the result. A
// fit that fails is a refusal too, of a candidate without bytes.
func (t *Trainer) compete(ctx context.Context, c *cycle, past, judge []sample, learned targets, plain rivals) (written []byte, err error) {
	var verdict *Verdict
	r := plain.online(judge)
	candidate, err := t.fit(ctx, c, past, learned)
	if err == nil {
		var e *bundle.Evaluator
		if candidate, e, written, err = stored(candidate); err == nil {
			plain.candidate = contenderOf(e, judge)
			r.candidate = online(plain.candidate, judge)
			verdict = t.verdict(past, judge, learned, plain, r)
			err = t.judgeStored(ctx, verdict, candidate, e, len(written), judge)
		}
	}
	if errors.Is(err, errUnfitted) {
		verdict = refusal(NoFit, err.Error())
		verdict.LearnRows = len(past)
	} else if err != nil {
		return nil, err
	}
	verdict.Accepted = len(verdict.Grounds) == 0
	verdict.JudgedAt, verdict.Until = c.began.UTC(), judge[len(judge)-1].Decided
	verdict.Beside, verdict.Flawed = t.beside(c, judge, r), c.flaws.by
	verdict.Engine, verdict.EngineFailed = c.engine, c.engineFailed
	c.result.Verdict = verdict
	return written, nil
}

// spoilt stores the refusal of a window in which too many rows are no
// measurements, or columns are not what they are called. Those of it that seem to be may have the same fault where it
// does not show, so that nothing is learned from them, and the served bundle is
// not judged by them either.
func (t *Trainer) spoilt(ctx context.Context, c *cycle, last judgement, why string) error {
	verdict := refusal(SpoiltWindow, why)
	verdict.JudgedAt, verdict.Until, verdict.Flawed = c.began.UTC(), c.newest, c.flaws.by
	if c.served.Version != 0 {
		verdict.Beside = &Beside{Version: c.served.Version, Good: last.good}
	}
	c.result.Verdict, c.result.Outcome, c.result.Why = verdict, Spoilt, why
	t.metrics.refusals.WithLabelValues(string(SpoiltWindow)).Inc()
	if _, err := t.publish(ctx, c, nil); err != nil {
		return err
	}
	return t.extend(ctx, c, last)
}

// rivals forecasts the held-out rows with all that a candidate is compared
// with. A served bundle that this build can't evaluate does not compete.
func (t *Trainer) rivals(served Served, past, judge []sample) (rivals, error) {
	r := rivals{prior: priorContender(past, judge), level: levelContender(past, judge)}
	var err error
	if r.cart, err = cartContender(past, judge, t.config.Seed); err != nil {
		return r, err
	}
	if served.Version == 0 {
		return r, nil
	}
	var e *bundle.Evaluator
	b, err := bundle.Decode(served.Bytes)
	if err == nil {
		e, err = b.EvaluatorWith(t.config.Others)
	}
	if err != nil {
		t.log.Warn("the served bundle can't be compared with", "version", served.Version, "error", err)
		return r, nil
	}
	c := contenderOf(e, judge)
	r.served = &c
	return r, nil
}

// windowOf is what a candidate was made and judged from.
func windowOf(c *cycle) bundle.Window {
	if len(c.all) == 0 {
		return bundle.Window{}
	}
	return bundle.Window{Rows: len(c.all), From: c.all[0].Decided, To: c.all[len(c.all)-1].Decided}
}

// publish stores a candidate, which may have no bytes, with its verdict, and
// says whether it is served now.
func (t *Trainer) publish(ctx context.Context, c *cycle, written []byte) (served bool, err error) {
	verdict, err := json.Marshal(c.result.Verdict)
	if err != nil {
		return false, fmt.Errorf("write the verdict: %w", err)
	}
	metadata, err := json.Marshal(map[string]any{
		"schema": feature.Schema.String(), "window": windowOf(c), "seed": t.config.Seed, "bytes": len(written),
	})
	if err != nil {
		return false, fmt.Errorf("write the metadata: %w", err)
	}
	interval, err := t.config.Interval(time.Now())
	if err != nil {
		return false, err
	}
	c.result.Version, served, err = c.lease.Publish(ctx, Published{
		LLM: c.result.LLM, Bytes: written, Metadata: metadata, Verdict: verdict,
		Accepted: c.result.Verdict.Accepted, MaxAge: t.config.maxAge(interval),
	})
	return served, err
}
