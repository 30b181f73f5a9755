package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// standard is the profile that the published workloads ran on.
func standard(t testing.TB) physics.Profile {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func engines(p physics.Profile, n int) []fleet.EngineSpec {
	all := make([]fleet.EngineSpec, n)
	for i := range all {
		all[i] = fleet.EngineSpec{Profile: p, Overhead: 8 * time.Millisecond}
	}
	return all
}

func spec(t testing.TB, name string) workload.Spec {
	t.Helper()
	s, err := workload.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simulate(t testing.TB, c fleet.WorldConfig) *fleet.Result {
	t.Helper()
	r, err := fleet.Simulate(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// single makes a plan of single requests without shared text, one every gap.
func single(n, prompt, output int, gap time.Duration) workload.Plan {
	return workload.Plan{Sessions: func(yield func(workload.Session) bool) {
		for i := range n {
			s := workload.Session{
				Index: i, At: time.Duration(i) * gap, Class: "single",
				Turns: []workload.Turn{{PromptTokens: prompt, OutputTokens: output}},
			}
			if !yield(s) {
				return
			}
		}
	}}
}

// quiet is small without noise, with a cache that holds a few requests.
func quiet() physics.Profile {
	p := small()
	p.KVCapacityTokens, p.MaxNumSeqs = 4096, 32
	return p
}

func world(p string, n int, plan workload.Plan) fleet.WorldConfig {
	return fleet.WorldConfig{
		Engines: engines(quiet(), n), Router: fleet.RouterConfig{Policy: p}, Plan: plan, Seed: 1, BlockTokens: 16,
	}
}

// Requests that may be shed are, where they could only be late, and nobody else;
// the rest is served sooner for it.
func TestWorldShedsWhatMayBe(t *testing.T) {
	config := func(priority int) fleet.WorldConfig {
		c := world(policy.Predicted, 2, workload.Plan{Sessions: func(yield func(workload.Session) bool) {
			for i := range 400 { // some three times what two engines can do
				s := workload.Session{
					Index: i, At: time.Duration(i) * 20 * time.Millisecond, Class: []string{"patient", "keen"}[i%2],
					Turns: []workload.Turn{{PromptTokens: 1000, OutputTokens: 20}},
				}
				if !yield(s) {
					return
				}
			}
		}})
		c.Router.Forecaster = fleet.PriorForecaster{}
		c.Router.Objectives = map[string]fleet.Objective{"keen": {SLO: fleet.SLO{TTFT: 500 * time.Millisecond}, Priority: priority}}
		return c
	}
	mean := map[int]float64{}
	for _, priority := range []int{0, -1} {
		r, err := fleet.SimulateChecked(t.Context(), config(priority))
		if err != nil {
			t.Fatal(err)
		}
		shed := map[string]int{}
		served := 0.0
		for _, o := range r.Requests {
			if o.Status == feature.Shed {
				shed[o.Class]++
				if o.Endpoint != -1 || o.OutputTokens != 0 {
					t.Errorf("a request that was shed is %+v", o)
				}
				continue
			}
			if o.Class == "patient" {
				mean[priority] += o.TTFT.Seconds()
				served++
			}
		}
		mean[priority] /= served
		if shed["patient"] > 0 || (shed["keen"] > 0) != (priority < 0) {
			t.Errorf("priority %d: shed %v", priority, shed)
		}
		if s := r.Summary(r.All(), fleet.SLO{}); s.Requests != 400 || priority < 0 && s.Success == 1 {
			t.Errorf("summary counts %d requests, success %v", s.Requests, s.Success)
		}
	}
	if !(mean[-1] < 0.8*mean[0]) {
		t.Errorf("TTFT of those who wait is %.2f s, and %.2f s when others are shed", mean[0], mean[-1])
	}
}

// Every request of every plan ends with one outcome, under every policy, with
// all invariants checked after every act.
func TestWorldKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawWorld(rt, policy.Names())
		if rapid.Bool().Draw(rt, "forecasts") {
			c.Router.Forecaster = fleet.PriorForecaster{}
		}
		for i := range c.Engines {
			c.Engines[i].Options.Ranks = rapid.IntRange(0, 3).Draw(rt, "ranks")
			c.Engines[i].Options.LiveMetrics = rapid.Bool().Draw(rt, "live metrics")
			c.Engines[i].Options.Acceptance = map[string]float64{"a": rapid.Float64Range(1, 3).Draw(rt, "acceptance")}
			c.Engines[i].SlowFrom = time.Duration(rapid.SampledFrom([]int{0, 500}).Draw(rt, "slow from ms")) * time.Millisecond
			c.Engines[i].SlowFactor = rapid.SampledFrom([]float64{0, 1, 3}).Draw(rt, "slow factor")
		}
		r, err := fleet.SimulateChecked(context.Background(), c)
		if err != nil {
			rt.Fatal(err)
		}
		planned := 0
		for s := range c.Plan.Sessions {
			planned += len(s.Turns)
		}
		if c.Plan.Limit > 0 {
			planned = min(planned, c.Plan.Limit)
		}
		if r.Sent != planned || len(r.Requests) != planned {
			rt.Fatalf("%d requests planned, %d sent, %d ended", planned, r.Sent, len(r.Requests))
		}
		generated, finished := int64(0), int64(0)
		for _, e := range r.Engines {
			generated += e.GeneratedTokens
			finished += e.Finished
		}
		for _, o := range r.Requests {
			generated -= int64(o.OutputTokens)
			if o.Status == feature.OK {
				finished--
			}
		}
		if finished != 0 || generated < 0 {
			rt.Fatalf("engines finished %d requests and generated %d tokens that no outcome has", finished, generated)
		}
	})
}

// The result depends on the configuration alone, to the byte.
func TestSameSeedSameBytes(t *testing.T) {
	s := spec(t, "mixed")
	s.Duration = time.Minute
	run := func(seed uint64) string {
		r := simulate(t, fleet.WorldConfig{
			Engines: engines(standard(t), 3), Seed: seed, Plan: s.Sessions(1, 2),
			Router: fleet.RouterConfig{Policy: policy.Predicted, Forecaster: fleet.PriorForecaster{}},
		})
		b, err := json.Marshal(struct {
			*fleet.Result
			Summary fleet.Summary
		}{r, r.Summary(r.All(), fleet.SLO{})})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one := run(1)
	runtime.GOMAXPROCS(2)
	if two := run(1); one != two {
		t.Errorf("two runs differ, by %s", cmp.Diff(one, two))
	}
	if one == run(2) {
		t.Error("seeds 1 and 2 give the same")
	}
}

func TestPublishedWorkloadsRun(t *testing.T) {
	for _, c := range []struct {
		workload string
		load     float64
		policy   string
	}{
		{"code-generation", 5, policy.TokenLoad},
		{"reasoning", 10, policy.RoundRobin},
		{"b2b-saas", 3, policy.ActiveRequest},
	} {
		t.Run(c.workload, func(t *testing.T) {
			r := simulate(t, fleet.WorldConfig{
				Engines: engines(standard(t), 4), Router: fleet.RouterConfig{Policy: c.policy},
				Plan: spec(t, c.workload).Sessions(1, c.load), Seed: 1,
			})
			s := r.Summary(r.All(), fleet.SLO{})
			if r.Sent == 0 || len(r.Requests) != r.Sent || s.Success != 1 {
				t.Errorf("%d sent, %d ended, success %v", r.Sent, len(r.Requests), s.Success)
			}
		})
	}
}

func TestClientsGiveUp(t *testing.T) {
	plan := single(40, 600, 20, 100*time.Millisecond) // 0.6 s of prefill each
	plan.Timeout = 3 * time.Second
	r := simulate(t, world(policy.RoundRobin, 1, plan))
	aborted := 0
	for _, o := range r.Requests {
		switch {
		case o.Status == feature.ClientAbort && o.E2E == plan.Timeout:
			aborted++
		case o.Status != feature.OK || o.E2E > plan.Timeout:
			t.Errorf("request %d ended %s after %v", o.Session, o.Status, o.E2E)
		}
	}
	if behind := int64(aborted) - r.Engines[0].Cancelled; aborted < 20 || behind < 0 || behind > 1 { // the last may be in a step
		t.Errorf("%d clients gave up, the engine cancelled %d", aborted, r.Engines[0].Cancelled)
	}
}

// A request that no engine can hold ends, and its client goes on later.
func TestRefusedRequestsEnd(t *testing.T) {
	plan := single(5, 5000, 20, 0)
	plan.Concurrency = 1
	r := simulate(t, world(policy.TokenLoad, 2, plan))
	for i, o := range r.Requests {
		if o.Status != feature.UpstreamError || o.At != time.Duration(i)*time.Second {
			t.Errorf("request %d, sent at %v, ended %s", i, o.At, o.Status)
		}
	}
	if len(r.Requests) != 5 {
		t.Errorf("%d of 5 requests ended", len(r.Requests))
	}
}

func TestHorizonLosesWhatIsOnItsWay(t *testing.T) {
	c := world(policy.RoundRobin, 1, single(1000, 50, 1000, time.Second))
	c.Horizon = 10500 * time.Millisecond
	r := simulate(t, c)
	lost := 0
	for _, o := range r.Requests {
		if o.Status == feature.Lost {
			lost++
		}
	}
	if r.Sent != 11 || lost == 0 || len(r.Requests) != r.Sent || r.Loaded.To != c.Horizon {
		t.Errorf("%d sent, %d ended, %d lost, loaded until %v", r.Sent, len(r.Requests), lost, r.Loaded.To)
	}
}

func TestClosedLoopRampsAndKeepsItsClients(t *testing.T) {
	plan := single(100, 20, 20, 0)
	plan.Concurrency, plan.Ramp, plan.Limit = 4, 4*time.Second, 80
	c := world(policy.LeastRequest, 2, plan)
	most := 0
	c.ObserveEvery = 50 * time.Millisecond
	c.Observer = func(s *fleet.Sample) {
		n := 0
		for _, e := range s.Endpoints {
			n += e.InFlight
		}
		most = max(most, n)
		if limit := min(4, int(s.At/time.Second)+1); n > limit {
			t.Errorf("at %v %d requests of %d clients", s.At, n, limit)
		}
	}
	r := simulate(t, c)
	if r.Sent != 80 || most != 4 {
		t.Errorf("%d requests sent, %d at once: want 80 and 4", r.Sent, most)
	}
	if r.Loaded.To <= plan.Ramp || r.Loaded.To > r.Ended {
		t.Errorf("loaded until %v, ended %v", r.Loaded.To, r.Ended)
	}
}

// places returns for every session where its requests went.
func places(r *fleet.Result) map[int][]int {
	went := map[int][]int{}
	for _, o := range r.Requests {
		went[o.Session] = append(went[o.Session], o.Endpoint)
	}
	return went
}

func TestConnections(t *testing.T) {
	plan := func() workload.Plan {
		var all []workload.Session
		for i := range 12 {
			all = append(all, workload.Session{Index: i, Turns: slices.Repeat([]workload.Turn{{PromptTokens: 20, OutputTokens: 2}}, 5)})
		}
		return workload.Plan{Sessions: slices.Values(all), Concurrency: 3}
	}
	for _, c := range []struct {
		connections         fleet.Connections
		perSession, overall int // endpoints that the requests of a session saw, and those of all
	}{
		{fleet.PerRequest, 4, 4},
		{fleet.PerSession, 1, 4},
		{fleet.PerClient, 1, 3},
	} {
		w := world(policy.RoundRobin, 4, plan())
		w.Router.Connections = c.connections
		overall := map[int]bool{}
		for session, went := range places(simulate(t, w)) {
			for _, e := range went {
				overall[e] = true
			}
			slices.Sort(went)
			if n := len(slices.Compact(went)); c.perSession == 1 && n != 1 || c.perSession > 1 && n < 2 {
				t.Errorf("connections %d: session %d saw %d endpoints, want %d", c.connections, session, n, c.perSession)
			}
		}
		if len(overall) != c.overall {
			t.Errorf("connections %d: %d endpoints saw requests, want %d", c.connections, len(overall), c.overall)
		}
	}
}

// ages records how old the scraped numbers are that decisions are made from.
type ages struct {
	fleet.PriorForecaster
	seen []float64
}

func (a *ages) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	for i := range vectors {
		a.seen = append(a.seen, float64(vectors[i][feature.Index("scrape_age")]))
	}
	a.PriorForecaster.Forecast(vectors, out)
}

func TestRouterSeesWithDelay(t *testing.T) {
	for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
		var a ages
		c := world(policy.Predicted, 2, single(400, 20, 2, 53*time.Millisecond))
		c.Router.Forecaster, c.Router.ScrapeDelay = &a, delay
		simulate(t, c)
		least, most := slices.Min(a.seen), slices.Max(a.seen)
		if least < delay.Seconds() && least > 0.06 || most < 0.9+delay.Seconds() || most > 1.2+delay.Seconds() {
			t.Errorf("delay %v: ages from %.3f to %.3f s", delay, least, most)
		}
		late := slices.DeleteFunc(a.seen, func(age float64) bool { return age >= delay.Seconds() })
		if share := float64(len(late)) / float64(len(a.seen)+len(late)); share > 0.05 && delay > 0 {
			t.Errorf("delay %v: %.0f %% of the numbers were younger than it", delay, 100*share)
		}
	}
}

func TestDegradedEngineIsLearned(t *testing.T) {
	c := world(policy.ActiveRequest, 3, single(3000, 30, 40, 40*time.Millisecond))
	c.Engines[1].SlowFrom, c.Engines[1].SlowFactor = time.Minute, 3
	var before, after float64
	c.Observer = func(s *fleet.Sample) {
		switch s.At {
		case 59 * time.Second:
			before = s.Endpoints[1].Speed
		case 2*time.Minute - time.Second:
			after = s.Endpoints[1].Speed
		}
	}
	simulate(t, c)
	// Against a prior of 10 s, with a memory of 30 s: (30 + 10) / (30/3 + 10) at most.
	if math.Abs(before-1) > 0.15 || after < 1.6 {
		t.Errorf("the factor of an engine that slows three times is %.2f before and %.2f after", before, after)
	}
}

// Loads that are described only when something happened give the decisions
// that loads described every time give.
func TestSparingViewDecidesAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawWorld(rt, policy.Names())
		want, err := fleet.SimulateInFull(context.Background(), c)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, simulate(t, c)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestSinkTakesOutcomes(t *testing.T) {
	c := world(policy.RoundRobin, 2, single(50, 20, 5, 10*time.Millisecond))
	want := simulate(t, c).Requests
	var got []fleet.Outcome
	c.Sink = func(o fleet.Outcome) { got = append(got, o) }
	if r := simulate(t, c); len(r.Requests) != 0 || r.Sent != 50 {
		t.Errorf("kept %d outcomes of %d requests", len(r.Requests), r.Sent)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A run of any length holds what is on its way, and of what has ended as many
// answers as a router remembers.
func TestMemoryIsThatOfLiveRequests(t *testing.T) {
	plan := single(1<<40, 200, 5, 100*time.Millisecond)
	plan.Timeout = time.Hour // never comes, and may not be waited for
	c := world(policy.TokenLoad, 4, plan)
	c.Sink, c.Horizon = func(fleet.Outcome) {}, 4000*time.Second
	c.ObserveEvery = 1000 * time.Second
	var heap []uint64
	c.Observer = func(*fleet.Sample) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = append(heap, m.HeapAlloc)
	}
	simulate(t, c)
	if first, last := heap[2], heap[len(heap)-1]; last > first+200_000 {
		t.Errorf("after 20,000 requests the heap has %d bytes, after 30,000 %d", first, last)
	}
}

func TestSimulateEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := world(policy.RoundRobin, 2, single(1<<40, 20, 5, 10*time.Millisecond))
	n := 0
	c.Sink = func(fleet.Outcome) {
		if n++; n == 1000 {
			cancel()
		}
	}
	if _, err := fleet.Simulate(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestSimulateRefuses(t *testing.T) {
	for want, change := range map[string]func(*fleet.WorldConfig){
		"at least one engine": func(c *fleet.WorldConfig) { c.Engines = nil },
		"plan":                func(c *fleet.WorldConfig) { c.Plan.Sessions = nil },
		"no policy":           func(c *fleet.WorldConfig) { c.Router.Policy = "fate" },
		"no fallback":         func(c *fleet.WorldConfig) { c.Router.Fallback = policy.Predicted },
		"scrape interval":     func(c *fleet.WorldConfig) { c.Router.ScrapeInterval = -1 },
		"horizon":             func(c *fleet.WorldConfig) { c.Horizon = -1 },
		"engine 1":            func(c *fleet.WorldConfig) { c.Engines[1].Profile.MaxNumSeqs = 0 },
		"slow factor":         func(c *fleet.WorldConfig) { c.Engines[1].SlowFactor = -1 },
		"acceptance":          func(c *fleet.WorldConfig) { c.Engines[0].Options.Acceptance = map[string]float64{"a": 0.5} },
		"class x":             func(c *fleet.WorldConfig) { c.Router.Profiles = map[string]physics.Profile{"x": {}} },
	} {
		c := world(policy.RoundRobin, 2, single(1, 20, 5, 0))
		change(&c)
		if _, err := fleet.Simulate(context.Background(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something about %q", err, want)
		}
	}
}
