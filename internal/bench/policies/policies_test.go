package main

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

func TestChangeIsPairedAndInLogarithms(t *testing.T) {
	for _, test := range []struct {
		logs            []float64
		mean, low, high float64
	}{
		{[]float64{math.Log(1.1), math.Log(1.1)}, 0.1, 0.1, 0.1},
		// Student's t with 2 degrees of freedom: 4.303 at 97.5 %; deviation 0.1, so 0.2484 either way.
		{[]float64{-0.1, 0, 0.1}, 0, math.Expm1(-0.2484), math.Expm1(0.2484)},
	} {
		c := changeOf(test.logs)
		for what, pair := range map[string][2]float64{"mean": {c.Mean, test.mean}, "low": {c.Low, test.low}, "high": {c.High, test.high}} {
			if math.Abs(pair[0]-pair[1]) > 1e-4 {
				t.Errorf("%v: %s %v, want %v", test.logs, what, pair[0], pair[1])
			}
		}
	}
	if c := changeOf([]float64{0.5}); !math.IsNaN(c.Low) || !math.IsNaN(c.High) {
		t.Errorf("one seed has an interval: %v", c)
	}
}

// small is a world that runs in a moment.
func small(t *testing.T, name string, length time.Duration, loads ...float64) *world {
	t.Helper()
	spec, err := workload.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	spec.Duration, spec.Warmup = length, length/4
	return &world{name: name, group: single, unit: spec.Unit, spec: spec, loads: loads}
}

// TestRunsAreRepeatable runs a small world, with refits, twice.
func TestRunsAreRepeatable(t *testing.T) {
	var texts [2]string
	for i := range texts {
		worlds := []*world{small(t, "degraded", time.Minute, 3)}
		studies, err := runAll(context.Background(), worlds, arms, []uint64{1, 2}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		writeText(&text, &bench.Report{Command: "a test", Seeds: []uint64{1, 2}}, studies)
		texts[i] = text.String()
		for _, a := range arms {
			if !strings.Contains(texts[i], a.name) {
				t.Errorf("nothing is said of %s", a.name)
			}
		}
		if studies[0].lessons[0].rows == 0 {
			t.Error("nothing was learned from")
		}
	}
	if texts[0] != texts[1] {
		t.Error("a second run says something else")
	}
}

func TestFailuresCountAsPatience(t *testing.T) {
	w := small(t, "interactive-chat", 20*time.Second, 400) // far more than 10 endpoints serve
	w.spec.Timeout = 2 * time.Second
	c, err := w.one(context.Background(), &arms[0], 1, 400, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Failed == 0 || c.Requests <= c.Failed {
		t.Fatalf("%d of %d failed, want some", c.Failed, c.Requests)
	}
	if share := float64(c.Failed) / float64(c.Requests); c.Value[e2e] < 2*share || c.Value[e2e] > 2 {
		t.Errorf("%.0f %% waited 2 s for nothing and none longer, mean E2E %.2f s", 100*share, c.Value[e2e])
	}
}

// A part that is switched off is one that decisions read: here those that a moment
// of traffic on empty caches reaches.
func TestAblationsChangeDecisions(t *testing.T) {
	w := small(t, "rag", 3*time.Second, 250)
	run := func(a *arm) cell {
		c, err := w.one(context.Background(), a, 1, 250, fleet.PriorForecaster{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	whole := run(&arm{policy: policy.Predicted, says: forests})
	for _, name := range []string{
		"nobody held up", "nobody queued behind", "without impatience", "without affinity", "without offset", "without speed factor",
		"without recomputed priors", "4 forecast of 10",
	} {
		at := slices.IndexFunc(ablations, func(a arm) bool { return a.name == name })
		if c := run(&ablations[at]); c == whole || c.Requests != whole.Requests {
			t.Errorf("%s: %+v, with it %+v", name, c, whole)
		}
	}
}
