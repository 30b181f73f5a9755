package workload_test

import (
	"slices"
	"testing"

	"github.com/spillway-llm/spillway/internal/workload"
)

func publishedPlan(t *testing.T, name string, seed uint64, load float64) []workload.Session {
	t.Helper()
	plan, err := named(t, name).Published(seed, load)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(plan.Sessions)
}

// The median prompt of the published runs, as the engines read it, by number of
// clients (llm-d benchmark results, 73f3dbb, k8s, prompt_p50).
var publishedPrompts = map[float64]float64{
	10: 92_361, 20: 69_642, 30: 59_529, 40: 69_892, 50: 66_015, 60: 70_731, 70: 77_492, 80: 69_606, 90: 70_322, 100: 75_538,
}

// The draws are those of the published runs: at each of ten loads their median
// prompt is the published one.
func TestPublishedConversations(t *testing.T) {
	for load, want := range publishedPrompts {
		all := publishedPlan(t, "code-generation", 1, load)
		if len(all) != int(load) {
			t.Fatalf("%d sessions of %g clients", len(all), load)
		}
		var prompts []float64
		for _, s := range all {
			if len(s.Turns) != 6 {
				t.Fatalf("%d turns, want 6", len(s.Turns))
			}
			for _, turn := range s.Turns {
				prompts = append(prompts, float64(turn.PromptTokens))
			}
		}
		slices.Sort(prompts)
		if got := prompts[len(prompts)/2]; !near(got, want, 0.03) {
			t.Errorf("%g clients: median prompt %.0f, published %.0f", load, got, want)
		}
	}
}

// Of 150 published answers of reasoning one is longer than 27,000 tokens, of
// 250 seven, of 350 six: those that failed.
func TestPublishedAnswers(t *testing.T) {
	for load, want := range map[float64]int{50: 0, 150: 1, 250: 7, 350: 6} {
		n := 0
		for _, s := range publishedPlan(t, "reasoning", 1, load) {
			if len(s.Turns) != 3 || s.Turns[0].Anew || !s.Turns[1].Anew || !s.Turns[2].Anew {
				t.Fatalf("turns %+v: want three that begin anew", s.Turns)
			}
			if a, b := s.Turns[0], s.Turns[2]; a.PromptTokens != b.PromptTokens || a.OutputTokens != b.OutputTokens || !slices.Equal(a.Blocks[:len(a.Blocks)-1], b.Blocks[:len(b.Blocks)-1]) {
				t.Fatal("the third turn is not the first again")
			}
			if s.Turns[0].OutputTokens > 27_000 {
				n++
			}
		}
		if n != want {
			t.Errorf("%g clients: %d answers of more than 27,000 tokens, want %d", load, n, want)
		}
	}
}

// A conversation begins anew where its prompt begins again.
func TestPublishedConversationsBeginAnew(t *testing.T) {
	for _, s := range publishedPlan(t, "code-generation", 1, 20) {
		for i, turn := range s.Turns[1:] {
			if before := s.Turns[i]; turn.Anew != (turn.PromptTokens < before.PromptTokens+before.OutputTokens) {
				t.Errorf("session %d: turn %d of %d tokens after %d and %d, anew is %t", s.Index, i+1,
					turn.PromptTokens, before.PromptTokens, before.OutputTokens, turn.Anew)
			}
		}
	}
}

// The seed of a published plan names its text and decides no length.
func TestPublishedSeed(t *testing.T) {
	one, two := publishedPlan(t, "reasoning", 1, 50), publishedPlan(t, "reasoning", 2, 50)
	for i := range one {
		a, b := one[i].Turns[0], two[i].Turns[0]
		if a.PromptTokens != b.PromptTokens || a.OutputTokens != b.OutputTokens || a.Blocks[0] == b.Blocks[0] {
			t.Fatalf("session %d: %+v and %+v", i, a, b)
		}
	}
}

// The open loop has prompts as long as engines read them: 7,200 tokens were
// drawn.
func TestPublishedOpenLoop(t *testing.T) {
	spec := named(t, "b2b-saas")
	spec.Workers = 64
	plan, err := spec.Published(1, 0)
	if err != nil || plan.Workers != 64 || len(plan.Stages) != len(spec.Ladder()) {
		t.Fatalf("%d workers, %d stages, %v", plan.Workers, len(plan.Stages), err)
	}
	for s := range plan.Sessions {
		if turn := s.Turns[0]; turn.PromptTokens != 7538 || turn.OutputTokens != 1000 {
			t.Fatalf("%d prompt tokens and %d output tokens", turn.PromptTokens, turn.OutputTokens)
		}
		break
	}
}

func TestPublishedKnowsItsLoads(t *testing.T) {
	for name, loads := range map[string][]float64{"code-generation": {0, 15, 110, 10.5}, "reasoning": {10, 100}, "mixed": {10}} {
		for _, load := range loads {
			if _, err := named(t, name).Published(1, load); err == nil {
				t.Errorf("%s at %g is published", name, load)
			}
		}
	}
	for _, name := range []string{"code-generation", "reasoning"} {
		for _, load := range named(t, name).Ladder() {
			if _, err := named(t, name).Published(1, load); err != nil {
				t.Error(err)
			}
		}
	}
}
