package fleet_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// small is a noiseless engine whose step times are easy to add up:
// 10 ms + 1 ms per prefill token + 1 us per token and context token
// + 2 ms per decoding sequence + 10 us per token read.
func small() physics.Profile {
	return physics.Profile{
		Name:                  "small",
		Coefficients:          physics.Coefficients{A: 0.010, B: 0.001, C: 1e-6, D: 0.002, E: 10e-6},
		MaxBatchedTokens:      64,
		MaxNumSeqs:            4,
		KVCapacityTokens:      320, // 20 blocks
		BlockTokens:           16,
		PeakPrefillThroughput: 1000,
	}
}

func newEngine(t testing.TB, cfg fleet.Config) *fleet.Engine {
	t.Helper()
	e, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// request has its own chain, shared with requests of the same topic.
func request(id uint64, topic string, prompt, output int) *fleet.Request {
	total := (prompt + output) / 16
	chain := fleet.ChainOf(nil, fleet.ChainSeed(topic), make([]byte, 64*total), 64)
	n := prompt / 16
	return fleet.NewRequest(id, fleet.Prompt{Tokens: prompt, Chain: chain[:n]}, output, fleet.Output{Tokens: output, Chain: chain[n:]})
}

func submit(t testing.TB, e *fleet.Engine, now time.Duration, r *fleet.Request) {
	t.Helper()
	if err := e.Submit(now, r); err != nil {
		t.Fatal(err)
	}
}

type happened struct {
	ID        uint64
	Kind      fleet.EventKind
	At        time.Duration
	Generated int
	Cached    int
}

// drain runs e until it is idle, checking it after every event.
func drain(t testing.TB, e *fleet.Engine) []happened {
	t.Helper()
	var all []happened
	for {
		at, ok := e.NextEvent()
		if !ok {
			return all
		}
		all = append(all, advance(t, e, at)...)
	}
}

func advance(t testing.TB, e *fleet.Engine, to time.Duration) []happened {
	t.Helper()
	var all []happened
	for _, ev := range e.Advance(to) {
		all = append(all, happened{ev.Request.ID, ev.Kind, ev.At, ev.Generated, ev.Cached})
	}
	if err := e.Check(); err != nil {
		t.Fatalf("at %v: %v", to, err)
	}
	return all
}

func ms(x float64) time.Duration { return time.Duration(math.Round(x * float64(time.Millisecond))) }

// nearly forgives the rounding of seconds to nanoseconds.
var nearly = cmp.Comparer(func(a, b time.Duration) bool { return max(a-b, b-a) <= 100 })

func TestStepTimes(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small()})
	submit(t, e, ms(5), request(1, "a", 20, 3))
	prefill := 10 + 20 + 0.001*20*10
	first := 5 + prefill
	second := first + 10 + 2 + 0.01*21
	third := second + 10 + 2 + 0.01*22
	want := []happened{
		{1, fleet.Token, ms(first), 1, 0},
		{1, fleet.Token, ms(second), 2, 0},
		{1, fleet.Token, ms(third), 3, 0},
		{1, fleet.Finished, ms(third), 3, 0},
	}
	if diff := cmp.Diff(want, drain(t, e), nearly); diff != "" {
		t.Error(diff)
	}
}

func TestChunkedPrefillSharesBudgetWithDecode(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small()})
	submit(t, e, 0, request(1, "a", 16, 3))
	submit(t, e, ms(1), request(2, "b", 100, 1)) // 1 decoding token leaves 63, then 37
	t1 := 10 + 16 + 0.001*16*8
	t2 := t1 + 10 + 63 + 0.001*63*31.5 + 2 + 0.01*17
	t3 := t2 + 10 + 37 + 0.001*37*(63+18.5) + 2 + 0.01*18
	want := []happened{
		{1, fleet.Token, ms(t1), 1, 0},
		{1, fleet.Token, ms(t2), 2, 0},
		{1, fleet.Token, ms(t3), 3, 0},
		{1, fleet.Finished, ms(t3), 3, 0},
		{2, fleet.Token, ms(t3), 1, 0},
		{2, fleet.Finished, ms(t3), 1, 0},
	}
	if diff := cmp.Diff(want, drain(t, e), nearly); diff != "" {
		t.Error(diff)
	}
}

func TestPrefixCache(t *testing.T) {
	cases := []struct {
		name        string
		first, then *fleet.Request
		cached      int
	}{
		{"nothing shared", request(1, "a", 64, 1), request(2, "b", 64, 1), 0},
		{"the last block of a whole hit is recomputed", request(1, "a", 64, 1), request(2, "a", 64, 1), 48},
		{"a partial block is not shared", request(1, "a", 70, 1), request(2, "a", 70, 1), 64},
		{"a longer prompt finds the shorter", request(1, "a", 40, 1), request(2, "a", 80, 1), 32},
		{"generated blocks are found by the next turn", request(1, "a", 40, 30), request(2, "a", 100, 1), 64},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, fleet.Config{Profile: small()})
			submit(t, e, 0, c.first)
			drain(t, e)
			at := time.Minute
			submit(t, e, at, c.then)
			got := drain(t, e)
			if got[0].Cached != c.cached {
				t.Errorf("cached %d tokens, want %d", got[0].Cached, c.cached)
			}
			m := e.Metrics()
			if want := int64(c.first.Prompt.Tokens + c.then.Prompt.Tokens); m.PrefixQueryTokens != want || m.PrefixHitTokens != int64(c.cached) {
				t.Errorf("counted %d of %d tokens found, want %d of %d", m.PrefixHitTokens, m.PrefixQueryTokens, c.cached, want)
			}
		})
	}
}

func TestEvictionTakesTheTailOfTheOldestChain(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small()}) // 20 blocks
	for i, topic := range []string{"old", "new"} {
		submit(t, e, time.Duration(i)*time.Minute, request(uint64(i), topic, 10*16, 1))
		drain(t, e)
	}
	submit(t, e, 2*time.Minute, request(2, "filler", 3*16, 1))
	drain(t, e)
	for i, c := range []struct {
		topic  string
		cached int
	}{
		{"new", 9 * 16},
		{"old", 6 * 16}, // the filler took three, the recomputed last block of new a fourth
	} {
		submit(t, e, time.Duration(3+i)*time.Minute, request(uint64(3+i), c.topic, 10*16, 1))
		if got := drain(t, e)[0].Cached; got != c.cached {
			t.Errorf("%s: cached %d tokens, want %d", c.topic, got, c.cached)
		}
	}
}

func TestPreemptionRecomputes(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small()})
	submit(t, e, 0, request(1, "a", 60, 200))
	submit(t, e, 0, request(2, "b", 60, 200))
	finished := map[uint64]time.Duration{}
	tokens := map[uint64]int{}
	for _, ev := range drain(t, e) {
		if ev.Kind == fleet.Finished {
			finished[ev.ID] = ev.At
			continue
		}
		if tokens[ev.ID]++; ev.Generated != tokens[ev.ID] {
			t.Fatalf("request %d: token %d came as number %d", ev.ID, tokens[ev.ID], ev.Generated)
		}
	}
	if tokens[1] != 200 || tokens[2] != 200 {
		t.Errorf("generated %v, want 200 each", tokens)
	}
	if e.Metrics().Preemptions == 0 {
		t.Error("two requests of 17 blocks fit 20 blocks without preemption")
	}
	if finished[1] >= finished[2] {
		t.Errorf("the later request finished first: %v", finished)
	}
}

func TestCancel(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small(), Overhead: ms(5)})
	submit(t, e, 0, request(1, "a", 64, 10))
	advance(t, e, ms(6)) // running
	submit(t, e, ms(6), request(2, "b", 64, 10))
	advance(t, e, ms(12)) // still arriving: lines move at step ends
	for _, id := range []uint64{1, 2} {
		if !e.Cancel(id) || e.Cancel(id) {
			t.Errorf("request %d: want cancelled once", id)
		}
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
	if got := drain(t, e); len(got) > 0 {
		t.Errorf("events after everything was cancelled: %v", got)
	}
	if m := e.Metrics(); m.KVUsed != 0 || m.Cancelled != 2 || m.Running != 0 {
		t.Errorf("after cancelling: %+v", m)
	}
	if e.Cancel(3) {
		t.Error("cancelled a request that never was")
	}
}

func TestSubmitRefuses(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small(), MaxTokens: 300})
	submit(t, e, ms(10), request(1, "a", 10, 10))
	advance(t, e, ms(10))
	cases := []struct {
		name    string
		at      time.Duration
		request *fleet.Request
		tooLong bool
	}{
		{"context length", ms(10), request(2, "a", 200, 101), true},
		{"empty prompt", ms(10), request(2, "a", 0, 10), false},
		{"output over its limit", ms(10), fleet.NewRequest(2, fleet.Prompt{Tokens: 1}, 3, fleet.Output{Tokens: 4}), false},
		{"more blocks than tokens", ms(10), fleet.NewRequest(2, fleet.Prompt{Tokens: 15, Chain: []uint64{1}}, 3, fleet.Output{Tokens: 1}), false},
		{"live ID", ms(10), request(1, "a", 10, 10), false},
		{"the past", ms(9), request(2, "a", 10, 10), false},
	}
	for _, c := range cases {
		err := e.Submit(c.at, c.request)
		if err == nil || errors.Is(err, fleet.ErrTooLong) != c.tooLong {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	full := newEngine(t, fleet.Config{Profile: small(), MaxTokens: 1 << 20})
	if err := full.Submit(0, request(1, "a", 300, 21)); !errors.Is(err, fleet.ErrTooLong) {
		t.Errorf("KV capacity: got %v", err)
	}
	submit(t, full, 0, request(1, "a", 300, 20))
	if got := drain(t, full); len(got) != 21 {
		t.Errorf("a request as large as the cache had %d events, want 21", len(got))
	}
}

func TestMetricsMoveAtStepEnds(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small()})
	submit(t, e, 0, request(1, "a", 64, 2))
	advance(t, e, ms(1))
	submit(t, e, ms(1), request(2, "b", 64, 2))
	advance(t, e, ms(2))
	if diff := cmp.Diff(fleet.Metrics{}, e.Metrics()); diff != "" {
		t.Errorf("inside the first step: %s", diff)
	}
	end, _ := e.NextEvent()
	advance(t, e, end)
	m := e.Metrics()
	if m.Running != 1 || m.Waiting != 0 || m.KVUsed != 4.0/20 || m.GeneratedTokens != 1 || m.PromptTokens != 64 {
		t.Errorf("after the first step: %+v", m)
	}
}

func TestSlowFactorAndOverhead(t *testing.T) {
	e := newEngine(t, fleet.Config{Profile: small(), Overhead: ms(7)})
	if err := e.SetSlowFactor(0); err == nil {
		t.Error("accepted a slow factor of 0")
	}
	if err := e.SetSlowFactor(3); err != nil {
		t.Fatal(err)
	}
	submit(t, e, 0, request(1, "a", 16, 1))
	want := ms(7 + 3*(10+16+0.001*16*8))
	if got := drain(t, e)[0].At; max(got-want, want-got) > 100 {
		t.Errorf("first token at %v, want %v", got, want)
	}
}

func TestSameSeedSameEvents(t *testing.T) {
	run := func(seed uint64) []happened {
		p := small()
		p.NoiseStdDev = 0.05
		e := newEngine(t, fleet.Config{Profile: p, Noise: rand.New(rand.NewPCG(seed, 0))})
		for i := range uint64(8) {
			submit(t, e, ms(float64(i)), request(i, string(rune('a'+i%3)), 20+10*int(i), 12))
		}
		return drain(t, e)
	}
	if diff := cmp.Diff(run(1), run(1)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("seeds 1 and 2 gave the same events")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*fleet.Config){
		"no step time":        func(c *fleet.Config) { c.Profile.Coefficients = physics.Coefficients{} },
		"less than one block": func(c *fleet.Config) { c.Profile.KVCapacityTokens = 15 },
		"noise, no stream":    func(c *fleet.Config) { c.Profile.NoiseStdDev = 0.1 },
		"endless noise":       func(c *fleet.Config) { c.Profile.NoiseStdDev = math.NaN() },
		"negative overhead":   func(c *fleet.Config) { c.Overhead = -1 },
	} {
		cfg := fleet.Config{Profile: small()}
		change(&cfg)
		if _, err := fleet.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDecodeStepDoesNotAllocate(t *testing.T) {
	p := small()
	p.KVCapacityTokens, p.MaxNumSeqs, p.MaxBatchedTokens = 1<<20, 256, 8192
	e := newEngine(t, fleet.Config{Profile: p})
	for i := range uint64(64) {
		submit(t, e, 0, request(i, "a", 100, 4000))
	}
	step := func() {
		at, _ := e.NextEvent()
		e.Advance(at)
	}
	for range 1500 { // past the growth of the prefix index
		step()
	}
	if got := testing.AllocsPerRun(200, step); got > 0 {
		t.Errorf("%v allocations per step, want 0", got)
	}
}

func TestPerturb(t *testing.T) {
	p := small()
	q, overhead := fleet.Perturb(p, 7, 3)
	again, overheadAgain := fleet.Perturb(p, 7, 3)
	if !cmp.Equal(q, again) || overhead != overheadAgain {
		t.Error("same seed and index gave another engine")
	}
	seen := map[float64]bool{}
	for i := range 100 {
		q, overhead := fleet.Perturb(p, 7, i)
		for _, r := range []float64{
			q.Coefficients.A / p.Coefficients.A, q.Coefficients.B / p.Coefficients.B, q.Coefficients.C / p.Coefficients.C,
			q.Coefficients.D / p.Coefficients.D, q.Coefficients.E / p.Coefficients.E,
		} {
			if r < 0.8-1e-9 || r > 1.25+1e-9 {
				t.Errorf("endpoint %d has a factor of %v", i, r)
			}
			seen[r] = true
		}
		if overhead < 20*time.Millisecond || overhead > 100*time.Millisecond {
			t.Errorf("endpoint %d has an overhead of %v", i, overhead)
		}
		if q.Name != p.Name || q.KVCapacityTokens != p.KVCapacityTokens {
			t.Errorf("endpoint %d changed more than times: %+v", i, q)
		}
	}
	if len(seen) < 450 {
		t.Errorf("only %d different factors in 500", len(seen))
	}
}

func BenchmarkDecodeStep(b *testing.B) {
	p := small()
	p.KVCapacityTokens, p.MaxNumSeqs, p.MaxBatchedTokens = 1<<24, 256, 8192
	e := newEngine(b, fleet.Config{Profile: p})
	for i := range uint64(256) {
		submit(b, e, 0, request(i, "a", 100, 60000))
	}
	for b.Loop() {
		at, ok := e.NextEvent()
		if !ok {
			b.Fatal("out of work")
		}
		e.Advance(at)
	}
}
