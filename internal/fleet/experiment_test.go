package fleet_test

import (
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/design"
	"github.com/spillway-llm/spillway/router/policy"
)

// What a simulated router tries stands in its rows as production writes it, and
// each decision is the arm's own.
func TestExperimentsAreInTheRows(t *testing.T) {
	arms := [2]fleet.Arm{{Policy: policy.TokenLoad, Fallback: policy.ActiveRequest}, {Policy: policy.Predicted, Fallback: policy.CombinedLoad}}
	names := [2]string{"base", "new"}
	for name, e := range map[string]*fleet.Experiment{
		"switchback": {Switchback: &design.Switchback{Name: "spring", Block: 10 * time.Second, BurnIn: 3 * time.Second, Pairs: 2, Seed: 5, Arms: names}, Arms: arms},
		"split":      {Split: &design.Split{Share: 0.3, Arms: names}, Arms: arms},
		"canary":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := forecasting(t)
			c.Router.Policy = policy.LeastRequest
			names := names
			if c.Router.Experiment = e; e == nil {
				c.Router.Policy, c.Router.Canary, names = policy.Predicted, 0.3, [2]string{"fallback", "predicted"}
			}
			policies := map[string]string{"": policy.LeastRequest, "base": policy.TokenLoad, "new": policy.Predicted, "predicted": policy.Predicted}
			seen, total := map[string]int{}, 0
			c.Decisions = func(d *feature.Decision, _ *feature.Outcome) {
				seen[d.Arm]++
				total++
				if want := policies[d.Arm]; d.Policy != want && d.Arm != "fallback" {
					t.Errorf("arm %q decided by %q, want %q", d.Arm, d.Policy, want)
				}
				if (d.Arm == "") != (d.Experiment == "") {
					t.Errorf("arm %q of %q", d.Arm, d.Experiment)
				}
				if d.Experiment == "" {
					return
				}
				back, split, err := design.Parse(d.Experiment)
				if err != nil {
					t.Fatal(err)
				}
				if back != nil {
					if place, ok := back.At(d.DecidedAt); !ok || back.Arms[place.Arm] != d.Arm || d.Mode != "switchback" {
						t.Errorf("at %v arm %q in mode %q, by the design %+v", d.DecidedAt, d.Arm, d.Mode, place)
					}
				} else if split.Share != 0.3 || split.Arms != names || d.Mode != "canary" {
					t.Errorf("%q in mode %q", d.Experiment, d.Mode)
				}
			}
			simulate(t, c)
			if e == nil || e.Split != nil {
				tossed := float64(total - seen[""])
				if got := float64(seen[names[1]]); total == 0 || math.Abs(got-0.3*tossed) > 5*math.Sqrt(tossed*0.21) {
					t.Errorf("the second arm decided %v of %v", got, tossed)
				}
			} else if seen[names[0]] == 0 || seen[names[1]] == 0 {
				t.Errorf("arms %v", seen)
			}
		})
	}
}

func TestWrongExperimentsAreRefused(t *testing.T) {
	back := &design.Switchback{Name: "spring", Block: time.Minute, Pairs: 2, Arms: [2]string{"a", "b"}}
	for want, e := range map[string]*fleet.Experiment{
		"router: experiment: want either a switchback or a split": {Arms: [2]fleet.Arm{{Policy: policy.Random}, {Policy: policy.TokenLoad}}},
		`router: experiment: arm 1: no policy "none": want one of [active-request combined-load least-request power-of-two predicted predictor-blend random round-robin token-load weighted-blend]`: {
			Switchback: back, Arms: [2]fleet.Arm{{Policy: policy.Random}, {Policy: "none"}}},
	} {
		c := forecasting(t)
		c.Router.Experiment = e
		if _, err := fleet.Simulate(t.Context(), c); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
