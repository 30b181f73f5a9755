package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bundle"
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
}

// New makes a Trainer. owner names it in the lease.
func New(config Config, owner string, store Store, log *slog.Logger, reg prometheus.Registerer) (*Trainer, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	return &Trainer{config: config, owner: owner, store: store, log: log, metrics: newMetrics(reg)}, nil
}

// Result is what a cycle did for one LLM.
type Result struct {
	LLM     string   `json:"llm"`
	Outcome string   `json:"outcome"` // one of Outcomes
	Version int64    `json:"version"` // of the stored bundle; 0 when none was stored
	Rows    int      `json:"rows"`
	Verdict *Verdict `json:"verdict,omitempty"`
	Why     string   `json:"why,omitempty"`
}

// Outcomes of a cycle.
const (
	Accepted = "accepted"
	Refused  = "refused"  // the gate said no; the served bundle stays
	Quiet    = "quiet"    // too few new rows; the served bundle is extended
	TooFew   = "too_few"  // too few rows to judge anything
	Unfitted = "unfitted" // the fit failed
)

// Run refits on schedule until ctx is done. A cycle that fails is logged and
// counted, and the next one tries again.
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
			t.metrics.failures.Inc()
			t.log.Error("refit failed", "error", err)
		}
	}
}

// Once runs one cycle for every LLM, unless another trainer holds the lease:
// then it does nothing and returns no results.
func (t *Trainer) Once(ctx context.Context) ([]Result, error) {
	lease, ok, err := t.store.Lease(ctx, t.owner, leaseTime)
	if err != nil {
		return nil, err
	}
	if !ok {
		t.log.Info("another trainer holds the lease")
		return nil, nil
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
		return nil, err
	}
	var results []Result
	for _, llm := range llms {
		if err := lease.Renew(ctx, leaseTime); err != nil {
			return results, err
		}
		result, err := t.refit(ctx, lease, llm)
		if err != nil {
			return results, fmt.Errorf("refit %s: %w", llm, err)
		}
		t.metrics.cycles.WithLabelValues(result.Outcome).Inc()
		t.log.Info("refit", "llm", llm, "outcome", result.Outcome, "rows", result.Rows, "version", result.Version, "why", result.Why)
		results = append(results, result)
	}
	return results, nil
}

// refit runs one cycle for one LLM: window, fit, judge, gate, publish.
func (t *Trainer) refit(ctx context.Context, lease Lease, llm string) (Result, error) {
	began := time.Now()
	defer func() { t.metrics.seconds.Observe(time.Since(began).Seconds()) }()
	result := Result{LLM: llm}
	all, err := t.samples(ctx, llm, began)
	if err != nil {
		return result, err
	}
	result.Rows = len(all)
	served, err := t.store.Served(ctx, llm)
	if err != nil && !errors.Is(err, ErrNotServed) {
		return result, err
	}
	if fitted, ok := fittedAt(served); ok && decidedAfter(all, fitted) < t.config.MinNewRows {
		return t.quiet(ctx, lease, result, served, fitted)
	}
	learn, judge := split(all, t.config.HeldOutShare)
	if len(learn) == 0 || withTTFT(judge) < t.config.MinHeldOut {
		result.Outcome = TooFew
		result.Why = fmt.Sprintf("%d held-out rows, want %d", withTTFT(judge), t.config.MinHeldOut)
		return result, nil
	}
	candidate, err := t.fit(ctx, llm, learn, began)
	if err != nil {
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		result.Outcome, result.Why = Unfitted, err.Error()
		return result, nil
	}
	r, err := t.contenders(candidate, served, learn, judge)
	if err != nil {
		return result, err
	}
	verdict := t.judged(learn, judge, r)
	result.Verdict = &verdict
	if err := t.publish(ctx, lease, &result, candidate); err != nil {
		return result, err
	}
	if !verdict.Accepted {
		result.Outcome = Refused
		result.Why = fmt.Sprint(verdict.Reasons)
		if t.stillGood(judge, r) {
			return result, lease.Revalidate(ctx, llm, served.Version, began, "rescored")
		}
		return result, nil
	}
	result.Outcome = Accepted
	return result, nil
}

// quiet extends the served bundle when there is too little news to judge it
// by, for a bounded time after it was fitted.
func (t *Trainer) quiet(ctx context.Context, lease Lease, result Result, served Served, fitted time.Time) (Result, error) {
	result.Outcome = Quiet
	now := time.Now()
	if now.Sub(fitted) > t.config.QuietMost {
		result.Why = fmt.Sprintf("too few new rows for %s: not extended any more", t.config.QuietMost)
		return result, nil
	}
	return result, lease.Revalidate(ctx, result.LLM, served.Version, now, Quiet)
}

// fittedAt is when the served bundle was fitted; false when nothing is served
// or this build can't read it, which calls for a refit whatever is new.
func fittedAt(served Served) (time.Time, bool) {
	if served.Version == 0 {
		return time.Time{}, false
	}
	b, err := bundle.Decode(served.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return b.CreatedAt, true
}

// decidedAfter counts the samples decided after from.
func decidedAfter(all []sample, from time.Time) int {
	n := 0
	for i := range all {
		if all[i].decided.After(from) {
			n++
		}
	}
	return n
}

// contenders forecasts the held-out rows with all that are compared. A served
// bundle that this build can't evaluate does not compete.
func (t *Trainer) contenders(candidate *bundle.Bundle, served Served, learn, judge []sample) (rivals, error) {
	r := rivals{prior: priorContender(learn, judge)}
	e, err := candidate.Evaluator()
	if err != nil {
		return r, err
	}
	r.candidate = bundleContender(e, judge)
	if r.cart, err = cartContender(learn, judge, t.config.Seed); err != nil {
		return r, err
	}
	if served.Version == 0 {
		return r, nil
	}
	b, err := bundle.Decode(served.Bytes)
	if err == nil {
		e, err = b.Evaluator()
	}
	if err != nil {
		t.log.Warn("the served bundle can't be compared with", "version", served.Version, "error", err)
		return r, nil
	}
	c := bundleContender(e, judge)
	r.served = &c
	return r, nil
}

// publish stores the candidate with its verdict, served or not.
func (t *Trainer) publish(ctx context.Context, lease Lease, result *Result, candidate *bundle.Bundle) error {
	bytes, err := bundle.Encode(candidate)
	if err != nil {
		return err
	}
	verdict, err := json.Marshal(result.Verdict)
	if err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	metadata, err := json.Marshal(map[string]any{
		"schema": candidate.Schema.String(), "window": candidate.Window, "seed": candidate.Seed, "bytes": len(bytes),
	})
	if err != nil {
		return fmt.Errorf("write the metadata: %w", err)
	}
	interval, err := t.config.Interval(time.Now())
	if err != nil {
		return err
	}
	result.Version, err = lease.Publish(ctx, Published{
		LLM: result.LLM, Bytes: bytes, Metadata: metadata, Verdict: verdict,
		Accepted: result.Verdict.Accepted, MaxAge: maxAgeIntervals * interval,
	})
	return err
}

func withTTFT(all []sample) int {
	n := 0
	for i := range all {
		if !math.IsNaN(all[i].ttft) {
			n++
		}
	}
	return n
}
