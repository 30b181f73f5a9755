package physics_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// fitted reads the analytic prior, a queue, and prefill that counts once there
// is a queue.
func fitted() physics.Fitted {
	waiting, prefill := feature.Index("waiting"), feature.Index("inflight_prefill_tokens")
	first := physics.Ramp{Column: waiting, To: 1}
	return physics.Fitted{Peak: 10_000, TTFT: physics.Curve{Min: 0.1, Max: 9, Terms: []physics.Term{
		{Seconds: 0.5, Ramp: physics.Ramp{Column: feature.ColumnPriorTTFT}},
		{Seconds: 0.02, Ramp: physics.Ramp{Column: physics.Constant}},
		{Seconds: 0.1, Ramp: physics.Ramp{Column: waiting, From: 2, To: 6}},
		{Seconds: 1e-4, Ramp: physics.Ramp{Column: prefill}, Times: &first},
	}}}
}

// of is a vector with these numbers; all others are unknown.
func of(numbers map[string]float64) *feature.Vector {
	var v feature.Vector
	for i, name := range feature.Names() {
		v[i] = float32(feature.Unknown)
		if x, ok := numbers[name]; ok {
			v[i] = float32(x)
		}
	}
	return &v
}

func TestFittedPrior(t *testing.T) {
	f := fitted()
	for _, c := range []struct {
		name    string
		numbers map[string]float64
		ttft    float64
	}{
		{"unknown load", map[string]float64{}, 0.5*2 + 0.02},
		{"no queue", map[string]float64{"waiting": 0, "inflight_prefill_tokens": 5000}, 0.5*2 + 0.02},
		{"before the ramp", map[string]float64{"waiting": 2, "inflight_prefill_tokens": 1000}, 0.5*2 + 0.02 + 0.1},
		{"on the ramp", map[string]float64{"waiting": 4}, 0.5*2 + 0.02 + 0.2},
		{"past the ramp", map[string]float64{"waiting": 100}, 0.5*2 + 0.02 + 0.4},
		{"slow just now", map[string]float64{"speed_factor": 3}, 0.5*2 + 3*0.02},
		{"of a class half as fast", map[string]float64{"peak_prefill_throughput": 5000, "waiting": 3}, 0.5*2 + 2*(0.02+0.1)},
	} {
		c.numbers["prior_ttft"], c.numbers["prior_tpot"] = 2, 0.25
		got := f.Estimate(of(c.numbers))
		near(t, c.name+": TTFT", got.TTFT, c.ttft)
		near(t, c.name+": TPOT, which was not fitted", got.TPOT, 0.25)
	}
}

// TestFittedPriorNeverFalls moves any features the way that their sign calls
// slower.
func TestFittedPriorNeverFalls(t *testing.T) {
	f := fitted()
	rapid.Check(t, func(rt *rapid.T) {
		var a, b feature.Vector
		for i, x := range feature.Table() {
			low := rapid.Float64Range(0.01, 1e5).Draw(rt, x.Name)
			a[i] = float32(low)
			b[i] = a[i]
			if rapid.Bool().Draw(rt, "moves") {
				b[i] = float32(low * math.Pow(rapid.Float64Range(1, 50).Draw(rt, "by"), float64(x.Sign)))
			}
		}
		if p, q := f.Estimate(&a), f.Estimate(&b); float64(q.TTFT) < float64(p.TTFT)*(1-1e-12) {
			rt.Fatalf("it fell from %v to %v", p.TTFT, q.TTFT)
		}
	})
}

func TestFittedPriorCheck(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(*physics.Fitted)
	}{
		{"peak throughput", func(f *physics.Fitted) { f.Peak = -1 }},
		{"term 1 has", func(f *physics.Fitted) { f.TTFT.Terms[1].Seconds = -1 }},
		{"term 1 has", func(f *physics.Fitted) { f.TTFT.Terms[1].Seconds = math.NaN() }},
		{"column 99", func(f *physics.Fitted) { f.TTFT.Terms[0].Ramp.Column = 99 }},
		{"cached_tokens", func(f *physics.Fitted) { f.TTFT.Terms[0].Ramp.Column = feature.ColumnCachedTokens }},
		{"cached_tokens", func(f *physics.Fitted) {
			f.TTFT.Terms[3].Times = &physics.Ramp{Column: feature.ColumnCachedTokens}
		}},
		{"from 2 to 1", func(f *physics.Fitted) { f.TTFT.Terms[2].Ramp.To = 1 }},
		{"no term is positive", func(f *physics.Fitted) { f.TTFT.Terms = f.TTFT.Terms[2:] }},
		{"range", func(f *physics.Fitted) { f.TTFT.Max = 0 }},
		{"prior of TPOT", func(f *physics.Fitted) { f.TPOT = f.TTFT; f.TPOT.Min = math.Inf(1) }},
		{"terms, want", func(f *physics.Fitted) { f.TTFT.Terms = make([]physics.Term, 5000) }},
	} {
		f := fitted()
		if err := f.Check(); err != nil {
			t.Fatalf("before: %v", err)
		}
		c.spoil(&f)
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one about %q", err, c.want)
		}
	}
}

func TestFittedPriorAsJSON(t *testing.T) {
	f := fitted()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back physics.Fitted
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestFittedPriorDoesNotAllocate(t *testing.T) {
	f := fitted()
	v := of(map[string]float64{"waiting": 3, "prior_ttft": 1, "prior_tpot": 1})
	if n := testing.AllocsPerRun(100, func() { f.Estimate(v) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
