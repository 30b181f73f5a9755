package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// answer is what the prior says of three candidates, each slower than the last.
func answer() ([]feature.Vector, []feature.Forecast) {
	vectors, out := make([]feature.Vector, 3), make([]feature.Forecast, 3)
	for i := range vectors {
		vectors[i][feature.ColumnPriorTTFT], vectors[i][feature.ColumnPriorTPOT] = float32(0.1*float64(i+1)), 0.02
		vectors[i][columnKV] = float32(1e6 * float64(i)) // the first is marked
	}
	fleet.PriorForecaster{}.Forecast(vectors, out)
	return vectors, out
}

// Whatever is spoiled, the residuals say the same as the latencies, as those of a
// predictor do: decisions are made from the residuals.
func TestSpoiltForecastsAgreeWithTheirResiduals(t *testing.T) {
	all, err := failures()
	if err != nil {
		t.Fatal(err)
	}
	spoilt := 0
	for _, f := range all {
		if f.spoil == nil || f.name == "nan" {
			continue
		}
		spoilt++
		vectors, out := answer()
		_, was := answer()
		f.spoil(vectors, out)
		changed := false
		for i := range out {
			p := vectors[i].Prior()
			changed = changed || out[i] != was[i]
			for _, x := range []struct {
				says     feature.Seconds
				prior    feature.Seconds
				residual float64
			}{
				{out[i].TTFT.P50, p.TTFT, out[i].Residual.TTFT.P50}, {out[i].TTFT.P90, p.TTFT, out[i].Residual.TTFT.P90},
				{out[i].TPOT.P50, p.TPOT, out[i].Residual.TPOT.P50}, {out[i].TPOT.P90, p.TPOT, out[i].Residual.TPOT.P90},
			} {
				if want := float64(x.prior) * math.Exp(x.residual); math.Abs(float64(x.says)/want-1) > 1e-6 {
					t.Errorf("%s: candidate %d is forecast %v, its residual says %v", f.name, i, x.says, want)
				}
			}
		}
		if !changed {
			t.Errorf("%s spoils nothing", f.name)
		}
	}
	if spoilt < 5 {
		t.Errorf("%d failures spoil forecasts, want at least 5", spoilt)
	}
}

func TestReversedForecastsAreInTheOppositeOrder(t *testing.T) {
	vectors, out := answer()
	reversed(vectors, out)
	if !(out[0].TTFT.P50 > out[1].TTFT.P50 && out[1].TTFT.P50 > out[2].TTFT.P50) {
		t.Errorf("forecast %v, %v, %v", out[0].TTFT.P50, out[1].TTFT.P50, out[2].TTFT.P50)
	}
	vectors, out = answer()
	for i := range out {
		out[i] = feature.NoForecast
	}
	if reversed(vectors, out); out[0].Known() {
		t.Error("made a forecast of none")
	}
}

func TestPredictorIsWellUntilTheInjection(t *testing.T) {
	f := failure{answer: fails(correction.Broken), spoil: each(constant)}
	p := predictor{Forecaster: fleet.PriorForecaster{}, failure: &f, at: time.Minute}
	vectors, out := answer()
	if a := p.Answer(59 * time.Second); a.Result != correction.Answered {
		t.Errorf("before it the answer is %v", a.Result)
	}
	if p.Forecast(vectors, out); out[2].TTFT.P50 == 1 {
		t.Error("spoilt before the injection")
	}
	if a := p.Answer(time.Minute); a.Result != correction.Broken {
		t.Errorf("at it the answer is %v", a.Result)
	}
	if p.Forecast(vectors, out); out[2].TTFT.P50 != 1 {
		t.Error("not spoilt from the injection on")
	}
}

func TestNoticedCountsFromThe200thBadOutcome(t *testing.T) {
	bad := make([]time.Duration, 250)
	for i := range bad {
		bad[i] = time.Duration(i) * 100 * time.Millisecond
	}
	left := func(at time.Duration) []change {
		return []change{{At: at, From: correction.Live, To: correction.Wrong}}
	}
	for _, c := range []struct {
		name  string
		run   run
		after time.Duration
		ok    bool
	}{
		{"later", run{Bad: bad, Changes: left(21 * time.Second)}, 1100 * time.Millisecond, true},
		{"earlier", run{Bad: bad, Changes: left(19 * time.Second)}, -900 * time.Millisecond, true},
		{"never", run{Bad: bad}, 0, false},
		{"before the injection alone", run{Bad: bad, Changes: left(-time.Second)}, 0, false},
		{"nothing to notice", run{Bad: bad[:199]}, 0, true},
		{"after few", run{Bad: bad[:3], Changes: left(time.Second)}, 800 * time.Millisecond, true},
	} {
		if _, after, ok := c.run.noticed(); after != c.after || ok != c.ok {
			t.Errorf("%s: %v, %t, want %v, %t", c.name, after, ok, c.after, c.ok)
		}
	}
}

func TestFleetsOfASeedAreAveraged(t *testing.T) {
	seeds := []uint64{7, 8, 9}
	drawn := map[uint64]bool{}
	logs := make([]float64, 2*len(seeds))
	for i := range logs {
		seed := seedOf(seeds, i)
		drawn[seed] = true
		logs[i] = float64(seed)
	}
	if len(drawn) != len(logs) || !drawn[7] || !drawn[12] {
		t.Errorf("the fleets have the seeds %v, want 7 to 12", drawn)
	}
	if got := bySeed(logs, len(seeds)); !slices.Equal(got, []float64{(7 + 10) / 2.0, (8 + 11) / 2.0, (9 + 12) / 2.0}) {
		t.Errorf("means %v", got)
	}
}

func TestEveryWorldHasItsMatchedConfiguration(t *testing.T) {
	for _, w := range worlds() {
		want := map[string]string{"mixed": policy.ActiveRequest, "interactive-chat": policy.ActiveRequest, "rag": policy.TokenLoad}[w.Name]
		if w.matched != want || w.fleets < 1 {
			t.Errorf("%s: %s decides in %d fleets, want %s", w.Name, w.matched, w.fleets, want)
		}
	}
}

// One short world through all of it: a dead predictor decides nothing.
func TestCompare(t *testing.T) {
	w := trial.Worlds[1]
	w.Knee, w.Before, w.Judged = 10, 20*time.Second, 20*time.Second
	all, err := failures()
	if err != nil {
		t.Fatal(err)
	}
	verdicts, sizes, err := compare(t.Context(), []world{{w, policy.ActiveRequest, 1}}, all[1:2], []uint64{1001, 1002}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	v := verdicts[0]
	if sizes["simulations"] != 6 || sizes["interactive-chat fleets"] != 2 || v.Requests < 100 || math.IsNaN(v.Pooled.High) {
		t.Errorf("sizes %v, %d requests, p99 %v", sizes, v.Requests, v.Pooled)
	}
	if v.Failed != 0 || v.Decided != 0 || v.Changes != 1 {
		t.Errorf("killed: %d failed, %d decided by forecasts, %d changes", v.Failed, v.Decided, v.Changes)
	}
	names := map[string]bool{}
	for _, b := range v.bars(&all[1]) {
		names[b.Name] = true
	}
	for _, want := range []string{"ttft_p99_killed", "failed_requests_killed", "changes_killed", "decided_after_killed"} {
		if !names[want] {
			t.Errorf("no bar %s in %v", want, names)
		}
	}
}
