package simulate

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Effect is what one setting makes of a number, against another.
type Effect struct {
	Metric string            `json:"metric"` // "TTFT mean", "TTFT p90", ... "failed", "hit rate"
	Before feature.Number    `json:"before"` // means over the seeds; seconds or shares
	After  feature.Number    `json:"after"`
	Change evaluate.Interval `json:"change"` // after/before - 1 where it is relative, else after - before

	Relative bool `json:"relative"` // of latencies; not of shares
}

// An effect is taken to be wrong, as by a standard deviation of its logarithm, by a
// part of what the check found to be off, for what is wrong with a model is wrong
// under both policies and mostly cancels; by a share of itself; and by a little. On 90
// effects whose truth is known, and beside what chance there is in them and in the
// truth, those above 10 % came out wrong by 13 to 16 % of themselves, most by less and
// some near a collapse by more, and those below 5 % by about one point.
const (
	carried  = 0.3
	ofItself = 0.15
	little   = 0.01
)

// Compare gives the effects of after against before, two settings' runs with equal
// seeds, with 95 % intervals. They are of what another seed and another log of the
// same kind would show, wider by what a model is taken to be wrong by; c may be
// nil, and then they are too narrow.
func Compare(before, after []Result, c *Check) []Effect {
	var out []Effect
	for _, of := range latencies {
		for _, q := range []struct {
			name string
			of   func(*Times) feature.Seconds
		}{
			{"mean", func(t *Times) feature.Seconds { return t.Mean }},
			{"p90", func(t *Times) feature.Seconds { return t.P90 }},
		} {
			value := func(m *Metrics) float64 { return float64(q.of(of.times(m))) }
			e := Effect{Metric: of.name + " " + q.name, Relative: true}
			wrong := 0.0
			if c != nil {
				wrong = carried * math.Abs(math.Log(value(&c.Simulated)/value(&c.Logged)))
			}
			e.Before, e.After = over(before, value), over(after, value)
			var logs []float64
			for i := range min(len(before), len(after)) {
				logs = append(logs, math.Log(value(&after[i].Metrics)/value(&before[i].Metrics)))
			}
			mean, half := spread(logs)
			half = math.Hypot(half, normal*math.Hypot(wrong, math.Hypot(ofItself*mean, little)))
			e.Change = evaluate.Interval{
				Mean: feature.Number(math.Expm1(mean)), Low: feature.Number(math.Expm1(mean - half)), High: feature.Number(math.Expm1(mean + half)),
			}
			out = append(out, e)
		}
	}
	for _, share := range []struct {
		name string
		of   func(*Metrics) float64
	}{
		{"failed", func(m *Metrics) float64 { return float64(m.Failed) }},
		{"hit rate", func(m *Metrics) float64 { return float64(m.HitRate) }},
	} {
		e := Effect{Metric: share.name, Before: over(before, share.of), After: over(after, share.of)}
		var diffs []float64
		for i := range min(len(before), len(after)) {
			diffs = append(diffs, share.of(&after[i].Metrics)-share.of(&before[i].Metrics))
		}
		mean, half := spread(diffs)
		if c != nil {
			off := carried * (share.of(&c.Simulated) - share.of(&c.Logged))
			half = math.Hypot(half, normal*math.Hypot(off, ofItself*mean))
		}
		e.Change = evaluate.Interval{Mean: feature.Number(mean), Low: feature.Number(mean - half), High: feature.Number(mean + half)}
		out = append(out, e)
	}
	return out
}

// normal is the 97.5 % quantile of the normal distribution.
const normal = 1.959964

// spread is a mean and half of the interval in which the next value would lie: the
// seeds differ by what the log does not tell of the engines, which more of them do
// not average out.
func spread(values []float64) (mean, half float64) {
	n := float64(len(values))
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	if n < 2 {
		return values[0], math.NaN()
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	return mean, distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation * math.Sqrt(1+1/n)
}

func over(runs []Result, of func(*Metrics) float64) feature.Number {
	sum := 0.0
	for i := range runs {
		sum += of(&runs[i].Metrics)
	}
	return feature.Number(sum / float64(len(runs)))
}
