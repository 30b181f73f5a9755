package workload_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/workload"
)

// moments are of lengths: mean, standard deviation, least, most.
type moments struct{ mean, sd, least, most float64 }

func measure(values []float64) moments {
	m := moments{least: slices.Min(values), most: slices.Max(values)}
	for _, v := range values {
		m.mean += v / float64(len(values))
	}
	for _, v := range values {
		m.sd += (v - m.mean) * (v - m.mean) / float64(len(values)-1)
	}
	m.sd = math.Sqrt(m.sd)
	return m
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= want*share }

// What is published about the lengths; see the package comment. Clipping takes
// a few percent from the lognormals.
func TestPublishedLengths(t *testing.T) {
	var turns, context, input, output []float64
	for _, s := range sessions(named(t, "code-generation").Open(1, 1), 6000) {
		turns = append(turns, float64(len(s.Turns)))
		context = append(context, float64(s.Turns[0].PromptTokens-3000))
		for i, turn := range s.Turns {
			output = append(output, float64(turn.OutputTokens))
			if i > 0 {
				before := s.Turns[i-1]
				input = append(input, float64(turn.PromptTokens-before.PromptTokens-before.OutputTokens))
			}
		}
	}
	if m := measure(turns); !near(m.mean, 6.3, 0.05) || m.least != 2 && m.least != 1 || m.most > 20 {
		t.Errorf("turns %+v", m)
	}
	// The first prompt has the dynamic system prompt, 57,500 on average, and
	// one input.
	if m := measure(context); !near(m.mean, 59_000, 0.03) || m.least < 15_100 || m.most > 110_000 {
		t.Errorf("context %+v", m)
	}
	if m := measure(input); !near(m.mean, 1490, 0.04) || !near(m.sd, 1120, 0.1) || m.least < 100 || m.most > 10_000 {
		t.Errorf("input %+v", m)
	}
	if m := measure(output); !near(m.mean, 793, 0.04) || !near(m.sd, 560, 0.1) || m.least < 50 || m.most > 4000 {
		t.Errorf("output %+v", m)
	}

	input, output = nil, nil
	for _, s := range sessions(named(t, "reasoning").Open(1, 1), 20_000) {
		input = append(input, float64(s.Turns[0].PromptTokens-250))
		output = append(output, float64(s.Turns[0].OutputTokens))
	}
	if m := measure(input); !near(m.mean, 985, 0.03) || m.least < 100 || m.most > 5000 {
		t.Errorf("input %+v", m)
	}
	if m := measure(output); !near(m.mean, 7850, 0.03) || !near(m.sd, 5800, 0.08) || m.least < 500 || m.most != 32_000 {
		t.Errorf("output %+v", m)
	}
	// Half of the answers are longer than least plus (mean - least) / sqrt(1 +
	// cv^2) tokens.
	slices.Sort(output)
	if median := output[len(output)/2]; !near(median, 500+7500/math.Sqrt(1+math.Pow(6500.0/7500, 2)), 0.03) {
		t.Errorf("median output %.0f", median)
	}
}

// A client of code generation sends six requests; a conversation that ends
// before that begins again with the same words, and hears another answer.
func TestClosedConversationsBeginAgain(t *testing.T) {
	spec := named(t, "code-generation")
	plan := spec.Sessions(2, 40)
	all := sessions(plan, 1<<20)
	if len(all) != 40 || plan.Concurrency != 40 || plan.Limit != 240 || plan.Timeout != 300*time.Second || plan.Ramp != 0 {
		t.Fatalf("%d sessions, plan %+v", len(all), plan)
	}
	again := 0
	for _, s := range all {
		if len(s.Turns) != 6 {
			t.Fatalf("client %d sends %d requests", s.Index, len(s.Turns))
		}
		first := s.Turns[0]
		for i, turn := range s.Turns[1:] {
			before := s.Turns[i]
			if turn.PromptTokens > before.PromptTokens {
				if !slices.Equal(before.Answered[:len(before.Answered)-1], turn.Blocks[:len(before.Answered)-1]) {
					t.Fatalf("client %d: turn %d does not begin with turn %d and its answer", s.Index, i+1, i)
				}
				continue
			}
			again++
			full := first.PromptTokens / first.BlockTokens
			if turn.PromptTokens != first.PromptTokens || turn.OutputTokens != first.OutputTokens || !slices.Equal(turn.Blocks[:full], first.Blocks[:full]) {
				t.Fatalf("client %d begins again with other words", s.Index)
			}
			if turn.Answered[full] == first.Answered[full] {
				t.Fatalf("client %d is given the same answer again", s.Index)
			}
		}
	}
	if again < 10 {
		t.Errorf("%d conversations began again", again)
	}
	if shared := 3000 / 272; !slices.Equal(all[0].Turns[0].Blocks[:shared], all[1].Turns[0].Blocks[:shared]) || all[0].Turns[0].Blocks[shared] == all[1].Turns[0].Blocks[shared] {
		t.Error("conversations do not share the system prompt alone")
	}
}

// Reasoning has as many prompts as clients, each sent three times.
func TestReasoningAsksThreeTimes(t *testing.T) {
	plan := named(t, "reasoning").Sessions(2, 50)
	all := sessions(plan, 1<<20)
	if len(all) != 150 || plan.Concurrency != 50 || plan.Limit != 150 || plan.Timeout != 600*time.Second {
		t.Fatalf("%d sessions, plan %+v", len(all), plan)
	}
	for i := range 50 {
		a, b := all[i].Turns[0], all[i+100].Turns[0]
		full := a.PromptTokens / 16
		if a.PromptTokens != b.PromptTokens || a.OutputTokens != b.OutputTokens || !slices.Equal(a.Blocks[:full], b.Blocks[:full]) || a.Answered[full] == b.Answered[full] {
			t.Fatalf("prompt %d is not the same words with another answer", i)
		}
	}
}

// b2b-saas sends 750 prompts of 150 tenants in rounds.
func TestB2BSendsItsPromptsInRounds(t *testing.T) {
	spec := named(t, "b2b-saas")
	spec.Duration = 0
	prompts, tenants := map[uint64]int{}, map[uint64]map[uint64]bool{}
	all := sessions(spec.Open(1, 10), 1500)
	for i, s := range all {
		turn := s.Turns[0]
		if turn.PromptTokens != 7200 || turn.OutputTokens != 1000 {
			t.Fatalf("%+v", turn)
		}
		tenant, question := turn.Blocks[24], turn.Blocks[25]
		if tenants[tenant] == nil {
			tenants[tenant] = map[uint64]bool{}
		}
		tenants[tenant][question] = true
		prompts[question]++
		if i >= 750 && (question != all[i-750].Turns[0].Blocks[25] || turn.Answered[30] == all[i-750].Turns[0].Answered[30]) {
			t.Fatalf("prompt %d is not that of the round before with another answer", i)
		}
	}
	if len(prompts) != 750 || len(tenants) != 150 {
		t.Errorf("%d prompts of %d tenants", len(prompts), len(tenants))
	}
	for _, questions := range tenants {
		if len(questions) != 5 {
			t.Errorf("a tenant has %d questions", len(questions))
		}
	}
}

// One load of b2b-saas is the published warm-up, a pause, and its stage; the
// whole ladder is all stages in a row.
func TestB2BStages(t *testing.T) {
	spec := named(t, "b2b-saas")
	count := func(plan workload.Plan, from, to time.Duration) int {
		n := 0
		for s := range plan.Sessions {
			if s.At >= from && s.At < to {
				n++
			}
		}
		return n
	}
	one := spec.Sessions(1, 40)
	if want := (workload.Stage{Load: 40, From: 80 * time.Second, To: 118 * time.Second}); len(one.Stages) != 1 || one.Stages[0] != want || one.Warmup != want.From {
		t.Fatalf("%+v", one.Stages)
	}
	if n := count(one, 0, 50*time.Second); math.Abs(float64(n)-750) > 110 {
		t.Errorf("%d requests of warm-up", n)
	}
	if n := count(one, 50*time.Second, 80*time.Second); n != 0 {
		t.Errorf("%d requests in the pause", n)
	}
	if n := count(one, 80*time.Second, 118*time.Second); math.Abs(float64(n)-1520) > 160 {
		t.Errorf("%d requests of the stage", n)
	}
	if n := count(one, 118*time.Second, time.Hour); n != 0 {
		t.Errorf("%d requests too many", n)
	}

	all := spec.Climb(1)
	if len(all.Stages) != 16 || all.Stages[0].From != 80*time.Second || all.Stages[1].From != 130*time.Second {
		t.Fatalf("%+v", all.Stages)
	}
	for _, st := range all.Stages {
		want := st.Load * (st.To - st.From).Seconds()
		if n := count(all, st.From, st.To); math.Abs(float64(n)-want) > 4*math.Sqrt(want) {
			t.Errorf("rate %g: %d requests, want about %.0f", st.Load, n, want)
		}
	}
	if plan := named(t, "reasoning").Climb(1); len(sessions(plan, 1)) != 0 {
		t.Error("a closed loop was climbed")
	}
	if at := spec.Sessions(1, 44).Stages[0]; math.Abs((at.To-at.From).Seconds()-1500.0/44) > 1e-6 {
		t.Errorf("a rate between takes %v", at.To-at.From)
	}
}
