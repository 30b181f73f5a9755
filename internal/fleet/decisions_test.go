package fleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
)

// Every choice has one complete row, which decides again as it was decided, and
// an outcome that says what its request's does. Keeping them changes nothing.
func TestDecisionsAreWhatWasDecided(t *testing.T) {
	for name, change := range map[string]func(*fleet.WorldConfig){
		"forecasts decide": func(c *fleet.WorldConfig) { c.Router.Settings.Exploration = 0.2 },
		"matched":          func(c *fleet.WorldConfig) { c.Router.Policy, c.Router.Forecaster = policy.TokenLoad, nil },
		"canary":           func(c *fleet.WorldConfig) { c.Router.Canary = 0.5 },
		"objectives that may be shed": func(c *fleet.WorldConfig) {
			c.Engines = c.Engines[:1]
			c.Router.Objectives = map[string]fleet.Objective{"interactive-chat": {SLO: fleet.SLO{TTFT: 1}, Priority: -1}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := forecasting(t)
			c.Router.Settings = policy.Defaults()
			change(&c)
			want := simulate(t, c)
			var decisions []*feature.Decision
			var outcomes []*feature.Outcome
			c.Decisions = func(d *feature.Decision, o *feature.Outcome) {
				decisions, outcomes = append(decisions, d), append(outcomes, o)
			}
			if diff := cmp.Diff(want, simulate(t, c)); diff != "" {
				t.Fatalf("with decisions (-without +with):\n%s", diff)
			}
			if len(decisions) != len(want.Requests) || len(decisions) == 0 {
				t.Fatalf("%d decisions on %d requests", len(decisions), len(want.Requests))
			}
			var again policy.Choice
			unlike, shed := 0, 0
			for i, d := range decisions {
				in, err := policy.Replay(d)
				if err != nil {
					t.Fatal(err)
				}
				if err := policy.Decide(in, &again); err != nil {
					t.Fatal(err)
				}
				if err := policy.Same(d, in, &again); err != nil {
					unlike++
					t.Logf("decision %d: %v", i, err)
				}
				o, want := outcomes[i], want.Requests[i]
				if o.Decision != d.ID || !o.DecidedAt.Equal(d.DecidedAt) || o.Status != want.Status || o.Endpoint != d.Chosen {
					t.Fatalf("decision %d: %+v of %+v, the client saw %+v", i, o, d, want)
				}
				if want.Status == feature.Shed {
					shed++
				} else if o.E2E != feature.SecondsOf(want.E2E) || d.Propensity <= 0 || d.ChosenVector[feature.ColumnPromptTokens] != float32(want.PromptTokens) {
					t.Fatalf("decision %d: %+v of %+v, the client saw %+v", i, o, d, want)
				}
			}
			if unlike > 0 || (shed > 0) != (c.Router.Objectives != nil) {
				t.Errorf("%d of %d decided otherwise again, %d shed", unlike, len(decisions), shed)
			}
		})
	}
}

// What a connection decided, nobody chose.
func TestConnectionsMakeNoDecisions(t *testing.T) {
	c := forecasting(t)
	c.Router.Connections = fleet.PerSession
	first, decisions := 0, 0
	c.Decisions = func(*feature.Decision, *feature.Outcome) { decisions++ }
	for _, o := range simulate(t, c).Requests {
		if o.Turn == 0 {
			first++
		}
	}
	if decisions != first || first == 0 {
		t.Errorf("%d decisions on %d sessions", decisions, first)
	}
}
