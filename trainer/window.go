package trainer

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

// sample is one row a refit can use. A target it has no value for is NaN.
type sample struct {
	decided  time.Time
	finished time.Time
	class    string
	vector   feature.Vector
	prior    feature.Prior
	ttft     float64 // ln(actual/prior)
	tpot     float64
}

// longest is the longest latency that is believed, in seconds.
const longest = 3600

// samples reads the window of one LLM. Only what was observed of the endpoint
// that was decided on is a sample: no errors, no aborts, no retries, none made
// by another schema, none whose vector no bundle would forecast from, and none
// of which it is not known when it ended.
func (t *Trainer) samples(ctx context.Context, llm string, now time.Time) ([]sample, error) {
	var out []sample
	for row, err := range t.store.Window(ctx, llm, now.Add(-t.config.Window), now, t.config.WindowRows) {
		if err != nil {
			return nil, err
		}
		if s, ok := sampleOf(&row); ok {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b sample) int { return cmp.Compare(a.decided.UnixNano(), b.decided.UnixNano()) })
	return out, nil
}

func sampleOf(row *feature.Row) (sample, bool) {
	o := &row.Outcome
	if row.Schema != feature.Schema || o.Status != feature.OK || o.Endpoint != row.Endpoint || o.Attempt != 1 ||
		o.FinishedAt.IsZero() || !bundle.Valid(&row.Vector) {
		return sample{}, false
	}
	prior := row.Vector.Prior()
	s := sample{
		decided: row.DecidedAt, finished: o.FinishedAt, class: row.Class, vector: row.Vector, prior: prior,
		ttft: logRatio(o.TTFT, prior.TTFT), tpot: logRatio(o.TPOT, prior.TPOT),
	}
	return s, s.ttft == s.ttft || s.tpot == s.tpot
}

func logRatio(actual, prior feature.Seconds) float64 {
	if !(actual > 0 && actual < longest) || !(prior > 0 && prior < longest) {
		return math.NaN()
	}
	return math.Log(float64(actual) / float64(prior))
}

// split cuts samples by time: the latest share judges, and of the rest only
// those whose outcome was known before the first of the judges was decided
// are learned from.
func split(all []sample, share float64) (learn, judge []sample) {
	cut := len(all) - int(math.Ceil(share*float64(len(all))))
	if cut <= 0 || cut >= len(all) {
		return nil, nil
	}
	judge = all[cut:]
	from := judge[0].decided
	for _, s := range all[:cut] {
		if s.finished.Before(from) {
			learn = append(learn, s)
		}
	}
	return learn, judge
}

// classes lists the endpoint classes of the samples, sorted.
func classes(all []sample) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.class)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func vectors(all []sample) []feature.Vector {
	out := make([]feature.Vector, len(all))
	for i := range all {
		out[i] = all[i].vector
	}
	return out
}
