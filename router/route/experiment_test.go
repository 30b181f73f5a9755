package route_test

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// trial sets up a switchback of blocks of a minute that begins in a minute.
func trial(c *route.Config) {
	c.Mode, c.Policy, c.Fallback = route.ModeSwitchback, policy.LeastRequest, policy.ActiveRequest
	c.Experiment = route.Experiment{
		Design: design.Switchback{
			Name: "spring", Start: time.Now().Add(time.Minute).Truncate(time.Second), Block: time.Minute, BurnIn: 20 * time.Second, Pairs: 4, Seed: 3,
			Arms: [2]string{"token-load", "bold"},
		},
		Arms: [2]route.Arm{
			{Policy: policy.TokenLoad, Fallback: policy.ActiveRequest, Settings: c.Settings},
			{Policy: policy.Predicted, Fallback: policy.CombinedLoad, Settings: c.Settings},
		},
	}
	c.Experiment.Arms[1].Settings.Exploration = 0
}

func TestSwitchbackDecidesByTheClock(t *testing.T) {
	var tried route.Experiment
	inLive(t, 3, func(c *route.Config) { trial(c); tried = c.Experiment }, func(t *testing.T, w *world) {
		policies := [2]string{policy.TokenLoad, policy.Predicted}
		by := map[string]int{}
		for range 100 {
			pass(6100 * time.Millisecond)
			w.fleet.scrape()
			asked := w.oracle.count()
			ticket := w.begin(t, query("a prompt"))
			d := w.memory.decision(ticket)
			if w.oracle.count() == asked {
				t.Error("no forecast was asked for: arms would differ in more than their choices")
			}
			want, experiment, arm := policy.LeastRequest, "", ""
			if place, ok := tried.Design.At(d.DecidedAt); ok {
				want, experiment, arm = policies[place.Arm], tried.Design.String(), tried.Design.Arms[place.Arm]
			}
			if d.Policy != want || d.Experiment != experiment || d.Arm != arm || d.Mode != "switchback" {
				t.Errorf("at %v %q decided as arm %q of %q in mode %q, want %q as %q of %q", d.DecidedAt, d.Policy, d.Arm, d.Experiment, d.Mode, want, arm, experiment)
			}
			in, err := policy.Replay(&d)
			if err != nil {
				t.Fatal(err)
			}
			var again policy.Choice
			if err := policy.Decide(in, &again); err != nil || policy.Same(&d, in, &again) != nil {
				t.Errorf("made again, the decision of arm %q is another: %v", arm, policy.Same(&d, in, &again))
			}
			if wantExploration := tried.Arms[1].Settings.Exploration; arm == "bold" && in.Settings.Exploration != wantExploration {
				t.Errorf("arm %q explores with %v, want %v", arm, in.Settings.Exploration, wantExploration)
			}
			by[arm]++
			ticket.End(ended(feature.ClientAbort, 0))
		}
		for _, arm := range []string{"", "token-load", "bold"} {
			if by[arm] < 10 {
				t.Errorf("arm %q decided %d times of 100", arm, by[arm])
			}
		}
	})
}

func TestCanaryNamesItsArms(t *testing.T) {
	inLive(t, 3, func(c *route.Config) { c.Mode, c.Canary, c.Fallback = route.ModeCanary, 0.3, policy.ActiveRequest }, func(t *testing.T, w *world) {
		arms := map[string]string{policy.ActiveRequest: "fallback", policy.Predicted: "predicted"}
		seen := map[string]int{}
		for range 100 {
			ticket := w.begin(t, query("a prompt"))
			d := w.memory.decision(ticket)
			if d.Arm != arms[d.Policy] || d.Experiment != "split share=0.3 arms=fallback|predicted" {
				t.Errorf("%q decided as arm %q of %q", d.Policy, d.Arm, d.Experiment)
			}
			seen[d.Arm]++
			ticket.End(ended(feature.ClientAbort, 0))
		}
		if len(seen) != 2 {
			t.Errorf("arms %v of 100 requests", seen)
		}
		w.oracle.set(hangs)
		if d := w.memory.decision(w.begin(t, query("a prompt"))); d.Arm != "" || d.Policy != policy.ActiveRequest {
			t.Errorf("without a forecast %q decided as arm %q, and no coin was tossed", d.Policy, d.Arm)
		}
	})
}

func TestWrongExperimentsAreNamed(t *testing.T) {
	for want, spoil := range map[string]func(*route.Config){
		"experiment.burn_in: 40s leaves less than half of a block of 1m0s to be judged": func(c *route.Config) { c.Experiment.Design.BurnIn = 40 * time.Second },
		"experiment.arms[1].settings.exploration: must be from 0 to 1":                  func(c *route.Config) { c.Experiment.Arms[1].Settings.Exploration = 2 },
		"settings.exploration: must be from 0 to 1":                                     func(c *route.Config) { c.Settings.Exploration = 2 },
	} {
		c := route.Defaults()
		c.DefaultProfile = class
		trial(&c)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(&c)
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c := route.Defaults()
	c.DefaultProfile = class
	trial(&c)
	c.Experiment.Arms[0].Policy = "none"
	if err := c.Check(); err == nil {
		t.Error("an unknown policy of an arm is accepted")
	}
}
