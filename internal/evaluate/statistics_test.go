package evaluate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/evaluate"
)

var nan = math.NaN()

func TestQuantileInterpolates(t *testing.T) {
	values := []float64{1, 2, 4}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.5, 0.5: 2, 0.75: 3, 1: 4} {
		if got := evaluate.Quantile(values, q); got != want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", values, q, got, want)
		}
	}
	if got := evaluate.Quantile(nil, 0.5); got == got {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestMeanLeavesOutTheUnknown(t *testing.T) {
	if got := evaluate.Mean([]float64{1, nan, 5}); got != 3 {
		t.Errorf("mean %v, want 3", got)
	}
	if got := evaluate.Mean([]float64{nan}); got == got {
		t.Errorf("the mean of nothing is %v", got)
	}
}

// The constant with the least pinball loss is the quantile itself.
func TestPinballIsLeastAtTheQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	values := make([]float64, 999)
	for i := range values {
		values[i] = rng.ExpFloat64()
	}
	slices.Sort(values)
	for _, q := range []float64{0.1, 0.5, 0.9} {
		loss := func(c float64) (sum float64) {
			for _, v := range values {
				sum += evaluate.Pinball(q, v, c)
			}
			return sum
		}
		best := evaluate.Quantile(values, q)
		for _, other := range []float64{best - 0.1, best + 0.1, 0, 3} {
			if loss(other) <= loss(best) {
				t.Errorf("q %v: saying %v costs no more than saying %v", q, other, best)
			}
		}
	}
}

// An interval must hold the truth about as often as it says, for values that
// have nothing to do with each other.
func TestBootstrapIntervalHoldsTheTruth(t *testing.T) {
	held := 0
	const runs = 200
	for run := range runs {
		rng := rand.New(rand.NewPCG(uint64(run), 2))
		values := make([]float64, 400)
		for i := range values {
			values[i] = 3 + rng.NormFloat64()
			if i%7 == 0 {
				values[i] = nan
			}
		}
		if i := evaluate.Bootstrap(values, 1); i.Low <= 3 && 3 <= i.High {
			held++
		}
	}
	if held < 180 || held > 199 { // 190 expected
		t.Errorf("%d of %d intervals hold the mean", held, runs)
	}
	if i := evaluate.Bootstrap([]float64{nan}, 1); i.Mean == i.Mean || i.Low == i.Low {
		t.Errorf("the interval of nothing is %v", i)
	}
}

// Neither may neighbours that resemble each other make it too narrow.
func TestBootstrapIntervalHoldsTheTruthOfCorrelatedRows(t *testing.T) {
	for _, c := range []struct {
		n           int
		correlation float64
		least       int // of 400 intervals, 380 expected
	}{{100, 0.5, 360}, {100, 0.8, 345}, {100, 0.9, 330}, {2000, 0.9, 355}} {
		held := 0
		for run := range 400 {
			rng := rand.New(rand.NewPCG(uint64(run), 3))
			values, x := make([]float64, c.n), rng.NormFloat64()
			for i := range values {
				x = c.correlation*x + math.Sqrt(1-c.correlation*c.correlation)*rng.NormFloat64()
				values[i] = x
			}
			if i := evaluate.Bootstrap(values, 1); i.Low <= 0 && 0 <= i.High {
				held++
			}
		}
		if held < c.least {
			t.Errorf("%d rows of correlation %v: %d of 400 intervals hold the mean, want %d", c.n, c.correlation, held, c.least)
		}
	}
}

// The correlation of a first-order series lasts (1+r)/(1-r) rows.
func TestCorrelationTime(t *testing.T) {
	for _, r := range []float64{-0.5, 0, 0.5, 0.8} {
		rng := rand.New(rand.NewPCG(1, 4))
		values, x := make([]float64, 40_000), 0.0
		for i := range values {
			x = r*x + rng.NormFloat64()
			values[i] = x
		}
		for _, n := range []int{2000, len(values)} { // row by row, and in bins
			if got, want := evaluate.CorrelationTime(values[:n]), max(1, (1+r)/(1-r)); math.Abs(got/want-1) > 0.25 {
				t.Errorf("correlation %v lasts %.2f of %d rows, want %.2f", r, got, n, want)
			}
		}
	}
	for _, nothing := range [][]float64{nil, {1}, {2, 2, 2, 2}} {
		if got := evaluate.CorrelationTime(nothing); got != 1 {
			t.Errorf("that of %v is %v, want 1", nothing, got)
		}
	}
}

func dispatches(t *rapid.T) []evaluate.Dispatched {
	at := time.Unix(1000, 0)
	rows := make([]evaluate.Dispatched, rapid.IntRange(0, 60).Draw(t, "rows"))
	number := rapid.SampledFrom([]float64{1, 2, 3, 4, nan})
	for i := range rows {
		at = at.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Millisecond)
		rows[i] = evaluate.Dispatched{
			At: at, LLM: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "llm"), Endpoint: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "endpoint"),
			Forecast: number.Draw(t, "forecast"), Actual: number.Draw(t, "actual"),
		}
	}
	return rows
}

// The share is that of every pair looked at one by one.
func TestConcordanceIsThatOfAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := dispatches(t)
		var good, all float64
		for i, a := range rows {
			for _, b := range rows[i+1:] {
				if a.LLM != b.LLM || a.Endpoint == b.Endpoint || b.At.Sub(a.At) > evaluate.PairWindow ||
					a.Forecast != a.Forecast || b.Forecast != b.Forecast || !(a.Actual != b.Actual) || a.Actual != a.Actual || b.Actual != b.Actual {
					continue
				}
				all++
				switch d := (a.Forecast - b.Forecast) * (a.Actual - b.Actual); {
				case d > 0:
					good++
				case d == 0:
					good += 0.5
				}
			}
		}
		got := float64(evaluate.Concordance(rows, 1).Mean)
		if want := good / all; !(math.Abs(got-want) < 1e-12) && (got == got || all > 0) {
			t.Fatalf("concordance %v, want %v of %v pairs", got, want, all)
		}
	})
}

// Two runs that follow each other are not paired with each other.
func TestConcordanceOfTwoRuns(t *testing.T) {
	at := func(seconds int64, endpoint string, forecast, actual float64) evaluate.Dispatched {
		return evaluate.Dispatched{At: time.Unix(seconds, 0), Endpoint: endpoint, Forecast: forecast, Actual: actual}
	}
	rows := []evaluate.Dispatched{at(10, "a", 1, 1), at(11, "b", 2, 2), at(9, "a", 9, 0.5), at(10, "b", 10, 0.6)}
	if i := evaluate.Concordance(rows, 1); i.Mean != 1 { // each run is perfect, the second far too high
		t.Errorf("concordance %v", i)
	}
}

func TestConcordanceOfForecastsThatKnowAndOnesThatDoNot(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	rows := make([]evaluate.Dispatched, 2000)
	for i := range rows {
		actual := rng.ExpFloat64()
		rows[i] = evaluate.Dispatched{At: time.Unix(int64(i), 0), Endpoint: string(rune('a' + rng.IntN(4))), Forecast: 7 * actual, Actual: actual}
	}
	if i := evaluate.Concordance(rows, 1); i.Mean != 1 || i.Low != 1 {
		t.Errorf("a forecast that is 7 times too high everywhere orders perfectly, but: %v", i)
	}
	for i := range rows {
		rows[i].Forecast = rng.Float64()
	}
	if i := evaluate.Concordance(rows, 1); !(i.Low < 0.5 && 0.5 < i.High) || i.High-i.Low > 0.1 {
		t.Errorf("guesses: %v", i)
	}
}
