package evaluate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

var unknown = feature.Seconds(feature.Unknown)

func quantiles(p50, p90 float64) feature.Quantiles {
	return feature.Quantiles{P50: feature.Seconds(p50), P90: feature.Seconds(p90)}
}

// draw makes a case of an endpoint: actual latencies log-normal about the
// forecast with a spread of sigma, the forecast bias times too long.
func draw(rng *rand.Rand, i int, endpoint string, bias, sigma float64) evaluate.Case {
	ttft, tpot := math.Exp(rng.NormFloat64()), 0.02*math.Exp(rng.NormFloat64()/3)
	wide := math.Exp(1.2815515655446004 * sigma)
	return evaluate.Case{
		At: time.Unix(1e9, 0).Add(time.Duration(i) * 700 * time.Millisecond), LLM: "qwen", Endpoint: endpoint, Explored: rng.IntN(10) == 0,
		PromptTokens: float64(rng.IntN(100000)), Load: float64(rng.IntN(40)), CensoredAt: unknown,
		TTFT: feature.Seconds(ttft * math.Exp(sigma*rng.NormFloat64())), TPOT: feature.Seconds(tpot * math.Exp(sigma*rng.NormFloat64())),
		Forecasts: []feature.Forecast{{TTFT: quantiles(bias*ttft, bias*ttft*wide), TPOT: quantiles(bias*tpot, bias*tpot*wide)}},
	}
}

func near(t *testing.T, what string, got feature.Number, want, within float64) {
	t.Helper()
	if !(math.Abs(float64(got)-want) <= within) {
		t.Errorf("%s: %v, want %v to %v", what, got, want, within)
	}
}

// The scores of a forecast that is made to be 10 % too long, with an honest
// interval otherwise, are those that follow from it.
func TestScoresOfAKnownForecast(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	f := evaluate.NewForecasts(evaluate.Options{Series: []string{"ours"}})
	const rows, sigma = 20000, 0.3
	for i := range rows {
		c := draw(rng, i, string(rune('a'+i%5)), 1.1, sigma)
		f.Add(&c)
	}
	f.Skip(evaluate.Failed)
	r := f.Report(1)
	if r.Rows != rows+1 || r.Judged != rows || len(r.LeftOut) != 1 || r.LeftOut[0].Rows != 1 || r.LLM != "qwen" {
		t.Errorf("%d rows, %d judged, left out %v", r.Rows, r.Judged, r.LeftOut)
	}
	for _, q := range []evaluate.Quality{r.Series[0].TTFT, r.Series[0].TPOT} {
		near(t, "bias", q.All.Bias, 1.1, 0.01)
		near(t, "width", q.All.Width, math.Exp(1.28155*sigma), 1e-4)
		phi := func(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
		near(t, "coverage", q.All.Coverage.Share, phi(1.28155+math.Log(1.1)/sigma), 0.01)
		near(t, "median of actual/forecast", q.All.RatioP50, 1/1.1, 0.01)
		near(t, "p90 of actual/forecast", q.All.RatioP90, math.Exp(1.28155*sigma)/1.1, 0.02)
		// E|N(m,s)|, halved.
		m := math.Log(1.1)
		loss := sigma*math.Sqrt(2/math.Pi)*math.Exp(-m*m/2/sigma/sigma) + m*(1-2*phi(-m/sigma))
		near(t, "pinball of the p50", q.All.PinballP50, loss/2, 0.003)
		near(t, "bias spread", q.BiasSpread.Typical, 0, 0.01)
		if n := len(q.ByLoad); n != 10 {
			t.Errorf("%d deciles of load", n)
		}
		if n := len(q.ByEndpoint); n != 5 {
			t.Errorf("%d endpoints", n)
		}
		for _, x := range q.Reliability {
			if x.Claimed == 0.5 {
				near(t, "reliability at 0.5", x.Came, phi(m/sigma), 0.01)
			}
		}
		if n := len(q.Over); n < 100 || n > 240 {
			t.Errorf("%d moments", n)
		}
	}
	if c := r.Series[0].TTFT.Concordance; c.Mean < 0.75 || c.Mean > 0.95 || !(c.Low < c.Mean && c.Mean < c.High) {
		t.Errorf("concordance %v", c)
	}
}

// Groups of every kind hold each row once, and the whole is what a walk over
// the rows gives.
func TestGroupsAddUpToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rows := rapid.IntRange(1, 300).Draw(t, "rows")
		f := evaluate.NewForecasts(evaluate.Options{Series: []string{"ours"}})
		var ape, off, actual, log float64
		var apes []float64
		var measured, censored, covered, explored int64
		for i := range rows {
			c := draw(rng, i, string(rune('a'+rng.IntN(4))), 0.8, 0.5)
			switch rng.IntN(8) {
			case 0: // gave up early: nothing can be said
				c.TTFT, c.CensoredAt = unknown, c.Forecasts[0].TTFT.P50/2
			case 1: // gave up late: a miss
				c.TTFT, c.CensoredAt = unknown, c.Forecasts[0].TTFT.P90*2
				censored++
			case 2:
				c.Load = math.NaN()
			}
			f.Add(&c)
			if y := float64(c.TTFT); y == y {
				p := float64(c.Forecasts[0].TTFT.P50)
				measured++
				if c.Explored {
					explored++
				}
				apes = append(apes, math.Abs(p-y)/y)
				ape += math.Abs(p-y) / y
				off += math.Abs(p - y)
				actual += y
				log += math.Log(p / y)
				if c.TTFT <= c.Forecasts[0].TTFT.P90 {
					covered++
				}
			}
		}
		q := f.Report(1).Series[0].TTFT
		if q.All.Rows != measured || q.All.Censored != censored || q.Explored.Rows != explored || q.Exploited.Rows != measured-explored {
			t.Fatalf("%+v: want %d rows, %d censored, %d explored", q.All, measured, censored, explored)
		}
		for kind, groups := range map[string][]evaluate.Group{"load": q.ByLoad, "endpoint": q.ByEndpoint, "prompt": q.ByPrompt} {
			var rows, lost int64
			var pairs float64
			for _, g := range groups {
				rows, lost, pairs = rows+g.Rows, lost+g.Censored, pairs+g.Pairs
			}
			if rows != measured || lost != censored || pairs != q.All.Pairs {
				t.Fatalf("by %s: %d rows, %d censored, %v pairs", kind, rows, lost, pairs)
			}
		}
		if measured == 0 {
			return
		}
		slices.Sort(apes)
		n := float64(measured)
		for what, x := range map[string][2]float64{
			"MAPE": {float64(q.All.MAPE), ape / n}, "WAPE": {float64(q.All.WAPE), off / actual}, "bias": {float64(q.All.Bias), math.Exp(log / n)},
			"coverage": {float64(q.All.Coverage.Share), float64(covered) / float64(measured+censored)},
		} {
			if math.Abs(x[0]-x[1]) > 1e-9*x[1] {
				t.Fatalf("%s %v, want %v", what, x[0], x[1])
			}
		}
		if lower := apes[(len(apes)-1)/2]; math.Abs(float64(q.All.MedianAPE)-lower) > 0.006*lower {
			t.Fatalf("median APE %v, want %v", q.All.MedianAPE, lower)
		}
	})
}

// What an endpoint's forecasts are off by, beyond what all are, is found and
// told from noise.
func TestBiasSpreadIsTheDifferenceBetweenEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		bias        func(i int) float64
		least, most float64
	}{
		{"common", func(int) float64 { return 1.5 }, 0, 0.02},
		{"unlike", func(i int) float64 { return math.Exp(0.2 * float64(i%2)) }, 0.09, 0.13}, // sd 0.1
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		f := evaluate.NewForecasts(evaluate.Options{Series: []string{"ours"}})
		for i := range 8000 {
			e := rng.IntN(16)
			x := draw(rng, i, fmt.Sprint(e), c.bias(e), 0.4)
			f.Add(&x)
		}
		s := f.Report(1).Series[0].TTFT.BiasSpread
		if s.Endpoints != 16 || float64(s.Typical) < c.least || float64(s.Typical) > c.most || s.Range < s.Typical {
			t.Errorf("%s: %+v, want from %v to %v", c.name, s, c.least, c.most)
		}
	}
}

// The ends of a Wilson interval are the shares from which the seen one is just
// z standard errors away: its definition.
func TestWilsonEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 5000).Draw(t, "n")
		k := rapid.Int64Range(0, n).Draw(t, "k")
		w := evaluate.Wilson(k, n)
		for _, end := range []float64{float64(w.Low), float64(w.High)} {
			if end <= 1e-12 || end >= 1-1e-12 {
				continue
			}
			if z := math.Abs(float64(w.Share)-end) / math.Sqrt(end*(1-end)/float64(n)); math.Abs(z-2.5758) > 1e-3 {
				t.Fatalf("%d of %d: %v lies %v standard errors away", k, n, end, z)
			}
		}
		if w.Low > w.Share || w.High < w.Share {
			t.Fatalf("%d of %d: %+v", k, n, w)
		}
	})
	if w := evaluate.Wilson(0, 0); w.Share == w.Share {
		t.Errorf("a share of nothing: %+v", w)
	}
}

func row() feature.Row {
	load := feature.Load{Ledger: feature.Ledger{Requests: 3}}
	v := feature.Of(feature.Request{PromptTokens: 900}, load, feature.Prior{TTFT: 0.5, TPOT: 0.02})
	f := feature.Forecast{TTFT: quantiles(0.4, 0.6), TPOT: quantiles(0.02, 0.03)}
	return feature.Row{
		DecidedAt: time.Unix(7, 0), LLM: "qwen", Endpoint: "a", Vector: v, Forecast: f, Corrected: f,
		Outcome: feature.Outcome{Status: feature.OK, Attempt: 1, Endpoint: "a", TTFT: 0.5, TPOT: 0.02, CensoredAt: unknown},
	}
}

func TestCaseOfARow(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(*feature.Row)
		want evaluate.LeftOut
	}{
		{"served", func(*feature.Row) {}, ""},
		{"no TPOT", func(r *feature.Row) { r.Outcome.TPOT = unknown }, ""},
		{"gave up after a while", func(r *feature.Row) {
			r.Outcome.Status, r.Outcome.TTFT, r.Outcome.TPOT, r.Outcome.CensoredAt = feature.ClientAbort, unknown, unknown, 3
		}, ""},
		{"failed at once", func(r *feature.Row) { r.Outcome.Status = feature.UpstreamError }, evaluate.Failed},
		{"second attempt", func(r *feature.Row) { r.Outcome.Attempt = 2 }, evaluate.Retried},
		{"served elsewhere", func(r *feature.Row) { r.Outcome.Endpoint = "b" }, evaluate.Retried},
		{"nothing measured", func(r *feature.Row) { r.Outcome.TTFT, r.Outcome.TPOT = unknown, unknown }, evaluate.Unmeasured},
		{"an hour and more", func(r *feature.Row) { r.Outcome.TTFT, r.Outcome.TPOT = 4000, unknown }, evaluate.Unmeasured},
		{"no bundle", func(r *feature.Row) { r.Forecast = feature.NoForecast }, evaluate.NoForecast},
	} {
		r := row()
		c.make(&r)
		got, why := evaluate.CaseOf(&r, feature.Index("inflight_requests"))
		if why != c.want {
			t.Errorf("%s: %q, want %q", c.name, why, c.want)
		}
		if why == "" && (got.Load != 3 || got.PromptTokens != 900 || len(got.Forecasts) != len(evaluate.Logged()) || got.Forecasts[0].TTFT.P50 != 0.5) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// What is held does not grow with the rows: the report of many rows has no
// more parts than that of few.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	f := evaluate.NewForecasts(evaluate.Options{Series: []string{"ours"}})
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 30000 {
		c := draw(rng, 100*i, fmt.Sprint("pod-", i), 1, 0.2)
		c.Load = math.Exp(10 * rng.Float64())
		f.Add(&c)
	}
	q := f.Report(1).Series[0].TTFT
	if len(q.ByEndpoint) != 1001 || len(q.Over) > 240 || len(q.ByLoad) != 10 {
		t.Errorf("%d endpoints, %d moments, %d deciles", len(q.ByEndpoint), len(q.Over), len(q.ByLoad))
	}
	for _, g := range q.ByLoad {
		if g.Rows < 2000 || g.Rows > 4000 {
			t.Errorf("a decile of 30000 rows has %d", g.Rows)
		}
	}
}
