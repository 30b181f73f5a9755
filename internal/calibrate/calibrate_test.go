package calibrate_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

func h100() calibrate.Engine {
	return calibrate.Engine{
		Limits:         fit.Limits{MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, BlockTokens: 16},
		MaxModelTokens: 40960,
	}
}

// measured is what a plan finds of an engine with these numbers; noise is the
// relative standard deviation of each latency.
func measured(p calibrate.Plan, c physics.Coefficients, overhead float64, budget int, noise float64, rng *rand.Rand) calibrate.Measurements {
	var m calibrate.Measurements
	off := func(v float64) feature.Seconds { return feature.Seconds(v * (1 + noise*rng.NormFloat64())) }
	for range p.Repeats {
		for _, size := range p.Sizes {
			tokens := size - rng.IntN(size/50)
			steps := math.Ceil(float64(tokens) / float64(budget))
			t := overhead + steps*c.A + float64(c.Work(float64(tokens), float64(tokens)))
			m.Prefills = append(m.Prefills, calibrate.Prefilled{Size: size, Bytes: 5*tokens - 35, PromptTokens: tokens, TTFT: off(t)})
		}
	}
	for range p.Rounds {
		for _, d := range p.Decodes {
			kv := float64(d.Sequences * (d.PromptTokens + d.OutputTokens/2))
			m.Decodes = append(m.Decodes, calibrate.Decoded{
				Sequences: d.Sequences, PromptTokens: d.PromptTokens, ContextTokens: kv, Steps: d.OutputTokens, TokensPerStep: 1,
				TPOT: feature.Seconds(float64(off(float64(c.Step(float64(d.Sequences), kv))))),
			})
		}
	}
	return m
}

func plan(t interface{ Fatal(...any) }, e calibrate.Engine, w calibrate.Wish) calibrate.Plan {
	p, err := calibrate.NewPlan(e, w)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// within reports whether two numbers differ by at most a share.
func within(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

// Without noise the fit finds any engine exactly, also engines that lack a cost.
func TestFitFindsTheEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, most float64) float64 {
			if rapid.IntRange(0, 5).Draw(t, name+" is nothing") == 0 {
				return 0
			}
			return rapid.Float64Range(most/20, most).Draw(t, name)
		}
		c := physics.Coefficients{
			A: rapid.Float64Range(2e-3, 30e-3).Draw(t, "a"), B: rapid.Float64Range(1e-6, 100e-6).Draw(t, "b"),
			C: number("c", 4e-9), D: number("d", 0.4e-3), E: number("e", 200e-9),
		}
		overhead := number("overhead", 40e-3)
		e := h100()
		e.MaxBatchedTokens = rapid.SampledFrom([]int{2048, 8192, 16384}).Draw(t, "budget")
		m := measured(plan(t, e, calibrate.Wish{}), c, overhead, e.MaxBatchedTokens, 0, rand.New(rand.NewPCG(1, 1)))
		f, err := calibrate.Fit(m, e.MaxBatchedTokens)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Coefficients
		for _, x := range []struct {
			name           string
			got, want, tol float64 // absolute, for those that may be 0
		}{
			{"a", got.A, c.A, 1e-9}, {"b", got.B, c.B, 1e-12}, {"c", got.C, c.C, 1e-15}, {"d", got.D, c.D, 1e-10}, {"e", got.E, c.E, 1e-13},
			{"overhead", float64(f.Overhead), overhead, 1e-9},
		} {
			if math.Abs(x.got-x.want) > x.tol {
				t.Errorf("%s is %v, want %v", x.name, x.got, x.want)
			}
		}
		if !within(f.Tokenizer.TokensPerByte, 0.2, 1e-9) || !within(f.Tokenizer.Template, 7, 1e-6) {
			t.Errorf("tokenizer %+v, want 0.2 tokens a byte and 7 around them", f.Tokenizer)
		}
	})
}

// With the noise of a real step the fit of the published H100 profile stays
// near, and its held-out error says how near.
func TestFitBearsNoise(t *testing.T) {
	c := physics.Coefficients{A: 0.014, B: 48e-6, C: 1.7e-9, D: 0.06e-3, E: 53e-9}
	e := h100()
	var worst physics.Coefficients
	const overhead = 5e-3
	for seed := range uint64(50) {
		m := measured(plan(t, e, calibrate.Wish{}), c, overhead, e.MaxBatchedTokens, 0.01, rand.New(rand.NewPCG(seed, 2)))
		f, err := calibrate.Fit(m, e.MaxBatchedTokens)
		if err != nil {
			t.Fatal(err)
		}
		off := func(worst *float64, got, want float64) { *worst = max(*worst, math.Abs(got/want-1)) }
		off(&worst.A, f.Coefficients.A, c.A)
		off(&worst.B, f.Coefficients.B, c.B)
		off(&worst.C, f.Coefficients.C, c.C)
		off(&worst.D, f.Coefficients.D, c.D)
		off(&worst.E, f.Coefficients.E, c.E)
		if f.HeldOut.TTFT > 0.03 || f.HeldOut.TPOT > 0.03 || f.HeldOut.TTFT == 0 {
			t.Errorf("seed %d: held-out errors %+v of 1 %% noise", seed, f.HeldOut)
		}
		if want := 8110 / (overhead + c.A + float64(c.Work(8110, 8110))); !within(f.Peak.Throughput, want, 0.03) || !within(f.Peak.Fit, want, 0.03) {
			t.Errorf("seed %d: peak %+v, want about %.0f", seed, f.Peak, want)
		}
	}
	bound := physics.Coefficients{A: 0.03, B: 0.06, C: 0.35, D: 0.7, E: 0.2}
	if worst.A > bound.A || worst.B > bound.B || worst.C > bound.C || worst.D > bound.D || worst.E > bound.E {
		t.Errorf("largest errors are %+v, want at most %+v", worst, bound)
	}
}

func TestFitRefuses(t *testing.T) {
	e := h100()
	c := physics.Coefficients{A: 0.014, B: 48e-6, C: 1.7e-9, D: 0.06e-3, E: 53e-9}
	rng := rand.New(rand.NewPCG(3, 3))
	good := func() calibrate.Measurements { return measured(plan(t, e, calibrate.Wish{}), c, 0, 8192, 0, rng) }
	for _, x := range []struct {
		name   string
		budget int
		spoil  func(*calibrate.Measurements)
		says   string
	}{
		{"no budget", 0, func(*calibrate.Measurements) {}, "token budget"},
		{"nothing", 8192, func(m *calibrate.Measurements) { *m = calibrate.Measurements{} }, "0 prompt lengths"},
		{"no batches", 8192, func(m *calibrate.Measurements) { m.Decodes = nil }, "0 batch sizes"},
		{"one batch size", 8192, func(m *calibrate.Measurements) { m.Decodes = m.Decodes[:2] }, "1 batch sizes"},
		{"no time", 8192, func(m *calibrate.Measurements) { m.Decodes[0].TPOT = 0; m.Decodes[len(m.Decodes)/2].TPOT = 0 }, "want more than 0"},
		{"a cache answers", 8192, func(m *calibrate.Measurements) {
			for i := range m.Prefills {
				m.Prefills[i].TTFT = 0.02
			}
		}, "no longer"},
		{"wrong count", 8192, func(m *calibrate.Measurements) {
			for i := range m.Prefills {
				m.Prefills[i].Bytes = 100
			}
		}, "usage.prompt_tokens"},
	} {
		m := good()
		x.spoil(&m)
		if _, err := calibrate.Fit(m, x.budget); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: error is %v, want one that says %q", x.name, err, x.says)
		}
	}
}

func TestProfile(t *testing.T) {
	e := h100()
	c := physics.Coefficients{A: 0.014, B: 48e-6, C: 1.7e-9, D: 0.06e-3, E: 53e-9}
	f, err := calibrate.Fit(measured(plan(t, e, calibrate.Wish{}), c, 0.01, 8192, 0, rand.New(rand.NewPCG(4, 4))), 8192)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Profile("mine", "measured here", e.Limits)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "mine" || !strings.HasPrefix(p.Source, "measured here: ") || p.KVCapacityTokens != 262144 || p.BlockTokens != 16 ||
		p.PeakPrefillThroughput != f.Peak.Throughput || p.Overhead != f.Overhead {
		t.Errorf("profile is %+v", p)
	}
	if _, err := f.Profile("mine", "measured here", fit.Limits{}); err == nil {
		t.Error("a profile without limits is no error")
	}
}

func TestPlan(t *testing.T) {
	tiny := h100()
	tiny.MaxModelTokens, tiny.KVCapacityTokens, tiny.MaxNumSeqs = 2048, 4096, 4
	for _, x := range []struct {
		name   string
		engine calibrate.Engine
		wish   calibrate.Wish
		says   string // of the error
		sizes  int
		most   int // prompt
		seqs   int
	}{
		{name: "defaults", engine: h100(), sizes: 7, most: 32768, seqs: 32},
		{name: "short contexts", engine: tiny, wish: calibrate.Wish{Batches: []int{1, 2}}, sizes: 2, says: "sizes: 2 prompt lengths"},
		{name: "short contexts, chosen", engine: tiny, wish: calibrate.Wish{Sizes: []int{1000, 100, 500}, Batches: []int{4, 1}}, sizes: 3, most: 1000, seqs: 4},
		{name: "too long", engine: tiny, wish: calibrate.Wish{Sizes: []int{100, 500, 4000}}, says: "sizes: 4000 tokens: want 64 to 2047"},
		{name: "too many", engine: h100(), wish: calibrate.Wish{Batches: []int{1, 500}}, says: "batches: 500 sequences"},
		{name: "one batch", engine: h100(), wish: calibrate.Wish{Batches: []int{8}}, says: "batches: 1 batch sizes"},
		{name: "few tokens", engine: h100(), wish: calibrate.Wish{Output: 4}, says: "output: 4 tokens"},
		{name: "no repeats", engine: h100(), wish: calibrate.Wish{Repeats: -1}, says: "repeats: -1"},
		{name: "no rounds", engine: h100(), wish: calibrate.Wish{Rounds: -1}, says: "rounds: -1"},
	} {
		p, err := calibrate.NewPlan(x.engine, x.wish)
		if x.says != "" {
			if err == nil || !strings.HasPrefix(err.Error(), x.says) {
				t.Errorf("%s: error is %v, want %q", x.name, err, x.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		last := p.Decodes[len(p.Decodes)-1]
		if len(p.Sizes) != x.sizes || p.Sizes[len(p.Sizes)-1] != x.most || last.Sequences != x.seqs {
			t.Errorf("%s: plan is %+v", x.name, p)
		}
		for _, d := range p.Decodes {
			if d.Sequences*(d.PromptTokens+d.OutputTokens) > x.engine.KVCapacityTokens {
				t.Errorf("%s: %+v does not fit the cache", x.name, d)
			}
		}
		if tokens := p.Tokens(); tokens < p.Repeats*x.most || tokens > 1_000_000 {
			t.Errorf("%s: %d tokens", x.name, tokens)
		}
	}
}

func TestTextIsNew(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	seen := map[string]bool{}
	for range 2000 {
		text := calibrate.Text(rng, 400)
		if len(text) != 400 {
			t.Fatalf("%d bytes, want 400", len(text))
		}
		if seen[text[:64]] { // 16 tokens, one cache block
			t.Fatalf("two texts begin with %q", text[:64])
		}
		seen[text[:64]] = true
	}
	if calibrate.Text(rng, 0) != "" {
		t.Error("a text of nothing is something")
	}
}

func TestNearest(t *testing.T) {
	for _, x := range []struct {
		llm, engine, hardware string
		throughput            float64
		want                  float64
		alike                 bool
	}{
		{"Qwen/Qwen3-32B", "vllm", "2xH100", 15000, 15928, true},
		{"qwen3-32b", "vllm", "2xH100", 20000, 20480, true},
		{"Qwen/Qwen3-32B", "sglang", "2x H100", 31000, 15360, true},
		{"qwen3-32b", "", "TPU v6e", 1, 26290, true},
		{"openai/gpt-oss-120b", "vllm", "", 1, 39065, true},
		{"zai-org/GLM-5.2-NVFP4", "sglang", "8xB200", 1, 24027, true},
		{"mistral", "vllm", "H200", 1, 15751, false},
		{"mistral", "other", "", 1900, 1970, false},
	} {
		p, alike := calibrate.Nearest(x.llm, x.engine, x.hardware, x.throughput)
		if p.Throughput != x.want || alike != x.alike {
			t.Errorf("%s, %s, %s: nearest is %+v (%v), want %v (%v)", x.llm, x.engine, x.hardware, p, alike, x.want, x.alike)
		}
	}
}
