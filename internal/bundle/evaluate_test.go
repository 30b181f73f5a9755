package bundle_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
)

// plain is Evaluate written row by row from its description.
func plain(t *rapid.T, b *bundle.Bundle, v feature.Vector) feature.Forecast {
	row := make([]float64, feature.Width)
	v.Wide(row)
	for _, x := range row {
		if math.IsInf(x, 0) {
			return feature.NoForecast
		}
	}
	prior := v.Prior()
	if !(prior.TTFT > 0 && prior.TPOT > 0) {
		return feature.NoForecast
	}
	fitted := prior
	if b.Fitted.TTFT.Terms != nil {
		pace := b.Fitted.Peak / row[feature.Index("peak_prefill_throughput")]
		if !(pace > 0) || math.IsInf(pace, 0) {
			pace = 1
		}
		if speed := row[feature.Index("speed_factor")]; speed > 0 {
			pace *= speed
		}
		known := func(name string) float64 { return max(0, zero(row[feature.Index(name)])) }
		waiting := known("waiting")
		fitted.TTFT = 0.6*prior.TTFT + feature.Seconds(pace*(0.01+0.002*min(7, max(0, waiting-2))+1e-5*known("inflight_prefill_tokens")*min(1, waiting)))
	}
	var residual [bundle.Targets]float64
	for i, h := range b.Heads {
		f, err := forest.Parse(h.Forest)
		if err != nil {
			t.Fatal(err)
		}
		x, lo, hi, pair := float64(fitted.TTFT), b.Fitted.TTFT.Min, b.Fitted.TTFT.Max, b.Heads[:2]
		if i >= 2 {
			j := feature.ColumnPriorTPOT
			x, lo, hi, pair = float64(fitted.TPOT), float64(b.Support.Min[j]), float64(b.Support.Max[j]), b.Heads[2:]
		}
		widest := 1.0
		for _, p := range pair {
			widest = max(widest, math.Abs(p.Low), math.Abs(p.High))
		}
		u := max(0, math.Log(x/hi), math.Log(lo/x))
		residual[i] = h.Shift + (1-h.Damping)*min(max(f.Predict(row), h.Low), h.High)/(1+u/widest)
	}
	residual[1] = max(residual[0], residual[1])
	residual[3] = max(residual[2], residual[3])
	worst := 0.0
	for j, x := range row {
		lo, hi := float64(b.Support.Min[j]), float64(b.Support.Max[j])
		width := hi - lo
		if size := max(math.Abs(lo), math.Abs(hi)); width < size/10 {
			width = size / 10
		}
		if width == 0 {
			width = 1
		}
		if z := max((x-hi)/width, (lo-x)/width); z > worst {
			worst = z
		}
	}
	at := func(p feature.Seconds, r float64) feature.Seconds { return p * feature.Seconds(math.Exp(r)) }
	more := math.Log(float64(fitted.TTFT / prior.TTFT))
	return feature.Forecast{
		TTFT:     feature.Quantiles{P50: at(fitted.TTFT, residual[0]), P90: at(fitted.TTFT, residual[1])},
		TPOT:     feature.Quantiles{P50: at(prior.TPOT, residual[2]), P90: at(prior.TPOT, residual[3])},
		Residual: feature.Residual{TTFT: feature.LogQuantiles{P50: residual[0] + more, P90: residual[1] + more}, TPOT: feature.LogQuantiles{P50: residual[2], P90: residual[3]}},
		Support:  1 / (1 + worst),
	}
}

// zero is x, or 0 where it is unknown.
func zero(x float64) float64 {
	if x != x {
		return 0
	}
	return x
}

// plainSeconds lets cmpopts, which know float64 alone, see seconds.
var plainSeconds = cmp.Transformer("Seconds", func(s feature.Seconds) float64 { return float64(s) })

func TestEvaluateEqualsPlain(t *testing.T) {
	b := bundleOf(t)
	e := evaluatorOf(t, b)
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		vectors := make([]feature.Vector, rapid.IntRange(0, 300).Draw(rt, "rows"))
		for i := range vectors {
			vectors[i] = vectorOf(rng)
			for range rng.IntN(3) {
				odd := []float32{float32(math.NaN()), float32(math.Inf(1)), 0, -1, 1e-9, 1e30, vectors[i][0] * 20}
				vectors[i][rng.IntN(feature.Width)] = odd[rng.IntN(len(odd))]
			}
		}
		out := make([]feature.Forecast, len(vectors))
		e.Evaluate(vectors, out)
		for i, v := range vectors {
			if diff := cmp.Diff(plain(rt, b, v), out[i], plainSeconds, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-12, 1e-12)); diff != "" {
				rt.Fatalf("row %d of %v (-plain +Evaluate):\n%s", i, v, diff)
			}
		}
	})
}

// The heads of bundleOf never fall along a prior or kv_used, and neither may
// the forecast, wherever the sweep crosses the edge of the support.
func TestForecastIsMonotoneAcrossTheSupport(t *testing.T) {
	draft := draftOf(t, vectorsOf(7, 200))
	for i := range draft.Heads {
		// Wide enough clips and leaves that shrinking matters.
		draft.Heads[i].Low, draft.Heads[i].High, draft.Heads[i].Damping = -2, 2, 0
		column := []int{feature.ColumnPriorTTFT, feature.ColumnPriorTTFT, feature.ColumnPriorTPOT, feature.ColumnPriorTPOT}[i]
		at := float64(draft.Support.Max[column])
		draft.Heads[i].Forest = forestOf(t, stump{column, at, -3, 1.5}, stump{column, at * 1.5, 0, 1}, stump{feature.Index("kv_used"), 2, 0, 0.4}).Text()
	}
	b, err := bundle.New(draft, vectorsOf(7, 200))
	if err != nil {
		t.Fatal(err)
	}
	e := evaluatorOf(t, b)
	const steps = 400
	vectors, out := make([]feature.Vector, steps), make([]feature.Forecast, steps)
	rapid.Check(t, func(rt *rapid.T) {
		start := vectorOf(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3)))
		columns := rapid.SampledFrom([][]int{
			{feature.ColumnPriorTTFT}, {feature.ColumnPriorTPOT}, {feature.Index("kv_used")},
			{feature.Index("waiting")}, {feature.Index("inflight_prefill_tokens"), feature.Index("speed_factor")},
			{feature.ColumnPriorTTFT, feature.ColumnPriorTPOT, feature.Index("kv_used")},
		}).Draw(rt, "columns")
		factor := rapid.Float64Range(1.001, 1.1).Draw(rt, "factor")
		for i := range vectors {
			vectors[i] = start
			for _, c := range columns {
				vectors[i][c] = float32(float64(start[c]) * math.Pow(factor, float64(i-steps/2)))
			}
		}
		e.Evaluate(vectors, out)
		for i, f := range out {
			if f.TTFT.P90 < f.TTFT.P50 || f.TPOT.P90 < f.TPOT.P50 {
				rt.Fatalf("step %d: p90 below p50: %+v", i, f)
			}
			if i == 0 {
				continue
			}
			g := out[i-1]
			for _, pair := range [][2]feature.Seconds{{g.TTFT.P50, f.TTFT.P50}, {g.TTFT.P90, f.TTFT.P90}, {g.TPOT.P50, f.TPOT.P50}, {g.TPOT.P90, f.TPOT.P90}} {
				if float64(pair[1]) < float64(pair[0])*(1-1e-12) {
					rt.Fatalf("step %d: the forecast fell from %v to %v as %v grew", i, pair[0], pair[1], columns)
				}
			}
		}
	})
}

func TestSupport(t *testing.T) {
	examples := vectorsOf(7, 200)
	b := bundleOf(t)
	e := evaluatorOf(t, b)
	out := make([]feature.Forecast, 1)
	support := func(v feature.Vector) float64 {
		e.Evaluate([]feature.Vector{v}, out)
		return out[0].Support
	}
	for i, v := range examples {
		if s := support(v); s != 1 {
			t.Fatalf("example %d has support %v, want 1", i, s)
		}
	}
	v := examples[0]
	kv := feature.Index("kv_used")
	v[kv] = b.Support.Max[kv] + (b.Support.Max[kv] - b.Support.Min[kv])
	if s := support(v); math.Abs(s-0.5) > 1e-6 {
		t.Errorf("one width outside: support %v, want 0.5", s)
	}
	v = examples[0]
	v[feature.Index("peak_prefill_throughput")] *= 1.9 // never varied: 9 times a tenth of itself outside
	if s := support(v); math.Abs(s-0.1) > 1e-6 {
		t.Errorf("support %v, want 0.1", s)
	}
}

func TestEvaluateDoesNotAllocate(t *testing.T) {
	e := evaluatorOf(t, bundleOf(t))
	vectors := vectorsOf(1, 200)
	out := make([]feature.Forecast, len(vectors))
	if n := testing.AllocsPerRun(200, func() { e.Evaluate(vectors, out) }); n >= 1 {
		t.Errorf("%v allocations a call, want 0", n)
	}
}

func TestEvaluateConcurrently(t *testing.T) {
	e := evaluatorOf(t, bundleOf(t))
	vectors := vectorsOf(1, 300)
	want := make([]feature.Forecast, len(vectors))
	e.Evaluate(vectors, want)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			out := make([]feature.Forecast, len(vectors))
			for range 50 {
				e.Evaluate(vectors, out)
				if !cmp.Equal(want, out) {
					t.Error("another forecast under concurrency")
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkEvaluate16(b *testing.B) {
	e := evaluatorOf(b, bundleOf(b))
	vectors := vectorsOf(1, 16)
	out := make([]feature.Forecast, len(vectors))
	for b.Loop() {
		e.Evaluate(vectors, out)
	}
}
