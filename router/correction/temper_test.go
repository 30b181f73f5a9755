package correction_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// answered is what a bundle says of a candidate with these priors.
func answered(ttft, tpot feature.Seconds, r, q float64) feature.Forecast {
	times := func(prior feature.Seconds, log float64) feature.Seconds {
		return prior * feature.Seconds(math.Exp(log))
	}
	return feature.Forecast{
		TTFT:     feature.Quantiles{P50: times(ttft, r), P90: times(ttft, r+0.3)},
		TPOT:     feature.Quantiles{P50: times(tpot, q), P90: times(tpot, q+0.1)},
		Residual: feature.Residual{TTFT: feature.LogQuantiles{P50: r, P90: r + 0.3}, TPOT: feature.LogQuantiles{P50: q, P90: q + 0.1}},
		Support:  0.5,
	}
}

// Of what the bundle finds between candidates, three quarters are believed of TTFT; of
// TPOT all where no token is expected, half where 30 are, and a quarter from 90 on, or
// where nobody knows.
// What it says of all of them alike stays.
func TestTemper(t *testing.T) {
	for _, c := range []struct{ output, first, last float64 }{{0, 0.5, 0.1}, {30, 0.4, 0.2}, {90, 0.35, 0.25}, {1e5, 0.35, 0.25}, {feature.Unknown, 0.35, 0.25}} {
		out := []feature.Forecast{answered(1, 0.02, 0.1, 0.5), feature.NoForecast, answered(2, 0.03, 0.5, 0.1)}
		correction.Temper(out, c.output)
		want := []feature.Forecast{answered(1, 0.02, 0.15, c.first), feature.NoForecast, answered(2, 0.03, 0.45, c.last)}
		for i, f := range out {
			if !like(f, want[i]) {
				t.Errorf("%g tokens, %d: %+v, want %+v", c.output, i, f, want[i])
			}
		}
	}
	alike := []feature.Forecast{answered(1, 0.02, 2, 2), answered(9, 0.01, 2, 2)}
	correction.Temper(alike, 150)
	if !like(alike[0], answered(1, 0.02, 2, 2)) || !like(alike[1], answered(9, 0.01, 2, 2)) {
		t.Errorf("an error that all share became %+v", alike)
	}
	one := []feature.Forecast{answered(1, 0.02, -1, 3)}
	correction.Temper(one, 150)
	if !like(one[0], answered(1, 0.02, -1, 3)) {
		t.Errorf("one candidate has nobody to differ from, and became %+v", one)
	}
	correction.Temper(nil, 150)
}

// like reports whether two forecasts are equal but for rounding.
func like(a, b feature.Forecast) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-12*(1+math.Abs(y)) || x != x && y != y }
	p, q := numbers(a), numbers(b)
	for i := range p {
		if !near(p[i], q[i]) {
			return false
		}
	}
	return true
}

func numbers(f feature.Forecast) [9]float64 {
	return [9]float64{
		float64(f.TTFT.P50), float64(f.TTFT.P90), float64(f.TPOT.P50), float64(f.TPOT.P90),
		f.Residual.TTFT.P50, f.Residual.TTFT.P90, f.Residual.TPOT.P50, f.Residual.TPOT.P90, f.Support,
	}
}

// Where prior and bundle agree which of two candidates is sooner, so does what is made of
// both; and a forecast never falls when prior and bundle both rise.
func TestTemperKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var priors []float64
		var out []feature.Forecast
		residual := rapid.Float64Range(-3, 3)
		for range rapid.IntRange(1, 20).Draw(t, "candidates") {
			p := math.Exp(rapid.Float64Range(-4, 4).Draw(t, "prior"))
			priors = append(priors, p)
			out = append(out, answered(feature.Seconds(p), feature.Seconds(p), residual.Draw(t, "ttft"), residual.Draw(t, "tpot")))
		}
		said := append([]feature.Forecast(nil), out...)
		output := rapid.Float64Range(0, 1e5).Draw(t, "output tokens")
		correction.Temper(out, output)
		const slack = 1 + 1e-9
		for i := range out {
			if f := out[i]; f.TTFT.P90 < f.TTFT.P50 || f.TPOT.P90 < f.TPOT.P50 {
				t.Fatalf("the quantiles of %+v cross", f)
			}
			for j := range out {
				if priors[i] <= priors[j] && said[i].TTFT.P50 <= said[j].TTFT.P50 && out[i].TTFT.P50 > slack*out[j].TTFT.P50 ||
					priors[i] <= priors[j] && said[i].TPOT.P50 <= said[j].TPOT.P50 && out[i].TPOT.P50 > slack*out[j].TPOT.P50 {
					t.Fatalf("%d and %d changed places: priors %v and %v, said %+v and %+v, became %+v and %+v", i, j, priors[i], priors[j], said[i], said[j], out[i], out[j])
				}
			}
		}
		// More load on one of them: prior and bundle rise, the residual may fall.
		more := append([]feature.Forecast(nil), said...)
		at := rapid.IntRange(0, len(said)-1).Draw(t, "loaded")
		by := rapid.Float64Range(0, 2).Draw(t, "more")
		less := rapid.Float64Range(0, 1).Draw(t, "less residual") * by
		p := feature.Seconds(priors[at] * math.Exp(by))
		more[at] = answered(p, p, said[at].Residual.TTFT.P50-less, said[at].Residual.TPOT.P50-less)
		correction.Temper(more, output)
		if slack*more[at].TTFT.P50 < out[at].TTFT.P50 || slack*more[at].TPOT.P90 < out[at].TPOT.P90 {
			t.Fatalf("with more load %+v became %+v", out[at], more[at])
		}
	})
}

func TestTemperDoesNotAllocate(t *testing.T) {
	out := make([]feature.Forecast, 16)
	for i := range out {
		out[i] = answered(feature.Seconds(1+i), 0.02, 0.1*float64(i), 0)
	}
	if n := testing.AllocsPerRun(100, func() { correction.Temper(out, 150) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
