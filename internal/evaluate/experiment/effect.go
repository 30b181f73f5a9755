package experiment

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// pair is one number of both blocks of a pair, in the order of the arms.
type pair [2]float64

func (p pair) known() bool { return p[0] == p[0] && p[1] == p[1] }

// tQuantile is that of Student's t distribution.
func tQuantile(q, freedom float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile(q)
}

var unknownInterval = evaluate.Interval{Mean: feature.Number(feature.Unknown), Low: feature.Number(feature.Unknown), High: feature.Number(feature.Unknown)}

// interval is the mean of independent numbers with its 95 % interval.
func interval(values []float64) evaluate.Interval {
	if len(values) < 2 {
		return unknownInterval
	}
	mean := evaluate.Mean(values)
	half := tQuantile(0.975, float64(len(values)-1)) * deviation(values) / math.Sqrt(float64(len(values)))
	return evaluate.Interval{Mean: feature.Number(mean), Low: feature.Number(mean - half), High: feature.Number(mean + half)}
}

// deviation is the standard deviation of a sample.
func deviation(values []float64) float64 {
	mean, sum := evaluate.Mean(values), 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}

// effectOf compares the arms by the pairs of which both values are known.
func effectOf(q Quantity, pairs []pair, detect float64, seed uint64) Effect {
	e := Effect{Quantity: q, Unit: q.Unit(), Difference: unknownInterval, Relative: unknownInterval, Carry: unknownInterval, P: feature.Number(feature.Unknown)}
	var differences []float64
	var sums pair
	for _, p := range pairs {
		if p.known() {
			differences = append(differences, p[1]-p[0])
			sums[0] += p[0]
			sums[1] += p[1]
		}
	}
	n := float64(len(differences))
	e.Pairs = len(differences)
	e.Arms = [2]feature.Number{feature.Number(sums[0] / n), feature.Number(sums[1] / n)}
	if n < 2 {
		return e
	}
	e.Difference = interval(differences)
	e.P = feature.Number(randomised(differences, seed))
	e.Relative = relative(pairs, sums)
	if base := math.Abs(sums[0] / n); base > 0 {
		e.Wanted = wanted(deviation(differences) / (detect * base))
	}
	return e
}

// relative is by what share the second arm differs from the first: a ratio of means.
// Its interval is that of its logarithm, of what each pair moves it by to first
// order: a ratio is never below 0, and errs upwards further than downwards. Unknown
// where a mean is 0.
func relative(pairs []pair, sums pair) evaluate.Interval {
	if !(sums[0] > 0 && sums[1] > 0) {
		return unknownInterval
	}
	n := 0.0
	for _, p := range pairs {
		if p.known() {
			n++
		}
	}
	ratio := math.Log(sums[1] / sums[0])
	var moves []float64
	for _, p := range pairs {
		if p.known() {
			moves = append(moves, ratio+n*(p[1]/sums[1]-p[0]/sums[0]))
		}
	}
	i := interval(moves)
	for _, end := range []*feature.Number{&i.Mean, &i.Low, &i.High} {
		*end = feature.Number(math.Expm1(float64(*end)))
	}
	return i
}

// mostWanted is where more pairs are as good as never.
const mostWanted = 1_000_000

// wanted is how many pairs find an effect whose noise in one pair is so many times
// as great, in 80 of 100 experiments by a test at 5 %: the usual formula of a
// paired t test, from which the fewest that satisfy it are found.
func wanted(noise float64) int {
	if !(noise >= 0) || math.IsInf(noise, 0) {
		return 0
	}
	n := math.Pow((distuv.UnitNormal.Quantile(0.975)+distuv.UnitNormal.Quantile(0.8))*noise, 2)
	if n > mostWanted {
		return 0
	}
	pairs := max(LeastPairs, int(n))
	for {
		z := tQuantile(0.975, float64(pairs-1)) + tQuantile(0.8, float64(pairs-1))
		if float64(pairs) >= z*z*noise*noise {
			return pairs
		}
		pairs++
	}
}
