package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// sent names a request.
type sent struct{ session, turn int }

// twinWorkers says when a closed loop's requests are sent and where they may go,
// from when they ended: one worker after the other, its tasks written down in
// full.
type twinWorkers struct {
	plan     workload.Plan
	sessions []workload.Session
	outcomes map[sent]fleet.Outcome
}

// conversation is the turns between two that begin anew.
func (w *twinWorkers) conversation(x sent) int {
	n := 0
	for t := 1; t <= x.turn; t++ {
		if w.sessions[x.session].Turns[t].Anew {
			n++
		}
	}
	return n
}

// run returns when each request of a worker is sent, and what is wrong with
// where they went.
func (w *twinWorkers) run(worker int) (at map[sent]time.Duration, problem string) {
	var tasks []sent
	own, rounds := 0, 0
	for _, s := range w.sessions {
		rounds = max(rounds, len(s.Turns))
	}
	for r := range rounds {
		for i := worker; i < len(w.sessions); i += w.plan.Workers {
			if r < len(w.sessions[i].Turns) {
				tasks = append(tasks, sent{i, r})
			}
			if r == 0 {
				own++
			}
		}
	}
	at = map[sent]time.Duration{}
	type talk struct{ session, conversation int }
	busy, held := map[talk]bool{}, map[talk][]sent{}
	var live []sent
	type idle struct {
		endpoint int
		since    time.Duration
	}
	var pool []idle
	send := func(x sent, now time.Duration) {
		at[x] = now
		busy[talk{x.session, w.conversation(x)}] = true
		live = append(live, x)
		for len(pool) > 0 {
			c := pool[0]
			pool = pool[1:]
			if now-c.since < 5*time.Second {
				if went := w.outcomes[x].Endpoint; went != c.endpoint && problem == "" {
					problem = fmt.Sprintf("%v went to %d, the worker's idle connection leads to %d", x, went, c.endpoint)
				}
				return
			}
		}
	}
	take := func(now time.Duration) {
		if len(tasks) == 0 {
			return
		}
		x := tasks[0]
		tasks = tasks[1:]
		if k := (talk{x.session, w.conversation(x)}); busy[k] {
			held[k] = append(held[k], x)
		} else {
			send(x, now)
		}
	}
	for range own {
		take(0)
	}
	for len(live) > 0 {
		slices.SortStableFunc(live, func(a, b sent) int {
			x, y := w.outcomes[a], w.outcomes[b]
			return int(x.At + x.E2E - y.At - y.E2E)
		})
		x := live[0]
		live = live[1:]
		o := w.outcomes[x]
		now := o.At + o.E2E
		k := talk{x.session, w.conversation(x)}
		busy[k] = false
		if o.Status == feature.OK {
			pool = append(pool, idle{o.Endpoint, now})
		}
		if h := held[k]; len(h) > 0 {
			held[k] = h[1:]
			send(h[0], now)
		}
		take(now)
	}
	return at, problem
}

// drawLoop is a closed loop whose sessions begin anew here and there.
func drawLoop(t *rapid.T) workload.Plan {
	n := rapid.IntRange(1, 7).Draw(t, "clients")
	rounds := rapid.IntRange(1, 5).Draw(t, "rounds")
	var sessions []workload.Session
	for i := range n {
		s := workload.Session{Index: i, Class: "x"}
		for r := range rounds {
			s.Turns = append(s.Turns, workload.Turn{
				PromptTokens: rapid.IntRange(1, 2000).Draw(t, "prompt"), OutputTokens: rapid.IntRange(1, 80).Draw(t, "output"),
				Anew: r > 0 && rapid.Bool().Draw(t, "anew"),
			})
		}
		sessions = append(sessions, s)
	}
	plan := workload.Plan{Sessions: slices.Values(sessions), Concurrency: n, Workers: rapid.IntRange(1, 3).Draw(t, "workers"), Limit: n * rounds}
	if rapid.Bool().Draw(t, "impatient") {
		plan.Timeout = 3 * time.Second
	}
	return plan
}

// Workers send as the published load generator's do, on the connections it
// would use.
func TestWorkersSendAsTheirTwin(t *testing.T) {
	fleetOf := engines(standard(t), 3)
	rapid.Check(t, func(t *rapid.T) {
		plan := drawLoop(t)
		config := fleet.WorldConfig{
			Engines: fleetOf, Plan: plan, Seed: rapid.Uint64().Draw(t, "seed"),
			Router: fleet.RouterConfig{Policy: policy.Random, Connections: fleet.PerWorker},
		}
		result, err := fleet.SimulateChecked(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		twin := twinWorkers{plan: plan, sessions: slices.Collect(plan.Sessions), outcomes: map[sent]fleet.Outcome{}}
		for _, o := range result.Requests {
			twin.outcomes[sent{o.Session, o.Turn}] = o
		}
		if len(twin.outcomes) != plan.Limit || len(result.Requests) != plan.Limit {
			t.Fatalf("%d requests of %d, %d of them different", len(result.Requests), plan.Limit, len(twin.outcomes))
		}
		for worker := range plan.Workers {
			at, problem := twin.run(worker)
			if problem != "" {
				t.Fatal(problem)
			}
			for x, want := range at {
				if got := twin.outcomes[x].At; got != want {
					t.Fatalf("worker %d sent %v at %v, its twin at %v", worker, x, got, want)
				}
			}
		}
	})
}

// In an open loop the workers take the sessions in turn.
func TestWorkersOfAnOpenLoop(t *testing.T) {
	var sessions []workload.Session
	for i, at := range []time.Duration{0, 0, 10 * time.Second, 10 * time.Second, 12 * time.Second, 30 * time.Second} {
		sessions = append(sessions, workload.Session{Index: i, At: at, Turns: []workload.Turn{{PromptTokens: 100, OutputTokens: 10}}})
	}
	config := fleet.WorldConfig{
		Engines: engines(standard(t), 9),
		Plan:    workload.Plan{Sessions: slices.Values(sessions), Workers: 2},
		Router:  fleet.RouterConfig{Policy: policy.RoundRobin, Connections: fleet.PerWorker},
	}
	result := simulate(t, config)
	went := make([]int, len(sessions))
	for _, o := range result.Requests {
		went[o.Session] = o.Endpoint
	}
	// The fifth finds the third's connection; all others are new or came too late.
	if want := []int{0, 1, 2, 3, 2, 4}; !slices.Equal(went, want) {
		t.Errorf("sessions went to %v, want %v", went, want)
	}
	config.Plan.Workers = 0
	if _, err := fleet.Simulate(context.Background(), config); err == nil {
		t.Error("connections per worker without workers were accepted")
	}
}

// The index may learn of a decision late.
func TestIndexLag(t *testing.T) {
	text := make([]uint64, 10)
	for i := range text {
		text[i] = uint64(1 + i)
	}
	turn := workload.Turn{PromptTokens: 640, OutputTokens: 10, Blocks: text, Answered: text, BlockTokens: 64}
	for lag, want := range map[time.Duration][]int{
		0:                     {0, 640, 640},
		10 * time.Millisecond: {0, 0, 640},
	} {
		var sessions []workload.Session
		for i, at := range []time.Duration{0, 9 * time.Millisecond, 10 * time.Millisecond} {
			sessions = append(sessions, workload.Session{Index: i, At: at, Turns: []workload.Turn{turn}})
		}
		result := simulate(t, fleet.WorldConfig{
			Engines: engines(standard(t), 1),
			Plan:    workload.Plan{Sessions: slices.Values(sessions)},
			Router:  fleet.RouterConfig{Policy: policy.TokenLoad, IndexLag: lag},
		})
		got := make([]int, 3)
		for _, o := range result.Requests {
			got[o.Session] = o.MatchedTokens
		}
		if !slices.Equal(got, want) {
			t.Errorf("with a lag of %v, %v tokens are believed cached, want %v", lag, got, want)
		}
	}
}
