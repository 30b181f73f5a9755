package evaluate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// corrected replays cases; each ends some time after it was decided.
func corrected(cases []evaluate.Case, took []time.Duration) []feature.Forecast {
	var online evaluate.Online
	out := make([]feature.Forecast, len(cases))
	for i := range cases {
		out[i] = online.Correct(&cases[i], cases[i].Forecasts[0], cases[i].At.Add(took[i]))
	}
	return out
}

// A forecast is corrected by nothing that was not known when it was made: other
// outcomes of requests that end later change nothing.
func TestOnlineKnowsNoFuture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		const n = 60
		cases, took := make([]evaluate.Case, n), make([]time.Duration, n)
		for i := range cases {
			cases[i] = draw(rng, i, string(rune('a'+rng.IntN(3))), 1.4, 0.3)
			took[i] = time.Duration(rng.IntN(20000)) * time.Millisecond
		}
		want := corrected(cases, took)
		now := rapid.IntRange(0, n-1).Draw(t, "now")
		for i := range cases {
			if cases[i].At.Add(took[i]).Before(cases[now].At) {
				continue
			}
			cases[i].TPOT /= 100
			if !cases[i].At.Add(cases[i].TTFT.Duration()).Before(cases[now].At) { // no first token yet
				cases[i].TTFT *= 100
			}
		}
		if diff := cmp.Diff(want[:now+1], corrected(cases, took)[:now+1]); diff != "" {
			t.Fatalf("case %d knew more (-want +got):\n%s", now, diff)
		}
	})
}

// Most of an endpoint's own bias is taken out within some dozens of outcomes.
func TestOnlineTakesOutBias(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	f := evaluate.NewForecasts(evaluate.Options{Series: []string{"frozen", "prequential"}})
	var online evaluate.Online
	for i := range 3000 {
		c := draw(rng, i, string(rune('a'+i%2)), []float64{1.4, 0.8}[i%2], 0.2)
		c.Forecasts = append(c.Forecasts, online.Correct(&c, c.Forecasts[0], c.At.Add(time.Second)))
		if i > 200 {
			f.Add(&c)
		}
	}
	r := f.Report(1)
	if frozen, prequential := r.Series[0].TTFT, r.Series[1].TTFT; frozen.BiasSpread.Range < 0.7 || prequential.BiasSpread.Range > 0.12 ||
		prequential.All.Coverage.Low > 0.9 || prequential.All.Coverage.High < 0.9 {
		t.Errorf("frozen %+v, prequential %+v of %+v", frozen.BiasSpread, prequential.BiasSpread, prequential.All)
	}
}
