package trainer

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/drift"
	"github.com/spillway-llm/spillway/trainer/learn"
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

	// moved is since when outcomes of an endpoint class are other ones, where they
	// have ever moved: what came before teaches what no longer is.
	moved map[string]time.Time
	// wanted is how many more outcomes of a class make a refit worth while that
	// learns from what came since they moved; 0 wants none.
	wanted map[string]int
}

// Drift is a move of outcomes away from their forecasts.
type Drift struct {
	LLM    string
	Class  string // of the endpoints
	Signal drift.Signal
	Since  time.Time // decision of the first outcome that seems to have moved
}

// pause waits for the next refit of the schedule. It ends early when outcomes have
// drifted, and once more when enough came since to learn from. It looks at new
// ones every DriftPoll. False when ctx is done.
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
		drifts, ripe, err := t.look(ctx)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("outcomes were not looked at for drift", "error", err)
		}
		for _, d := range drifts {
			t.metrics.drifts.WithLabelValues(string(d.Signal)).Inc()
			t.log.Info("outcomes have drifted from their forecasts: refitting early", "llm", d.LLM, "class", d.Class, "signal", d.Signal, "since", d.Since)
		}
		if len(drifts) > 0 || ripe {
			return true
		}
	}
}

// look reads the outcomes since it was called last. They are ripe when as many
// came since some moved as a refit wants.
func (t *Trainer) look(ctx context.Context) (drifts []Drift, ripe bool, err error) {
	interval, err := t.config.Interval(time.Now())
	if err != nil {
		return nil, false, err
	}
	llms, err := t.store.LLMs(ctx)
	if err != nil {
		return nil, false, err
	}
	until := time.Now().Add(-min(mostSettle, interval/5))
	for _, llm := range llms {
		w := t.watched[llm]
		if w == nil {
			w = &watched{from: until, by: map[string]*drift.Watch{}, moved: map[string]time.Time{}, wanted: map[string]int{}}
			t.watched[llm] = w
			continue
		}
		if !w.from.Before(until) {
			continue
		}
		for row, err := range t.store.Window(ctx, llm, w.from, until, watchRows) {
			if err != nil {
				return drifts, ripe, fmt.Errorf("read the outcomes of %s: %w", llm, err)
			}
			w.from = row.DecidedAt.Add(time.Microsecond) // as exact as the store: it is not looked at again
			if w.ripens(&row) {
				t.log.Info("enough outcomes came since they drifted: refitting early", "llm", llm, "class", row.Class, "since", w.moved[row.Class])
				ripe = true
			}
			if s, since, moved := w.observe(&row); moved {
				w.moved[row.Class], w.wanted[row.Class] = since, sinceMoved*t.config.MinHeldOut
				drifts = append(drifts, Drift{llm, row.Class, s, since})
			}
		}
		w.from = until
	}
	return drifts, ripe, nil
}

// ripens reports whether this outcome is the last that was wanted.
func (w *watched) ripens(row *feature.Row) bool {
	n := w.wanted[row.Class]
	if n == 0 {
		return false
	}
	if s, ok := learn.SampleOf(row); !ok || s.TTFT != s.TTFT { // a refit could not judge by it
		return false
	}
	w.wanted[row.Class] = n - 1
	return n == 1
}

// observe takes in one outcome of the endpoint that was decided on. The first
// one of another bundle begins anew: what moved, it may have learned.
func (w *watched) observe(row *feature.Row) (s drift.Signal, since time.Time, moved bool) {
	o := &row.Outcome
	if row.BundleUsed < w.bundle || row.BundleUsed == 0 || !row.Forecast.Known() ||
		o.Status != feature.OK || o.Attempt != 1 || o.Endpoint != row.Endpoint {
		return "", since, false
	}
	if row.BundleUsed > w.bundle {
		w.bundle = row.BundleUsed
		clear(w.by)
	}
	watch := w.by[row.Class]
	if watch == nil {
		if len(w.by) >= mostWatched {
			return "", since, false
		}
		watch = drift.NewWatch()
		w.by[row.Class] = watch
	}
	return watch.Observe(row.DecidedAt, row.Forecast, o.TTFT, o.TPOT)
}
