package trainer

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/drift"
)

const (
	// mostSettle is how long a decision's outcome is waited for before it is
	// looked at: a look at once would see the quick ones alone.
	mostSettle = 2 * time.Minute
	// watchRows bounds the outcomes of one look, the newest of them: far more
	// than a drift takes to show.
	watchRows = 5000
	// mostWatched bounds the endpoint classes of one LLM that are told apart.
	mostWatched = 64
)

// watched is what is known of the outcomes of one LLM.
type watched struct {
	from   time.Time // decisions before it were looked at
	bundle int64     // behind their forecasts, the newest one seen
	by     map[string]*drift.Watch
}

// Drift is a move of outcomes away from their forecasts.
type Drift struct {
	LLM    string
	Class  string // of the endpoints
	Signal drift.Signal
}

// pause waits for the next refit of the schedule, and ends early when outcomes
// have drifted. It looks at new ones every DriftPoll. False when ctx is done.
func (t *Trainer) pause(ctx context.Context, until time.Time) bool {
	for {
		look := until
		if t.config.DriftPoll > 0 {
			look = time.Now().Add(t.config.DriftPoll)
		}
		if look.After(until) {
			look = until
		}
		timer := time.NewTimer(time.Until(look))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if !time.Now().Before(until) {
			return true
		}
		drifts, err := t.look(ctx)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("outcomes were not looked at for drift", "error", err)
		}
		for _, d := range drifts {
			t.metrics.drifts.WithLabelValues(string(d.Signal)).Inc()
			t.log.Info("outcomes have drifted from their forecasts: refitting early", "llm", d.LLM, "class", d.Class, "signal", d.Signal)
		}
		if len(drifts) > 0 {
			return true
		}
	}
}

// look reads the outcomes since it was called last.
func (t *Trainer) look(ctx context.Context) (drifts []Drift, err error) {
	interval, err := t.config.Interval(time.Now())
	if err != nil {
		return nil, err
	}
	llms, err := t.store.LLMs(ctx)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(-min(mostSettle, interval/5))
	for _, llm := range llms {
		w := t.watched[llm]
		if w == nil {
			w = &watched{from: until, by: map[string]*drift.Watch{}}
			t.watched[llm] = w
			continue
		}
		if !w.from.Before(until) {
			continue
		}
		for row, err := range t.store.Window(ctx, llm, w.from, until, watchRows) {
			if err != nil {
				return drifts, fmt.Errorf("read the outcomes of %s: %w", llm, err)
			}
			if s, moved := w.observe(&row); moved {
				drifts = append(drifts, Drift{llm, row.Class, s})
			}
		}
		w.from = until
	}
	return drifts, nil
}

// observe takes in one outcome of the endpoint that was decided on. The first
// one of another bundle begins anew: what moved, it may have learned.
func (w *watched) observe(row *feature.Row) (drift.Signal, bool) {
	o := &row.Outcome
	if row.BundleUsed < w.bundle || row.BundleUsed == 0 || !row.Forecast.Known() ||
		o.Status != feature.OK || o.Attempt != 1 || o.Endpoint != row.Endpoint {
		return "", false
	}
	if row.BundleUsed > w.bundle {
		w.bundle = row.BundleUsed
		clear(w.by)
	}
	watch := w.by[row.Class]
	if watch == nil {
		if len(w.by) >= mostWatched {
			return "", false
		}
		watch = drift.NewWatch()
		w.by[row.Class] = watch
	}
	return watch.Observe(row.Forecast, o.TTFT, o.TPOT)
}
