package policy_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// What every policy promises, whatever it prefers.

// checkChoice is what must hold of any choice made from in.
func checkChoice(t rapid.TB, in *policy.Input, out *policy.Choice) {
	t.Helper()
	n := len(in.Candidates)
	if len(out.Probabilities) != n || len(out.Costs) != n || len(out.Forecasts) != n {
		t.Fatalf("%d probabilities, %d costs and %d forecasts for %d candidates", len(out.Probabilities), len(out.Costs), len(out.Forecasts), n)
	}
	best := policy.Barred
	for i := range in.Candidates {
		best = min(best, in.Candidates[i].Standing)
	}
	if n == 0 || best == policy.Barred {
		if out.Index != -1 || out.Reason.Code != policy.NoCandidate {
			t.Fatalf("chose %d (%v) although no candidate may serve", out.Index, out.Reason)
		}
		for i, p := range out.Probabilities {
			if p != 0 {
				t.Fatalf("barred candidate %d has probability %v", i, p)
			}
		}
		return
	}
	if out.Shed != (out.Index == -1) || out.Index < -1 || out.Index >= n {
		t.Fatalf("chose %d of %d candidates, shed %v", out.Index, n, out.Shed)
	}
	switch {
	case !(out.ShedProbability >= 0 && out.ShedProbability <= 1):
		t.Fatalf("shed with probability %v", out.ShedProbability)
	case out.ShedProbability > 0 && !(in.Request.Priority < 0 && in.Forecasts):
		t.Fatalf("a request of priority %v is shed with probability %v, forecasts %v", in.Request.Priority, out.ShedProbability, in.Forecasts)
	case out.Shed && out.ShedProbability == 0:
		t.Fatal("shed with probability 0")
	case !out.Shed && !(out.Probabilities[out.Index] > 0):
		t.Fatalf("chose candidate %d, which has probability %v", out.Index, out.Probabilities[out.Index])
	}
	sum := 0.0
	for i, p := range out.Probabilities {
		if !(p >= 0 && p <= 1+1e-9) {
			t.Fatalf("candidate %d has probability %v", i, p)
		}
		if p > 0 && in.Candidates[i].Standing != best {
			t.Fatalf("candidate %d of standing %d has probability %v beside one of standing %d", i, in.Candidates[i].Standing, p, best)
		}
		sum += p
	}
	if sum += out.ShedProbability; !(math.Abs(sum-1) <= 1e-9) {
		t.Fatalf("probabilities %v and %v of shedding sum to %v", out.Probabilities, out.ShedProbability, sum)
	}
	if out.Reason.String() == "" {
		t.Fatalf("reason %+v reads as nothing", out.Reason)
	}
}

func TestEveryChoiceIsValidAndRepeatable(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		rapid.Check(t, func(t *rapid.T) {
			in := drawInput(t, name)
			var used, fresh policy.Choice
			if err := policy.Decide(drawInput(t, name), &used); err != nil {
				t.Fatal(err)
			}
			before := clone(in)
			for _, out := range []*policy.Choice{&used, &fresh} {
				if err := policy.Decide(in, out); err != nil {
					t.Fatal(err)
				}
				checkChoice(t, in, out)
			}
			if diff := cmp.Diff(&fresh, &used, bitEqual); diff != "" {
				t.Fatalf("a Choice used before decides otherwise (-fresh +used):\n%s", diff)
			}
			if diff := cmp.Diff(before, in, bitEqual); diff != "" {
				t.Fatalf("Decide changed its input:\n%s", diff)
			}
		})
	})
}

// Round-robin counts positions, so moving the candidates moves its turn.
func TestOrderOfCandidatesIsIrrelevant(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		if name == policy.RoundRobin {
			return
		}
		rapid.Check(t, func(t *rapid.T) {
			in := drawInput(t, name)
			order := make([]int, len(in.Candidates))
			for i := range order {
				order[i] = i
			}
			order = rapid.Permutation(order).Draw(t, "order")
			moved := clone(in)
			for to, from := range order {
				moved.Candidates[to] = in.Candidates[from]
			}
			var a, b policy.Choice
			if err := policy.Decide(in, &a); err != nil {
				t.Fatal(err)
			}
			if err := policy.Decide(moved, &b); err != nil {
				t.Fatal(err)
			}
			for to, from := range order {
				if a.Probabilities[from] != b.Probabilities[to] {
					t.Fatalf("%s has probability %v at %d and %v at %d", in.Candidates[from].Endpoint, a.Probabilities[from], from, b.Probabilities[to], to)
				}
			}
		})
	})
}

// The probability that is stated, stored and weighted by later is the one with
// which the choice is really made.
func TestStatedProbabilityIsObserved(t *testing.T) {
	const draws = 20_000
	forEvery(t, func(t *testing.T, name string) {
		for _, world := range []struct {
			name     string
			requests []float64
			cached   []float64
		}{
			{"all alike", []float64{0, 0, 0, 0, 0, 0, 0}, make([]float64, 7)},
			{"all unlike", []float64{3, 1, 4, 0, 5, 9, 2}, make([]float64, 7)},
			{"some alike", []float64{2, 1, 2, 1, 1, 7, 2}, make([]float64, 7)},
			{"some warm", []float64{2, 1, 2, 1, 1, 7, 2}, []float64{1000, 0, 900, 0, 0, 1000, 0}},
			{"two", []float64{1, 1}, make([]float64, 2)},
			{"canary", []float64{2, 1, 2, 1, 1, 7, 2}, []float64{1000, 0, 900, 0, 0, 1000, 0}},
			{"shed at times", []float64{2, 1, 2, 1, 1, 7, 2}, []float64{1000, 0, 900, 0, 0, 1000, 0}},
			{"canary that sheds", []float64{2, 1, 2, 1, 1, 7, 2}, make([]float64, 7)},
		} {
			t.Run(world.name, func(t *testing.T) {
				in := input(name, idles(len(world.requests))...)
				in.Settings.Exploration = 0.2
				if strings.Contains(world.name, "canary") {
					in.Canary = 0.3
				}
				if strings.Contains(world.name, "shed") {
					in.Request.Priority, in.Request.SLOTTFT = -1, 0.2 // the best p90 is 0.24 s
				}
				for i := range in.Candidates {
					c := &in.Candidates[i]
					c.CachedTokens = world.cached[i]
					c.Load.Ledger.Requests = world.requests[i]
					c.Load.Ledger.PrefillTokens = 1000 * world.requests[i]
					expect(in, i, 0.1*(1+world.requests[i]), 0.02)
				}
				counts := make([]float64, len(in.Candidates)+1) // and of shedding
				var out policy.Choice
				for seed := range uint64(draws) {
					in.Seed, in.Turn = seed, 2 // round-robin is certain of the turn it is given
					if err := policy.Decide(in, &out); err != nil {
						t.Fatal(err)
					}
					if out.Shed {
						out.Index = len(in.Candidates)
					}
					counts[out.Index]++
				}
				chi, freedom := 0.0, -1.0
				for i, p := range append(out.Probabilities, out.ShedProbability) {
					if p == 0 {
						if counts[i] > 0 {
							t.Errorf("candidate %d has probability 0 and was chosen %v times", i, counts[i])
						}
						continue
					}
					want := p * draws
					chi += (counts[i] - want) * (counts[i] - want) / want
					freedom++
				}
				// Mean and variance of chi-square are k and 2k; six deviations
				// and a little for its long tail.
				if chi > freedom+6*math.Sqrt(2*freedom)+3 {
					t.Errorf("chose %v, stated %v: chi-square %.1f at %v degrees of freedom", counts, out.Probabilities, chi, freedom)
				}
			})
		}
	})
}

// A router that lost every signal still routes, whatever is missing.
func TestMissingSignalsAreSurvived(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		rapid.Check(t, func(t *rapid.T) {
			in := drawInput(t, name)
			everything := rapid.Bool().Draw(t, "everything")
			forget := func(_ string, number reflect.Value) {
				if everything || rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
					number.SetFloat(math.NaN())
				}
			}
			for i := range in.Candidates {
				if rapid.Bool().Draw(t, "of this one") {
					numbers(reflect.ValueOf(&in.Candidates[i]).Elem(), forget)
				}
			}
			if rapid.Bool().Draw(t, "of the request") {
				numbers(reflect.ValueOf(&in.Request).Elem(), forget)
			}
			var out policy.Choice
			if err := policy.Decide(in, &out); err != nil {
				t.Fatal(err)
			}
			checkChoice(t, in, &out)
		})
	})
}

// An endpoint with an unknown load is not taken for an idle one.
func TestUnknownLoadIsNotIdle(t *testing.T) {
	for _, name := range []string{policy.LeastRequest, policy.PowerOfTwo, policy.TokenLoad, policy.ActiveRequest, policy.CombinedLoad} {
		in := input(name, idles(2)...)
		in.Candidates[0].Load.Ledger.Requests = math.NaN()
		in.Candidates[0].Load.Ledger.PrefillTokens = math.NaN()
		in.Candidates[1].Load.Ledger.Requests = 50
		in.Candidates[1].Load.Ledger.PrefillTokens = 50_000
		if p := decide(t, in).Probabilities; p[0] != 0 || p[1] != 1 {
			t.Errorf("%s: probabilities are %v, want 0 for the unknown one", name, p)
		}
	}
}

func TestStandings(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		for _, c := range []struct {
			standings []policy.Standing
			want      string
		}{
			{[]policy.Standing{policy.Dated, policy.Good, policy.Doubtful}, "e0001"},
			{[]policy.Standing{policy.Doubtful, policy.Barred, policy.Dated}, "e0002"},
			{[]policy.Standing{policy.Barred, policy.Doubtful, policy.Barred}, "e0001"},
			{[]policy.Standing{policy.Barred, policy.Barred, policy.Barred}, ""},
			{[]policy.Standing{policy.Doubtful}, "e0000"},
			{[]policy.Standing{policy.Barred}, ""},
			{nil, ""},
		} {
			in := input(name, idles(len(c.standings))...)
			expectAll(in, 0.1, 0.02)
			in.Settings.Exploration = 1 // nor may exploration reach below the best
			for i, s := range c.standings {
				in.Candidates[i].Standing = s
				if s == policy.Good || s == policy.Dated {
					in.Candidates[i].Load.Ledger.Requests = 200 // however busy the better one is
				}
			}
			for in.Seed = range 20 {
				in.Turn = in.Seed
				if got := chosen(t, in); got != c.want {
					t.Errorf("standings %v: chose %q, want %q", c.standings, got, c.want)
				}
			}
		}
	})
}

func TestSingleCandidateIsCertain(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		for _, known := range []bool{false, true} {
			in := input(name, idle("only"))
			in.Settings.Exploration = 0.5
			if known {
				expect(in, 0, 100, 1)
			}
			in.Candidates[0].CachedTokens = 1000
			in.Candidates[0].Load.Ledger.PrefillTokens = 1e6
			if p := decide(t, in).Probabilities; p[0] != 1 {
				t.Errorf("the only endpoint has probability %v", p[0])
			}
		}
	})
}

func TestDecideAllocatesNothing(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		in := input(name, idles(100)...)
		in.Settings.Exploration = 0.5
		for i := range in.Candidates {
			in.Candidates[i].Load.Ledger.Requests = float64(i % 7)
			in.Candidates[i].CachedTokens = float64(i % 2 * 1000)
			expect(in, i, 0.1+float64(i%5), 0.02)
		}
		out := decide(t, in)
		if n := testing.AllocsPerRun(100, func() {
			in.Seed++
			if err := policy.Decide(in, out); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("Decide allocates %v times once warm", n)
		}
	})
}

func TestRoundRobinTakesTurns(t *testing.T) {
	in := input(policy.RoundRobin, idles(3)...)
	in.Candidates[1].Standing = policy.Dated
	var got []string
	for in.Turn = range 4 {
		got = append(got, chosen(t, in))
	}
	in.Turn = math.MaxUint64
	got = append(got, chosen(t, in))
	if want := []string{"e0000", "e0002", "e0000", "e0002", "e0002"}; !slices.Equal(got, want) {
		t.Errorf("turns are %v, want %v", got, want)
	}
}

// powerOfTwoTwin enumerates all pairs.
func powerOfTwoTwin(costs []float64) []float64 {
	p := make([]float64, len(costs))
	pairs := float64(len(costs)*(len(costs)-1)) / 2
	for i, a := range costs {
		for j := i + 1; j < len(costs); j++ {
			switch b := costs[j]; {
			case a < b:
				p[i] += 1 / pairs
			case b < a:
				p[j] += 1 / pairs
			default:
				p[i] += 0.5 / pairs
				p[j] += 0.5 / pairs
			}
		}
	}
	return p
}

func TestPowerOfTwoEqualsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := input(policy.PowerOfTwo, idles(rapid.IntRange(2, 30).Draw(t, "candidates"))...)
		costs := make([]float64, len(in.Candidates))
		for i := range costs {
			costs[i] = float64(rapid.IntRange(0, 5).Draw(t, "requests"))
			in.Candidates[i].Load.Ledger.Requests = costs[i]
		}
		var out policy.Choice
		if err := policy.Decide(in, &out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(powerOfTwoTwin(costs), out.Probabilities, about); diff != "" {
			t.Fatalf("probabilities (-twin +got):\n%s", diff)
		}
	})
}

func TestNames(t *testing.T) {
	want := []string{"active-request", "combined-load", "least-request", "power-of-two", "predicted", "predictor-blend", "random", "round-robin", "token-load", "weighted-blend"}
	if diff := cmp.Diff(want, policy.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, name := range want {
		if err := policy.Check(name); err != nil {
			t.Errorf("Check(%q): %v", name, err)
		}
		if err := policy.CheckFallback(name); (err == nil) == policy.Forecasting(name) {
			t.Errorf("CheckFallback(%q): %v", name, err)
		}
	}
	for _, name := range []string{"", "predict", "Random"} {
		if policy.Check(name) == nil || policy.CheckFallback(name) == nil {
			t.Errorf("policy %q passes", name)
		}
	}
}

func TestUnknownPolicies(t *testing.T) {
	var out policy.Choice
	in := input("nonsense", idle("a"))
	if err := policy.Decide(in, &out); err == nil {
		t.Error("policy nonsense decides")
	}
	for _, fallback := range []string{"", "nonsense", policy.Predicted, policy.PredictorBlend} {
		in = input(policy.Predicted, idle("a")) // no forecast for it
		in.Fallback = fallback
		for _, in.Forecasts = range []bool{true, false} {
			if err := policy.Decide(in, &out); err == nil {
				t.Errorf("fallback %q decides, forecasts %v", fallback, in.Forecasts)
			}
		}
		expect(in, 0, 0.1, 0.02)
		in.Forecasts = true
		if err := policy.Decide(in, &out); err != nil {
			t.Errorf("fallback %q is an error where none is needed: %v", fallback, err)
		}
		in.Forecasts = false
		if err := policy.Decide(in, &out); err == nil {
			t.Errorf("fallback %q decides although forecasts may not", fallback)
		}
		in.Candidates, in.Forecasts = nil, true
		if err := policy.Decide(in, &out); err != nil || out.Index != -1 {
			t.Errorf("fallback %q, no candidates: chose %d, %v", fallback, out.Index, err)
		}
	}
}

func TestForecastsHaveTheirQuantilesInOrder(t *testing.T) {
	in := input(policy.Predicted, idles(2)...)
	in.Candidates[0].Residual = feature.Residual{TTFT: feature.LogQuantiles{P50: 0.3, P90: -0.3}, TPOT: feature.LogQuantiles{P50: 0, P90: -1}}
	out := decide(t, in)
	f := out.Forecasts[0]
	if f.TTFT.P90 != f.TTFT.P50 || f.TPOT.P90 != f.TPOT.P50 {
		t.Errorf("crossed residuals gave %+v", f)
	}
	if out.Forecasts[1].Known() {
		t.Errorf("an endpoint that was not forecast has %+v", out.Forecasts[1])
	}
}
