package learn

import (
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Sample is one row a fit can use. A target it has no value for is NaN.
type Sample struct {
	Decided  time.Time
	Finished time.Time // when its outcome was known
	Endpoint string    // that served
	Class    string    // of the endpoint
	Outdated bool      // decided before outcomes of its class moved: weighs little
	Vector   feature.Vector
	TTFT     float64 // ln(actual/prior), with the prior of the vector
	TPOT     float64 // likewise
}

// SampleOf is what a row teaches; false when it teaches nothing. Only what was
// observed of the endpoint that was decided on is a sample: no errors, no
// aborts, no retries, none made by another schema, none whose vector no bundle
// would forecast from, and none of which it is not known when it ended.
func SampleOf(row *feature.Row) (Sample, bool) {
	o := &row.Outcome
	if row.Schema != feature.Schema || o.Status != feature.OK || o.Endpoint != row.Endpoint || o.Attempt != 1 ||
		o.FinishedAt.IsZero() || !bundle.Valid(&row.Vector) {
		return Sample{}, false
	}
	return Measured(Sample{Decided: row.DecidedAt, Finished: o.FinishedAt, Endpoint: row.Endpoint, Class: row.Class, Vector: row.Vector}, o.TTFT, o.TPOT)
}

// Measured fills in the labels of s from what was measured, unknown being NaN;
// false when neither can be learned from.
func Measured(s Sample, ttft, tpot feature.Seconds) (Sample, bool) {
	prior := s.Vector.Prior()
	s.TTFT, s.TPOT = logRatio(ttft, prior.TTFT), logRatio(tpot, prior.TPOT)
	return s, s.TTFT == s.TTFT || s.TPOT == s.TPOT
}

func logRatio(actual, prior feature.Seconds) float64 {
	if !(actual > 0 && actual < longest) || !(prior > 0 && prior < longest) {
		return math.NaN()
	}
	return math.Log(float64(actual) / float64(prior))
}

// Label is what the head learns of s; NaN when s has none.
func (s *Sample) Label(target bundle.Target) float64 {
	if target == bundle.TTFTP50 || target == bundle.TTFTP90 {
		return s.TTFT
	}
	return s.TPOT
}

// Split cuts samples, which are in order of decision, by time: the latest share
// judges, and of the rest only those whose outcome was known before the first
// of the judges was decided are learned from.
func Split(all []Sample, share float64) (learned, judge []Sample) {
	cut := len(all) - int(math.Ceil(share*float64(len(all))))
	if cut <= 0 || cut >= len(all) {
		return nil, nil
	}
	judge = all[cut:]
	from := judge[0].Decided
	for _, s := range all[:cut] {
		if s.Finished.Before(from) {
			learned = append(learned, s)
		}
	}
	return learned, judge
}

// Classes lists the endpoint classes of the samples, sorted.
func Classes(all []Sample) []string {
	var names []string
	for i := range all {
		names = append(names, all[i].Class)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Vectors lists the vectors of the samples.
func Vectors(all []Sample) []feature.Vector {
	out := make([]feature.Vector, len(all))
	for i := range all {
		out[i] = all[i].Vector
	}
	return out
}
