package fleet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// drawReplicas makes several routers, of which one may die.
func drawReplicas(t *rapid.T) fleet.Replicas {
	r := fleet.Replicas{Count: rapid.IntRange(2, 4).Draw(t, "routers"), Share: rapid.Bool().Draw(t, "share")}
	r.ShareDelay = time.Duration(rapid.SampledFrom([]int{0, 1, 20, 3000}).Draw(t, "delay ms")) * time.Millisecond
	if rapid.Bool().Draw(t, "outage") {
		r.Outage = &fleet.Outage{
			Replica: rapid.IntRange(0, r.Count-1).Draw(t, "dies"),
			From:    time.Duration(rapid.IntRange(1, 4000).Draw(t, "from ms")) * time.Millisecond,
		}
		if rapid.Bool().Draw(t, "returns") {
			r.Outage.To = r.Outage.From + time.Duration(rapid.IntRange(1, 6000).Draw(t, "down ms"))*time.Millisecond
		}
	}
	return r
}

// Several routers keep every invariant of one, whatever they share and whoever
// dies: each has its own books, and no request is lost but those that were cut
// off, each of which is sent anew.
func TestReplicasKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawWorld(t, policy.Names())
		c.Replicas = drawReplicas(t)
		r, err := fleet.SimulateChecked(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		planned := 0
		for s := range c.Plan.Sessions {
			planned += len(s.Turns)
		}
		cut := 0
		for _, o := range r.Requests {
			if o.Status == feature.Lost {
				cut++
			}
		}
		if c.Horizon > 0 || c.Plan.Limit > 0 {
			return
		}
		if r.Sent != planned+cut || c.Replicas.Outage == nil && cut > 0 {
			t.Fatalf("%d requests planned, %d sent, %d cut off", planned, r.Sent, cut)
		}
	})
}

// One router alone behaves as if nobody had ever thought of several.
func TestOneReplicaSharesWithNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawWorld(t, policy.Names())
		alone, err := fleet.Simulate(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		c.Replicas = fleet.Replicas{Count: 1, Share: true, ShareDelay: time.Second}
		again, err := fleet.Simulate(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(alone, again); d != "" {
			t.Fatal(d)
		}
	})
}

// Replicas that can't be are refused with the reason.
func TestReplicasThatCannotBe(t *testing.T) {
	for _, r := range []fleet.Replicas{
		{Count: -1}, {Count: 65}, {Count: 2, ShareDelay: -1},
		{Count: 1, Outage: &fleet.Outage{From: 1}}, {Count: 2, Outage: &fleet.Outage{Replica: 2, From: 1}},
		{Count: 2, Outage: &fleet.Outage{}}, {Count: 2, Outage: &fleet.Outage{From: 2, To: 1}},
	} {
		c := world(policy.RoundRobin, 2, workload.Plan{Sessions: slices.Values([]workload.Session{})})
		c.Replicas = r
		if _, err := fleet.Simulate(t.Context(), c); err == nil {
			t.Errorf("%+v: no error", r)
		}
	}
}

// What one router has sent where the others know when they share, and only then:
// the turns of a conversation find their prefix whichever router they meet, and
// requests that come at once spread as one router alone would spread them.
func TestReplicasShareWhatTheyKnow(t *testing.T) {
	run := func(r fleet.Replicas) *fleet.Result {
		c := world(policy.CombinedLoad, 4, workload.Plan{Sessions: func(yield func(workload.Session) bool) {
			for i := range 40 {
				s := workload.Session{Index: i, At: time.Duration(i) * 50 * time.Millisecond, Class: "chat"}
				for turn := range 6 {
					w := workload.Turn{PromptTokens: 160 * (turn + 1), OutputTokens: 20, BlockTokens: 16}
					if turn > 0 {
						w.After = 100 * time.Millisecond
					}
					for b := range 10 * (turn + 1) {
						w.Blocks = append(w.Blocks, uint64(1000*i+b+1))
					}
					w.Answered = w.Blocks
					s.Turns = append(s.Turns, w)
				}
				if !yield(s) {
					return
				}
			}
		}})
		for i := range c.Engines {
			c.Engines[i].Profile.KVCapacityTokens = 1 << 17
		}
		c.Replicas = r
		return simulate(t, c)
	}
	hits := func(r *fleet.Result) float64 {
		return float64(r.Summary(r.All(), fleet.SLO{}).HitRate)
	}
	one, shared, apart := hits(run(fleet.Replicas{})), hits(run(fleet.Replicas{Count: 3, Share: true, ShareDelay: 10 * time.Millisecond})), hits(run(fleet.Replicas{Count: 3}))
	if shared < one-0.01 || apart > one-0.1 {
		t.Errorf("hit rates: %v of one router, %v of three that share, %v of three that do not", one, shared, apart)
	}
}
