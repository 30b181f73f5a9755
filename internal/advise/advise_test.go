package advise_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

func profile(t testing.TB) physics.Profile {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// study is a small one: few endpoints, few requests.
func study(t testing.TB, name string, load float64, length time.Duration, seeds ...uint64) *advise.Study {
	t.Helper()
	spec, err := workload.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	if length > 0 {
		spec.Duration, spec.Warmup = length, length/4
	}
	p := profile(t)
	valve, err := advise.NewValve(p, 18)
	if err != nil {
		t.Fatal(err)
	}
	return &advise.Study{
		Plan:    func(seed uint64) workload.Plan { return spec.Sessions(seed, load) },
		Profile: p, Endpoints: 3, Engines: advise.Nearly(p, 3, spec.Slow, spec.Duration), Seeds: seeds, Valve: valve,
	}
}

func advice(t testing.TB, s *advise.Study) *advise.Advice {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	runs := make([]advise.Run, s.Runs())
	for i := range runs {
		var err error
		if runs[i], err = s.Run(context.Background(), i); err != nil {
			t.Fatal(err)
		}
	}
	a, err := s.Advise(runs)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatBindsIsTold(t *testing.T) {
	for _, c := range []struct {
		workload string
		load     float64
		length   time.Duration
		binds    advise.Resource
		several  bool
		matched  string
	}{
		{"rag", 60, 40 * time.Second, advise.Prefill, false, policy.TokenLoad},
		{"interactive-chat", 20, 2 * time.Minute, advise.Decode, false, policy.ActiveRequest},
		{"code-generation", 24, 0, advise.KV, false, policy.ActiveRequest},
		{"mixed", 1, 6 * time.Minute, advise.Decode, true, policy.ActiveRequest},
	} {
		t.Run(c.workload, func(t *testing.T) {
			a := advice(t, study(t, c.workload, c.load, c.length, 1))
			most := advise.Prefill
			for _, r := range []advise.Resource{advise.Decode, advise.Slots, advise.KV} {
				if a.Class.Share[r] > a.Class.Share[most] {
					most = r
				}
			}
			if most != c.binds || a.Class.Several() != c.several || a.Class.Matched != c.matched {
				t.Errorf("%s binds, several kinds: %v, wants %s: want %s, %v, %s (%s)", most, a.Class.Several(), a.Class.Matched, c.binds, c.several, c.matched, a.Class.Says)
			}
			if c.several && a.Recommended != policy.Predicted {
				t.Errorf("recommends %s for traffic of several kinds: %v", a.Recommended, a.Why)
			}
		})
	}
}

// TestOneSeedProvesNothing: without intervals what binds decides.
func TestOneSeedProvesNothing(t *testing.T) {
	a := advice(t, study(t, "interactive-chat", 20, time.Minute, 1))
	if a.Simulated || a.Matched != a.Class.Matched || a.Recommended != a.Matched {
		t.Errorf("matched %s by simulation: %v, recommended %s; want what the class says, %s", a.Matched, a.Simulated, a.Recommended, a.Class.Matched)
	}
	if !math.IsNaN(a.Versus.Low) || math.IsNaN(a.Versus.Mean) {
		t.Errorf("the change with one seed is %+v: want a mean and no interval", a.Versus)
	}
}

// TestDoubtLeavesItToWhatBinds: a simulator that is not to be believed proves nothing.
func TestDoubtLeavesItToWhatBinds(t *testing.T) {
	s := study(t, "interactive-chat", 25, time.Minute, 1, 2, 3)
	s.Doubt = "the replay is off"
	a := advice(t, s)
	if a.Simulated || a.Recommended != a.Class.Matched || !strings.Contains(strings.Join(a.Why, " "), "The replay is off") {
		t.Errorf("recommended %s, by simulation: %v, because %q", a.Recommended, a.Simulated, a.Why)
	}
}

// TestEqualStudiesAdviseAlike: the same seeds, the same bytes.
func TestEqualStudiesAdviseAlike(t *testing.T) {
	first, err := json.Marshal(advice(t, study(t, "mixed", 1, 2*time.Minute, 5, 6)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(advice(t, study(t, "mixed", 1, 2*time.Minute, 5, 6)))
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(again) {
		t.Error("two advices of equal studies differ")
	}
}

// row is a request that an engine served, after that many seconds.
func row(at, prompt, cached, output, ttft, e2e float64) *feature.Row {
	var r feature.Row
	for i := range r.Vector {
		r.Vector[i] = float32(math.NaN())
	}
	r.DecidedAt = time.Unix(0, 0).Add(time.Duration(at * 1e9))
	r.Vector[feature.ColumnPromptTokens] = float32(prompt)
	r.Outcome = feature.Outcome{TTFT: feature.Seconds(ttft), E2E: feature.Seconds(e2e), OutputTokens: output, CachedTokens: cached}
	return &r
}

// logged advises on rows of a log, with the least simulation.
func logged(t testing.TB, rows []*feature.Row) *advise.Advice {
	t.Helper()
	s := study(t, "rag", 5, 4*time.Second, 1)
	s.Endpoints, s.Logged = 1, new(advise.Usage)
	for _, r := range rows {
		s.Logged.Add(r)
	}
	return advice(t, s)
}

// TestUseAddsUp compares the shares of the endpoints' time with what the same
// requests take by the step model, added up request by request.
func TestUseAddsUp(t *testing.T) {
	c := profile(t).Coefficients
	rapid.Check(t, func(rt *rapid.T) {
		var rows []*feature.Row
		var prefill, decode float64
		n := rapid.IntRange(1, 12).Draw(rt, "requests")
		for i := range n {
			prompt := rapid.Float64Range(100, 3000).Draw(rt, "prompt")
			prompt = float64(float32(prompt))
			cached := rapid.Float64Range(0, 0.9).Draw(rt, "cached") * prompt
			output := float64(rapid.IntRange(1, 200).Draw(rt, "output"))
			rows = append(rows, row(5+float64(i), prompt, cached, output, 1, 1+output*0.01))
			prefill += float64(c.Work(prompt, prompt-cached))
			decode += (output - 1) * (c.D + c.E*(prompt+output/2))
		}
		// One at each end, whose own work is nearly none, so that all others lie between.
		rows = append(rows, row(0, 1, 0, 1, 0.001, 0.001), row(30, 1, 0, 1, 0.001, 0.001))
		rows = rapid.Permutation(rows).Draw(rt, "order")
		a := logged(t, rows)
		var gotPrefill, gotDecode float64
		requests := 0
		for _, m := range a.Moments {
			gotPrefill, gotDecode, requests = gotPrefill+m.Prefill*a.Every, gotDecode+m.Decode*a.Every, requests+m.Requests
		}
		if requests != n+2 {
			rt.Fatalf("%d requests in all moments, want %d", requests, n+2)
		}
		if math.Abs(gotPrefill-prefill) > 1e-3*prefill+1e-3 || math.Abs(gotDecode-decode) > 1e-3*decode+1e-6 {
			rt.Fatalf("prefill %v s, decoding %v s in all moments; the requests took %v s and %v s", gotPrefill, gotDecode, prefill, decode)
		}
	})
}

// TestLongPromptsBlock: nine short requests for each long one, whose prefill takes
// longer than a short one waits.
func TestLongPromptsBlock(t *testing.T) {
	var short, both []*feature.Row
	for i := range 400 {
		r := row(float64(i)/4, 300, 0, 20, 0.05, 0.5)
		short = append(short, r)
		if both = append(both, r); i%40 == 0 {
			both = append(both, row(float64(i)/4, 60_000, 0, 20, 6, 7))
		}
	}
	if a := logged(t, short); a.Class.Blocks || a.Class.Shifts {
		t.Errorf("equal short requests: %s", a.Class.Says)
	}
	if a := logged(t, both); !a.Class.Blocks || a.Recommended != policy.Predicted {
		t.Errorf("long prompts among short ones: blocks %v, recommended %s: %s", a.Class.Blocks, a.Recommended, a.Class.Says)
	}
}

// TestShiftsAreSeen: prompts first, then answers.
func TestShiftsAreSeen(t *testing.T) {
	var rows []*feature.Row
	for i := range 300 {
		if at := float64(i) / 2; i < 150 {
			rows = append(rows, row(at, 4000, 0, 1, 0.3, 0.3))
		} else {
			rows = append(rows, row(at, 20, 0, 400, 0.05, 8))
		}
	}
	if a := logged(t, rows); !a.Class.Shifts {
		t.Errorf("prefill's part of the work goes from %v to %v, and that is no shift", a.Class.Least, a.Class.Most)
	}
}

// TestLongTrafficHasFewMoments: a clock that was wrong by years costs no memory.
func TestLongTrafficHasFewMoments(t *testing.T) {
	const day = 24 * 3600
	a := logged(t, []*feature.Row{row(0, 1000, 0, 100, 0.1, 2), row(3650*day, 1000, 0, 100, 0.1, 2)})
	if n := len(a.Moments); n > 7*24*60+1 || a.Every*float64(n) < 3650*day {
		t.Errorf("%d moments of %v s", n, a.Every)
	}
	requests := 0
	for i := range a.Moments {
		requests += a.Moments[i].Requests
	}
	if requests != 2 {
		t.Errorf("%d requests were sent in all moments", requests)
	}
}

func TestNothingServedIsAnError(t *testing.T) {
	s := study(t, "rag", 5, 4*time.Second, 1)
	s.Logged = new(advise.Usage)
	unserved := row(1, 100, 0, 0, math.NaN(), math.NaN())
	s.Logged.Add(unserved)
	runs := make([]advise.Run, s.Runs())
	for i := range runs {
		runs[i], _ = s.Run(context.Background(), i)
	}
	if _, err := s.Advise(runs); err == nil || !strings.Contains(err.Error(), "nothing to judge") {
		t.Errorf("advice on no served request: %v", err)
	}
}

func TestValve(t *testing.T) {
	p := profile(t)
	v, err := advise.NewValve(p, 18)
	if err != nil || v.Tokens != 18*p.PeakPrefillThroughput || v.Predicted != policy.Defaults().PredictedPenalty {
		t.Errorf("18 s: %+v, %v", v, err)
	}
	if v, _ = advise.NewValve(p.Slowed(2), 2); v.Tokens != p.PeakPrefillThroughput || v.Predicted != 2 {
		t.Errorf("2 s of an engine half as fast: %+v", v)
	}
	for _, bad := range []feature.Seconds{0, -1, feature.Seconds(math.NaN()), feature.Seconds(math.Inf(1))} {
		if _, err := advise.NewValve(p, bad); err == nil {
			t.Errorf("%v s is accepted", bad)
		}
	}
}

// TestStretches: as many requests as asked for, in order, with the gaps they had.
func TestStretches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(rt, "requests")
		most := rapid.IntRange(4, 200).Draw(rt, "most")
		var items []trace.Item
		at := time.Duration(0)
		for i := range n {
			items = append(items, trace.Item{At: at, PromptTokens: i + 1})
			at += time.Duration(rapid.IntRange(0, 1000).Draw(rt, "gap")) * time.Millisecond
		}
		got := advise.Stretches(items, most)
		if n <= most {
			if len(got) != n {
				rt.Fatalf("%d of %d requests", len(got), n)
			}
			return
		}
		if len(got) > most || len(got) < most-3 || got[0].At != 0 || got[0].PromptTokens != 1 || got[len(got)-1].PromptTokens != n {
			rt.Fatalf("%d requests, from %v of number %d to number %d: want about %d from the first to number %d", len(got), got[0].At, got[0].PromptTokens, got[len(got)-1].PromptTokens, most, n)
		}
		for i := 1; i < len(got); i++ {
			gap := got[i].At - got[i-1].At
			if gap < 0 {
				rt.Fatalf("request %d comes before the one before it", i)
			}
			if a, b := got[i-1].PromptTokens, got[i].PromptTokens; b == a+1 && i%(most/4) != 0 && gap != items[b-1].At-items[a-1].At {
				rt.Fatalf("the gap before request %d is %v, and was %v", b, gap, items[b-1].At-items[a-1].At)
			}
		}
	})
}

func TestEnoughSeeds(t *testing.T) {
	for _, c := range []struct{ requests, seeds int }{{10, 10}, {10_000, 7}, {1_000_000, 5}} {
		items := make([]trace.Item, c.requests)
		for i := range items {
			items[i] = trace.Item{At: time.Duration(i), PromptTokens: 1}
		}
		if got := advise.EnoughSeeds(advise.Replay(items, 1)(1)); got != c.seeds {
			t.Errorf("%d requests: %d seeds, want %d", c.requests, got, c.seeds)
		}
	}
}
