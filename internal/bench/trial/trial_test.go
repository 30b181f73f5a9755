package trial_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/trial"
)

func TestChangeOfIsStudentsInterval(t *testing.T) {
	// Mean 0.2, deviation 0.1, four seeds: 3.182 x 0.1 / 2 either way.
	c := trial.ChangeOf([]float64{0.1, 0.3, 0.1 + 0.1 - 0.1*math.Sqrt(0.5), 0.2 + 0.1*math.Sqrt(0.5)})
	if math.Abs(c.Mean-math.Expm1(0.2)) > 1e-9 {
		t.Errorf("mean %v", c.Mean)
	}
	if half := (math.Log1p(c.High) - math.Log1p(c.Low)) / 2; math.Abs(half-3.1824*0.1/2) > 1e-4 {
		t.Errorf("half width %v", half)
	}
	if one := trial.ChangeOf([]float64{0}); one.Mean != 0 || !math.IsNaN(one.High) {
		t.Errorf("of one seed %+v", one)
	}
	if none := trial.ChangeOf(nil); !math.IsNaN(none.Mean) {
		t.Errorf("of none %+v", none)
	}
	text, err := json.Marshal(trial.ChangeOf([]float64{0}))
	if err != nil || string(text) != `{"high":null,"low":null,"mean":0}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestPooledAveragesSeedBySeed(t *testing.T) {
	got := trial.Pooled([]float64{1, 2}, []float64{3, 6})
	if len(got) != 2 || got[0] != 2 || got[1] != 4 {
		t.Errorf("%v", got)
	}
	if trial.Pooled() != nil {
		t.Error("something of nothing")
	}
}

func TestWorldsAreTheSameForTheSameSeed(t *testing.T) {
	for _, w := range trial.Worlds {
		if w.Judged%(w.Before/2) != 0 {
			t.Errorf("%s: %v is no multiple of half of %v", w.Name, w.Judged, w.Before)
		}
		a, err := w.Config(7, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := w.Config(7, 0.8)
		c, _ := w.Config(8, 0.8)
		if a.Engines[0].Profile.Coefficients != b.Engines[0].Profile.Coefficients || a.Engines[0].Profile.Coefficients == c.Engines[0].Profile.Coefficients {
			t.Errorf("%s: engines do not follow the seed", w.Name)
		}
		below, err := trial.MarkedBelow()
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range a.Engines {
			if trial.Marked(i) != (float64(e.Profile.KVCapacityTokens) < below) {
				t.Errorf("%s: engine %d has a cache of %d tokens", w.Name, i, e.Profile.KVCapacityTokens)
			}
		}
		w.Tens = 3
		if d, _ := w.Config(7, 0.8); len(d.Engines) != 3*len(a.Engines) || d.Plan.Warmup != w.Before {
			t.Errorf("%s: %d engines in three tens, warm-up %v", w.Name, len(d.Engines), d.Plan.Warmup)
		}
	}
	w := trial.World{Name: "none", Workload: "none", Knee: 1, Before: time.Minute, Judged: time.Minute}
	if _, err := w.Config(1, 1); err == nil {
		t.Error("a workload that there is not is no error")
	}
}

func TestEachReturnsAnError(t *testing.T) {
	done := make([]bool, 10)
	if err := trial.Each(t.Context(), len(done), func(_ context.Context, i int) error { done[i] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, d := range done {
		if !d {
			t.Errorf("%d was left out", i)
		}
	}
	failed := errors.New("failed")
	if err := trial.Each(t.Context(), 3, func(_ context.Context, i int) error {
		if i == 1 {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}
