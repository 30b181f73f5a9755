package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// leaseTime is how long a refit may take before another trainer may start one.
const leaseTime = 10 * time.Minute

// Trainer runs refit cycles.
type Trainer struct {
	config  Config
	owner   string
	store   Store
	log     *slog.Logger
	metrics *metrics
	judged  map[string]judgement // the last one of each LLM
	ready   readiness
}

// New makes a Trainer. owner names it in the lease, and must not be that of
// another trainer which runs at the same time.
func New(config Config, owner string, store Store, log *slog.Logger, reg prometheus.Registerer) (*Trainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	return &Trainer{config: config, owner: owner, store: store, log: log, metrics: newMetrics(reg),
		judged: map[string]judgement{}, ready: readiness{well: time.Now()}}, nil
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
)

var outcomes = []string{Accepted, Held, Refused, Quiet, TooFew, Unfitted}

// Run refits on schedule until ctx is done, then returns nil. A cycle that
// fails is logged and counted, and the next one tries again.
func (t *Trainer) Run(ctx context.Context) error {
	schedule, err := t.config.schedule()
	if err != nil {
		return err
	}
	for {
		now := time.Now()
		timer := time.NewTimer(schedule.Next(now).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
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
	llms, err := t.store.LLMs(ctx)
	if err != nil {
		return nil, false, err
	}
	var failed []error
	for _, llm := range llms {
		if err := lease.Renew(ctx, leaseTime); err != nil {
			return results, true, errors.Join(append(failed, err)...)
		}
		result, err := t.refit(ctx, lease, llm)
		if err != nil {
			failed = append(failed, fmt.Errorf("refit %s: %w", llm, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		t.metrics.cycles.WithLabelValues(result.Outcome).Inc()
		level := slog.LevelInfo
		if result.Outcome == Unfitted {
			level = slog.LevelError
		}
		t.log.Log(ctx, level, "refit", "llm", llm, "outcome", result.Outcome, "rows", result.Rows, "version", result.Version, "why", result.Why)
		results = append(results, result)
	}
	return results, true, errors.Join(failed...)
}

// cycle is the refit of one LLM.
type cycle struct {
	lease  Lease
	began  time.Time
	all    []sample
	served Served // its version is 0 when nothing is
	result Result
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
	var err error
	if c.all, err = t.samples(ctx, llm, c.began); err != nil {
		return err
	}
	c.result.Rows = len(c.all)
	if c.served, err = t.store.Served(ctx, llm); err != nil && !errors.Is(err, ErrNotServed) {
		return err
	}
	last, known := t.lastJudgement(llm, c.served)
	if n := decidedAfter(c.all, last.at); known && n < t.config.MinNewRows {
		c.result.Outcome, c.result.Why = Quiet, fmt.Sprintf("%d new rows, want %d", n, t.config.MinNewRows)
		return t.extend(ctx, c, last)
	}
	past, judge := learn.Split(c.all, t.config.HeldOutShare)
	learned, err := t.learnable(past, judge)
	if err != nil {
		c.result.Outcome, c.result.Why = TooFew, err.Error()
		return t.extend(ctx, c, last)
	}
	r, err := t.rivals(c.served, past, judge)
	if err != nil {
		return err
	}
	candidate, err := t.fit(ctx, c, past, learned)
	if errors.Is(err, errUnfitted) {
		c.result.Outcome, c.result.Why = Unfitted, err.Error()
		return t.rescore(ctx, c, judge, r)
	}
	if err != nil {
		return err
	}
	if r.candidate, err = contenderOf(candidate, judge, nil); err != nil {
		return err
	}
	verdict := t.verdict(past, judge, learned, r)
	c.result.Verdict = &verdict
	served, err := t.publish(ctx, c, candidate)
	switch {
	case err != nil:
		return err
	case !verdict.Accepted:
		for _, ground := range verdict.Grounds {
			t.metrics.refusals.WithLabelValues(string(ground)).Inc()
		}
		c.result.Outcome, c.result.Why = Refused, strings.Join(verdict.Reasons, "; ")
		return t.rescore(ctx, c, judge, r)
	case !served:
		c.result.Outcome, c.result.Why = Held, "the served bundle is pinned by a rollback until it is released"
		return t.rescore(ctx, c, judge, r)
	}
	c.result.Outcome, c.result.Why = Accepted, strings.Join(verdict.Missing, "; ")
	return nil
}

// rivals forecasts the held-out rows with all that a candidate is compared
// with. A served bundle that this build can't evaluate does not compete.
func (t *Trainer) rivals(served Served, past, judge []sample) (rivals, error) {
	r := rivals{prior: priorContender(past, judge)}
	var err error
	if r.cart, err = cartContender(past, judge, t.config.Seed); err != nil {
		return r, err
	}
	if served.Version == 0 {
		return r, nil
	}
	var c contender
	b, err := bundle.Decode(served.Bytes)
	if err == nil {
		c, err = contenderOf(b, judge, t.config.Others)
	}
	if err != nil {
		t.log.Warn("the served bundle can't be compared with", "version", served.Version, "error", err)
		return r, nil
	}
	r.served = &c
	return r, nil
}

// publish stores the candidate with its verdict, and says whether it is served
// now.
func (t *Trainer) publish(ctx context.Context, c *cycle, candidate *bundle.Bundle) (served bool, err error) {
	bytes, err := bundle.Encode(candidate)
	if err != nil {
		return false, err
	}
	verdict, err := json.Marshal(c.result.Verdict)
	if err != nil {
		return false, fmt.Errorf("write the verdict: %w", err)
	}
	metadata, err := json.Marshal(map[string]any{
		"schema": candidate.Schema.String(), "window": candidate.Window, "seed": candidate.Seed, "bytes": len(bytes),
	})
	if err != nil {
		return false, fmt.Errorf("write the metadata: %w", err)
	}
	interval, err := t.config.Interval(time.Now())
	if err != nil {
		return false, err
	}
	c.result.Version, served, err = c.lease.Publish(ctx, Published{
		LLM: c.result.LLM, Bytes: bytes, Metadata: metadata, Verdict: verdict,
		Accepted: c.result.Verdict.Accepted, MaxAge: maxAgeIntervals * interval,
	})
	return served, err
}
