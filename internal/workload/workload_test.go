package workload_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
)

// sessions draws at most n sessions of a plan.
func sessions(p workload.Plan, n int) []workload.Session {
	var out []workload.Session
	for s := range p.Sessions {
		if len(out) == n {
			break
		}
		out = append(out, s)
	}
	return out
}

// same is cmp.Equal, which takes its time over long slices.
func same(a, b []workload.Session) bool {
	return slices.EqualFunc(a, b, func(a, b workload.Session) bool {
		turns := slices.EqualFunc(a.Turns, b.Turns, func(a, b workload.Turn) bool {
			return slices.Equal(a.Blocks, b.Blocks) && slices.Equal(a.Answered, b.Answered) && a.BlockTokens == b.BlockTokens &&
				a.PromptTokens == b.PromptTokens && a.OutputTokens == b.OutputTokens && a.After == b.After
		})
		return turns && a.Index == b.Index && a.At == b.At && a.Class == b.Class
	})
}

func named(t interface{ Fatal(...any) }, name string) workload.Spec {
	s, err := workload.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlansAreWellFormed(t *testing.T) {
	for _, name := range workload.Names() {
		t.Run(name, func(t *testing.T) {
			spec := named(t, name)
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				load := rapid.SampledFrom(spec.Ladder()).Draw(t, "load")
				plan := spec.Sessions(seed, load)
				all := sessions(plan, 60)
				at := time.Duration(0)
				for i, s := range all {
					if s.Index != i || s.At < at || s.Class == "" || len(s.Turns) == 0 || spec.Closed && s.At != 0 {
						t.Fatalf("session %d: %+v", i, s)
					}
					at = s.At
					for j, turn := range s.Turns {
						checkTurn(t, turn)
						if j == 0 && turn.After != 0 || turn.After < 0 {
							t.Fatalf("session %d waits %v before turn %d", i, turn.After, j)
						}
					}
				}
				if !same(all, sessions(plan, 60)) {
					t.Fatal("ranging over a plan again gives other sessions")
				}
			})
		})
	}
}

func checkTurn(t *rapid.T, turn workload.Turn) {
	b := turn.BlockTokens
	blocks := func(tokens int) int { return (tokens + b - 1) / b }
	switch {
	case turn.PromptTokens < 1 || turn.OutputTokens < 1 || turn.PromptTokens+turn.OutputTokens > 131_072:
		t.Fatalf("%d tokens in, %d out", turn.PromptTokens, turn.OutputTokens)
	case b%16 != 0:
		t.Fatalf("blocks of %d tokens", b)
	case len(turn.Blocks) != blocks(turn.PromptTokens) || len(turn.Answered) != blocks(turn.PromptTokens+turn.OutputTokens):
		t.Fatalf("%d and %d blocks of %d for %d and %d tokens", len(turn.Blocks), len(turn.Answered), b, turn.PromptTokens, turn.OutputTokens)
	case !slices.Equal(turn.Blocks, turn.Answered[:len(turn.Blocks)]):
		t.Fatal("the answer does not begin with the prompt")
	}
}

// Arms are compared on paired seeds: what is asked must not depend on how much
// is asked.
func TestLoadChangesNoSession(t *testing.T) {
	for _, name := range workload.Names() {
		if name == "shifting" || name == "reasoning" {
			continue // time decides about the kind there, and clients about the round here
		}
		spec := named(t, name)
		ladder := spec.Ladder()
		low, high := spec.Sessions(3, ladder[0]), spec.Sessions(3, ladder[len(ladder)-1])
		a := sessions(low, 10)
		b := sessions(high, len(a))
		for i := range b {
			a[i].At, b[i].At = 0, 0
		}
		if !same(a, b) {
			t.Errorf("%s: load changes the sessions", name)
		}
		if same(a, sessions(spec.Sessions(4, ladder[0]), 10)) {
			t.Errorf("%s: the seed changes nothing", name)
		}
	}
}

func TestArrivalsKeepTheirRate(t *testing.T) {
	for _, name := range workload.Names() {
		spec := named(t, name)
		spec.Duration = 0
		const rate = 20
		requests, last := 0, time.Duration(0)
		for _, s := range sessions(spec.Open(5, rate), 4000) {
			requests += len(s.Turns)
			last = s.At
		}
		// Conversations end early where they have no more room.
		if got := float64(requests) / last.Seconds(); math.Abs(got-rate) > rate*0.06 {
			t.Errorf("%s: %.2f requests/s, want %d", name, got, rate)
		}
	}
}

func TestOpenLoopEnds(t *testing.T) {
	spec := named(t, "mixed")
	plan := spec.Sessions(1, 8)
	all := sessions(plan, 1<<20)
	last := all[len(all)-1].At
	if last >= spec.Duration || last < spec.Duration-10*time.Second || plan.Concurrency != 0 || plan.Timeout != 600*time.Second {
		t.Errorf("last arrival at %v of %v, plan %+v", last, spec.Duration, plan)
	}
	want := []workload.Stage{{Load: 8, From: time.Minute, To: 10 * time.Minute}}
	if d := cmp.Diff(want, plan.Stages); d != "" {
		t.Error(d)
	}
	classes := map[string]int{}
	for _, s := range all {
		classes[s.Class]++
	}
	if chat := float64(classes["interactive-chat"]) / float64(len(all)); len(classes) != 3 || math.Abs(chat-0.7) > 0.06 {
		t.Errorf("classes %v, want 70 %% chat, and code generation and reasoning", classes)
	}
}

func TestShiftingChangesRegimes(t *testing.T) {
	spec := named(t, "shifting")
	kinds := []string{"interactive-chat", "code-generation", "rag", "reasoning"}
	counts := make([]int, 4)
	for _, s := range sessions(spec.Sessions(1, 0.5), 1<<20) {
		regime := int(s.At / (4 * time.Minute))
		if s.Class != kinds[regime] {
			t.Fatalf("%s at %v", s.Class, s.At)
		}
		counts[regime] += len(s.Turns)
	}
	for i, rate := range []float64{80, 1, 60, 2} {
		want := rate * 0.5 * 240
		if math.Abs(float64(counts[i])-want) > 5*math.Sqrt(want*5) {
			t.Errorf("%s: %d requests, want about %.0f", kinds[i], counts[i], want)
		}
	}
}

func TestBadLoadsAndNames(t *testing.T) {
	if _, err := workload.Named("dreams"); err == nil || !strings.Contains(err.Error(), `workload "dreams" is not known: expected one of code-generation, reasoning, b2b-saas`) {
		t.Error(err)
	}
	for _, load := range []float64{0, -1, math.NaN(), math.Inf(1), 1.5, 1e9} {
		spec := named(t, "reasoning")
		if spec.Check(load) == nil || len(sessions(spec.Sessions(1, load), 1)) != 0 {
			t.Errorf("%g clients accepted", load)
		}
	}
	if err := named(t, "mixed").Check(1.5); err != nil {
		t.Error(err)
	}
}

func TestFleetsThatAreNotOfAPiece(t *testing.T) {
	for _, test := range []struct {
		name         string
		of, are      int
		factor, from float64
	}{
		{"mixed", 10, 0, 0, 0},
		{"heterogeneous", 10, 5, 2.5, 0},
		{"degraded", 10, 1, 3, 0.5},
		{"degraded", 0, 0, 3, 0.5},
	} {
		slow := named(t, test.name).Slow
		if slow.Endpoints(test.of) != test.are || slow.Factor != test.factor || slow.From != test.from {
			t.Errorf("%s: %d of %d endpoints, %+v", test.name, slow.Endpoints(test.of), test.of, slow)
		}
	}
}

func TestTracesAreReplayed(t *testing.T) {
	items := []trace.Item{
		{PromptTokens: 600, OutputTokens: 0, Blocks: []uint64{7, 8}, BlockTokens: 512},
		{At: 3 * time.Second, PromptTokens: 5, OutputTokens: 9},
	}
	want := []workload.Session{
		{Class: "trace", Turns: []workload.Turn{{PromptTokens: 600, OutputTokens: 1, Blocks: items[0].Blocks, Answered: items[0].Blocks, BlockTokens: 512}}},
		{Index: 1, At: 2 * time.Second, Class: "trace", Turns: []workload.Turn{{PromptTokens: 5, OutputTokens: 9}}},
	}
	plan := workload.FromTrace(items, 1.5)
	if d := cmp.Diff(want, sessions(plan, 9)); d != "" || plan.Concurrency != 0 {
		t.Error(d)
	}
}
