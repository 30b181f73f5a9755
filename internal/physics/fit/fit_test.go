package fit_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// truth is an engine whose coefficients are known.
var truth = physics.Coefficients{A: 0.012, B: 45e-6, C: 1.5e-9, D: 0.06e-3, E: 40e-9}

// same reports whether two sets of coefficients predict alike: times of steps
// and prefills, because what matters is what they add up to.
func same(t *testing.T, got physics.Coefficients, tolerance float64) {
	t.Helper()
	for _, x := range []struct {
		what      string
		got, want feature.Seconds
	}{
		{"an empty step", got.Step(1, 500), truth.Step(1, 500)},
		{"a full step", got.Step(100, 200_000), truth.Step(100, 200_000)},
		{"a short prefill", got.Work(1024, 1024), truth.Work(1024, 1024)},
		{"a long prefill", got.Work(8192, 8192), truth.Work(8192, 8192)},
	} {
		if off := math.Abs(float64(x.got/x.want) - 1); !(off <= tolerance) {
			t.Errorf("%s takes %.6f s by the fit, in truth %.6f s", x.what, x.got, x.want)
		}
	}
}

// steady makes rows of a known engine and client, each time off by noise.
func steady(noise float64) []measured.SteadyState {
	s := fit.Steady{Coefficients: truth, Client: fit.Client{Overhead: 0.03, Steps: 1.5, Burst: 0.05}, KVCapacityTokens: 250_000}
	rng := rand.New(rand.NewPCG(3, 4))
	var rows []measured.SteadyState
	for _, shape := range [][2]float64{{512, 256}, {1024, 1024}, {4096, 512}, {8192, 1024}} {
		for _, n := range []float64{4, 8, 16, 32, 64, 128} {
			r := measured.SteadyState{PromptTokens: shape[0], OutputTokens: shape[1], Concurrency: n}
			p := s.Predict(r)
			r.TTFT, r.TPOT = p.TTFT*feature.Seconds(1+noise*rng.NormFloat64()), p.TPOT*feature.Seconds(1+noise*rng.NormFloat64())
			rows = append(rows, r)
		}
	}
	return rows
}

func TestSteadyStatesOfAKnownEngine(t *testing.T) {
	for _, c := range []struct{ noise, tolerance float64 }{{0, 0.01}, {0.02, 0.06}} {
		got, err := fit.SteadyStates(steady(c.noise))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got.Coefficients, c.tolerance)
		if off := math.Abs(got.KVCapacityTokens/250_000 - 1); off > 0.05 {
			t.Errorf("the cache holds %v tokens by the fit, in truth 250,000", got.KVCapacityTokens)
		}
	}
}

// A few rows that went wrong do not move the fit, whatever their place.
func TestSteadyStatesWithOutliersInAnyOrder(t *testing.T) {
	rows := steady(0.01)
	rows[3].TPOT *= 3
	rows[10].TTFT *= 0.2
	got, err := fit.SteadyStates(rows)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Coefficients, 0.08)
	again, err := fit.SteadyStates(rows)
	if err != nil || again != got {
		t.Errorf("the same rows give %+v and then %+v, %v", got, again, err)
	}
	slices.Reverse(rows)
	turned, err := fit.SteadyStates(rows)
	if off := math.Abs(turned.Coefficients.B/got.Coefficients.B - 1); err != nil || off > 1e-3 {
		t.Errorf("another order of rows changes b by %.2g, %v", off, err)
	}
}

func TestCrossSteadyStates(t *testing.T) {
	held, err := fit.CrossSteadyStates(steady(0.02))
	if err != nil {
		t.Fatal(err)
	}
	all := held.Of(fit.All)
	if all.TTFT.Rows != 24 || all.TPOT.Rows != 24 || all.TTFT.Median > 0.06 || all.TPOT.Median > 0.05 {
		t.Errorf("held out: %+v", all)
	}
	var names []string
	for _, q := range held.Table() {
		names = append(names, q.Group)
	}
	if got, want := strings.Join(names, " | "), "all | batch 1-8 | batch 9-32 | batch 33+ | cache full | 512/256 | 1024/1024 | 4096/512 | 8192/1024"; got != want {
		t.Errorf("groups are %s, want %s", got, want)
	}
	shapes, err := fit.CrossShapes(steady(0.02))
	if q := shapes.Of(fit.All); err != nil || q.TPOT.Rows != 24 || q.TPOT.Median > 0.10 {
		t.Errorf("other shapes: %+v, %v", q, err)
	}
}

func TestRowsThatCannotBeFitted(t *testing.T) {
	rows := steady(0)
	if _, err := fit.SteadyStates(rows[:3]); err == nil || !strings.Contains(err.Error(), "at least 6") {
		t.Errorf("three rows: %v", err)
	}
	rows[2].Deployment.Split = true
	if _, err := fit.SteadyStates(rows); err == nil || !strings.Contains(err.Error(), "different engines") {
		t.Errorf("a split deployment: %v", err)
	}
	if _, err := fit.CrossShapes(steady(0)[:12]); err == nil {
		t.Error("two shapes are enough to leave one out")
	}
	if _, err := fit.Batches(nil); err == nil {
		t.Error("no static batch is enough")
	}
	if _, err := fit.Dispatches(nil, fit.Engine{}); err == nil {
		t.Error("an engine without cache is fine")
	}
	if _, err := fit.Dispatches(nil, fit.Engine{KVCapacityTokens: 1, MaxBatchedTokens: 1}); err == nil {
		t.Error("no dispatch is enough")
	}
	if _, err := fit.NewTimeline(nil, 0, 1); err == nil {
		t.Error("a step of no tokens is fine")
	}
	empty, err := fit.NewTimeline(nil, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.Fit(); err == nil {
		t.Error("no request is enough")
	}
}

func TestBatchesOfAKnownEngine(t *testing.T) {
	var rows []measured.Batch
	for _, prompt := range []float64{128, 512, 2048, 8192} {
		for _, n := range []float64{1, 4, 16} {
			r := measured.Batch{PromptTokens: prompt, OutputTokens: 128, Sequences: n}
			p := fit.PredictBatch(truth, r)
			r.Prefill, r.Step = p.TTFT, p.TPOT
			rows = append(rows, r)
		}
	}
	got, err := fit.Batches(rows)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, 0.005)
	held, err := fit.CrossBatches(rows)
	if q := held.Of(fit.All); err != nil || q.TTFT.Rows != 12 || q.TTFT.Worst > 0.01 {
		t.Errorf("held out: %+v, %v", q, err)
	}
}

func TestDispatchesOfAKnownEngine(t *testing.T) {
	engine := fit.Engine{KVCapacityTokens: 200_000, MaxBatchedTokens: 8192}
	d := fit.Dispatched{Coefficients: truth, Engine: engine, Overhead: 0.02, Collision: 0.0002, Queue: fit.Queue{Token: 80e-6, Request: 0.05, Decode: 0.01}}
	rng := rand.New(rand.NewPCG(5, 6))
	var rows []measured.Dispatch
	for range 600 {
		r := measured.Dispatch{PromptTokens: 10 + 9000*rng.Float64(), OutputTokens: math.NaN(), InFlight: float64(rng.IntN(100)), KVUsed: rng.Float64()}
		r.UncachedTokens = r.PromptTokens
		if rng.IntN(3) == 0 {
			r.Waiting = float64(rng.IntN(int(r.InFlight) + 1))
			r.PrefillTokens = 6000 * rng.Float64() * r.Waiting
		}
		p := d.Predict(r)
		if rng.IntN(2) == 0 {
			r.TTFT, r.TPOT = p.TTFT, feature.Seconds(math.NaN())
		} else {
			r.TTFT, r.TPOT = feature.Seconds(math.NaN()), p.TPOT
		}
		rows = append(rows, r)
	}
	got, err := fit.Dispatches(rows, engine)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got.Coefficients, 0.01)
	if math.Abs(float64(got.Queue.Token/80e-6)-1) > 0.01 || math.Abs(float64(got.Overhead)-0.02) > 0.001 {
		t.Errorf("fitted %+v", got)
	}
	for _, cross := range []func([]measured.Dispatch, fit.Engine) (fit.Errors, error){fit.CrossDispatches, fit.ForwardDispatches} {
		held, err := cross(rows, engine)
		if q := held.Of(fit.All); err != nil || q.TTFT.Worst > 0.01 || q.TPOT.Worst > 0.01 || q.TTFT.Rows == 0 {
			t.Errorf("held out: %+v, %v", q, err)
		}
	}
}

// served runs an engine of the known coefficients, step by step: the shortest
// loop that batches continuously.
func served(requests int, budget float64) []measured.Served {
	type sequence struct {
		measured.Served
		left, done float64 // prompt tokens to compute, output tokens made
	}
	rng := rand.New(rand.NewPCG(7, 8))
	var waiting, running []*sequence
	at := 0.0
	for range requests {
		at += 0.12 * rng.ExpFloat64()
		p := 100 + math.Floor(3000*rng.Float64())
		waiting = append(waiting, &sequence{Served: measured.Served{PromptTokens: p, OutputTokens: 50 + math.Floor(300*rng.Float64()), Queued: feature.Seconds(at)}, left: p})
	}
	var all []measured.Served
	for clock := 0.0; len(all) < requests; {
		if len(running) == 0 {
			clock = max(clock, float64(waiting[0].Queued))
		}
		tokens, attended, decoding, kv := budget, 0.0, 0.0, 0.0
		var chunks []float64
		for _, s := range running {
			if s.left == 0 {
				decoding, kv, tokens = decoding+1, kv+s.PromptTokens+s.done, tokens-1
			}
		}
		for len(waiting) > 0 && len(running) < 60 && float64(waiting[0].Queued) <= clock {
			waiting[0].Scheduled = feature.Seconds(clock)
			running, waiting = append(running, waiting[0]), waiting[1:]
		}
		prefill := 0.0
		for _, s := range running {
			c := min(s.left, tokens)
			tokens -= c
			prefill += c
			attended += c * (s.PromptTokens - s.left + c/2)
			chunks = append(chunks, c)
		}
		clock += truth.A + truth.B*prefill + truth.C*attended + truth.D*decoding + truth.E*kv
		kept := running[:0]
		for i, s := range running {
			before := s.left
			if s.left -= chunks[i]; s.left > 0 {
				kept = append(kept, s)
				continue
			}
			if s.done++; before > 0 {
				s.FirstToken = feature.Seconds(clock)
			}
			if s.done == s.OutputTokens {
				s.LastToken = feature.Seconds(clock)
				all = append(all, s.Served)
				continue
			}
			kept = append(kept, s)
		}
		running = kept
	}
	return all
}

func TestTimelineOfAKnownEngine(t *testing.T) {
	tl, err := fit.NewTimeline(served(200, 2048), 2048, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tl.Fit()
	if err != nil {
		t.Fatal(err)
	}
	// The reconstruction does not know in which step a prompt was computed, and
	// expects vLLM's lag, which this loop has not.
	same(t, got, 0.25)
	for _, x := range []struct {
		what string
		of   func() (fit.Errors, error)
	}{{"held out", tl.Cross}, {"known", func() (fit.Errors, error) { return tl.Judge(truth), nil }}} {
		errs, err := x.of()
		if q := errs.Of(fit.All); err != nil || q.TPOT.Rows != 200 || q.TPOT.Median > 0.02 || q.TTFT.Rows != 200 || q.TTFT.Median > 0.25 {
			t.Errorf("%s: %+v, %v", x.what, q, err)
		}
	}
	if tokens, sequences := tl.Held(); tokens < 5000 || sequences < 5 || sequences > 60 {
		t.Errorf("held %v tokens in %v sequences", tokens, sequences)
	}
}

func TestProfile(t *testing.T) {
	limits := fit.Limits{MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 100_000, BlockTokens: 16}
	p, err := fit.Profile("mine", fit.Note("engine", 30, fit.Quality{TTFT: fit.Spread{Rows: 30, Median: 0.075}, TPOT: fit.Spread{Rows: 29, Median: 0.019}}), truth, limits)
	if err != nil {
		t.Fatal(err)
	}
	if want := "engine, 30 rows; held-out median error TTFT 7.5 % (30 rows), TPOT 1.9 % (29 rows)"; p.Source != want {
		t.Errorf("source is %q, want %q", p.Source, want)
	}
	if want := 8192 / (truth.A + float64(truth.Work(8192, 8192))); math.Abs(p.PeakPrefillThroughput-want) > 1e-6 {
		t.Errorf("peak prefill throughput is %v, want %v", p.PeakPrefillThroughput, want)
	}
	limits.KVCapacityTokens = 0
	if _, err := fit.Profile("mine", "", truth, limits); err == nil {
		t.Error("a profile without cache passes")
	}
}
