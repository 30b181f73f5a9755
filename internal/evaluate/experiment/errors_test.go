package experiment_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

func sixPairs() design.Switchback {
	return design.Switchback{Name: "spring", Start: start, Block: 10 * time.Second, BurnIn: 2 * time.Second, Pairs: 6, Seed: 1, Arms: [2]string{"a", "b"}}
}

// by is who decides what under a plan; outside of it, nobody.
func by(plan design.Switchback) func(time.Time) (string, string) {
	return func(at time.Time) (string, string) {
		if place, ok := plan.At(at); ok {
			return plan.String(), plan.Arms[place.Arm]
		}
		return "", ""
	}
}

func TestWrongLogsAreToldInOneSentence(t *testing.T) {
	plan := sixPairs()
	other, changed, canary := plan, plan, design.Canary(0.5, "predicted")
	other.Name = "autumn"
	other.Start = plan.End()
	changed.Seed = 2
	changed.Start = plan.End()
	long := plan.End().Sub(start)
	rng := rand.New(rand.NewPCG(1, 1))
	whole := made(rng, 400, start, long, by(plan))
	for name, c := range map[string]struct {
		options experiment.Options
		log     []logged
		want    []string
	}{
		"nothing":          {log: nil, want: []string{"there are no decisions"}},
		"no experiment":    {log: made(rng, 50, start.Add(-time.Hour), time.Minute, by(plan)), want: []string{"none of the 50 decisions is part of an experiment", "switchback or canary"}},
		"another one":      {options: experiment.Options{Name: "winter"}, log: whole, want: []string{`no decision is part of experiment "winter"`, `["spring"]`}},
		"two of them":      {log: append(whole[:len(whole):len(whole)], made(rng, 400, plan.End(), long, by(other))...), want: []string{`of experiment "spring" and of experiment "autumn"`}},
		"changed":          {log: append(whole[:len(whole):len(whole)], made(rng, 400, plan.End(), long, by(changed))...), want: []string{`experiment "spring" was changed while it ran`, "seed=2"}},
		"unfinished":       {log: made(rng, 400, start, long/2, by(plan)), want: []string{"is unfinished: 3 of 6 pairs", plan.End().Format(time.RFC3339)}},
		"too few blocks":   {options: experiment.Options{Unfinished: true}, log: made(rng, 400, start, long/2, by(plan)), want: []string{"has 3 pairs of blocks", "fewer than 6", "3 more are wanted, 6 blocks or 1m0s"}},
		"a backward clock": {log: append(whole[:len(whole):len(whole)], whole[0]), want: []string{"stands behind one of", "a clock jumped back"}},
		"another arm": {log: made(rng, 50, start, time.Second, func(at time.Time) (string, string) {
			return plan.String(), plan.Arms[1-plan.Arm(0)]
		}), want: []string{"was made by arm", "a clock jumped"}},
		"no design": {log: made(rng, 5, start, time.Second, func(time.Time) (string, string) { return "nonsense", "a" }), want: []string{`design "nonsense"`}},
		"a canary of few": {log: made(rng, 60, start, time.Minute, func(time.Time) (string, string) { return canary.String(), canary.Arms[0] }),
			want: []string{`arm "predicted" 0 of 60 requests`, "fewer than 50"}},
		"an arm of nobody": {log: made(rng, 60, start, time.Minute, func(time.Time) (string, string) { return canary.String(), "x" }), want: []string{`made by arm "x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := experiment.New(c.options)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.log {
				if err = a.Add(&c.log[i].d, &c.log[i].o); err != nil {
					break
				}
			}
			if err == nil {
				_, err = a.Report(1)
			}
			if err == nil {
				t.Fatal("it is judged")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
	for _, o := range []experiment.Options{{Detect: -1}, {Horizon: -1}} {
		if _, err := experiment.New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// What makes numbers doubtful is said beside them.
func TestDoubtsAreSaid(t *testing.T) {
	plan := sixPairs()
	long := plan.End().Sub(start)
	log := made(rand.New(rand.NewPCG(2, 1)), 3000, start, long, by(plan))
	for i := range log {
		place, _ := plan.At(log[i].d.DecidedAt)
		if place.Arm == 1 && place.Into > 6*time.Second {
			log[i].o.TTFT += 5 // the effect comes late in a block
		}
	}
	log = append(log, made(rand.New(rand.NewPCG(2, 2)), 10, plan.End(), time.Minute, by(plan))...)
	r := report(t, experiment.Options{}, log, 1)
	said := strings.Join(r.Warnings, "\n")
	for _, want := range []string{"in the second half of blocks", "took longer than the burn-in of 2s"} {
		if !strings.Contains(said, want) {
			t.Errorf("warnings lack %q:\n%s", want, said)
		}
	}
	if r.Outside != 10 || r.Requests != 3000 || r.Switchback.Pairs != 6 {
		t.Errorf("%d of %d outside, %d pairs", r.Outside, r.Requests, r.Switchback.Pairs)
	}
	var left int64
	for _, l := range r.LeftOut {
		left += l.Requests
	}
	if r.Judged+left != r.Requests {
		t.Errorf("%d judged and %d left out of %d", r.Judged, left, r.Requests)
	}
}

// Nor are they silent about what is in no number.
func TestWhatIsInNoNumberIsSaid(t *testing.T) {
	plan := sixPairs()
	long := plan.End().Sub(start)
	log := made(rand.New(rand.NewPCG(3, 1)), 3000, start, long, by(plan))
	unknown := feature.Seconds(feature.Unknown)
	var up, all [2]float64
	for i := range log {
		d, o := &log[i].d, &log[i].o
		if i%100 == 99 {
			d.Experiment, d.Arm = "", "" // of a router that was not told
			continue
		}
		place, _ := plan.At(d.DecidedAt)
		if place.Arm == 1 && i%4 == 0 && o.Status == feature.OK {
			o.Status, o.TTFT, o.TPOT, o.E2E, o.CensoredAt = feature.ClientAbort, unknown, unknown, unknown, 1
		}
		all[place.Arm]++
		if o.Status == feature.ClientAbort {
			up[place.Arm]++
		}
	}
	r := report(t, experiment.Options{}, log, 1)
	said := strings.Join(r.Warnings, "\n")
	for _, want := range []string{
		"30 decisions in its time are no part of it",
		fmt.Sprintf("gave up %.1f %% of the requests of a and %.1f %% of b before", 100*up[0]/all[0], 100*up[1]/all[1]),
	} {
		if !strings.Contains(said, want) {
			t.Errorf("warnings lack %q:\n%s", want, said)
		}
	}
}

// Where nobody asks any more the last blocks have no rows, and it is over all the same.
func TestAQuietEndIsAnEnd(t *testing.T) {
	plan := sixPairs()
	plan.Pairs = 7
	log := made(rand.New(rand.NewPCG(4, 1)), 1000, start, 12*plan.Block, by(plan))
	r := report(t, experiment.Options{Until: plan.End()}, log, 1)
	if said := strings.Join(r.Warnings, "\n"); r.Switchback.Pairs != 6 || !strings.Contains(said, "1 of 7 pairs have a block without requests") || strings.Contains(said, "unfinished") {
		t.Errorf("%d pairs; %s", r.Switchback.Pairs, said)
	}
}
