package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/design"
)

// quantity is what a fleet is judged by.
type quantity uint8

const (
	ttft quantity = iota
	e2e
	quantities
)

// String is the quantity as tables name it.
func (q quantity) String() string { return [quantities]string{"mean TTFT", "mean E2E"}[q] }

// means are of the requests of one run, in seconds: of those that were sent
// while the log was written, and of all until longEnds.
type means struct {
	log    [quantities]float64
	all    [quantities]float64 // of long runs
	sent   int                 // in all
	failed int
}

// tally adds up what clients see.
type tally struct {
	sum [quantities]float64
	n   int
}

func (t *tally) add(v [quantities]float64) {
	for q := range v {
		t.sum[q] += v[q]
	}
	t.n++
}

func (t *tally) means() (out [quantities]float64) {
	for q := range out {
		out[q] = t.sum[q] / float64(t.n)
	}
	return out
}

// seen is what a request counts as. One that failed counts as if it had taken
// its client's patience.
func seen(o *fleet.Outcome, patience time.Duration) [quantities]float64 {
	if o.Status == feature.OK {
		return [quantities]float64{o.TTFT.Seconds(), o.E2E.Seconds()}
	}
	if o.OutputTokens > 0 {
		return [quantities]float64{o.TTFT.Seconds(), patience.Seconds()}
	}
	return [quantities]float64{patience.Seconds(), patience.Seconds()}
}

// run simulates a world as it is routed by s, which takes over from the log's policy
// where it can, to the end of the log or, if it is a long run, to longEnds.
func (w *world) run(ctx context.Context, b *bundles, s *setting, from seeds, long bool) (means, error) {
	p := w.period()
	until := p.logEnds
	if long {
		until = p.longEnds
	}
	c, err := w.config(from, p.arrivals(until))
	if err != nil {
		return means{}, err
	}
	w.takeOver(&c.Router, s, b)
	var out means
	var log, all tally
	c.Sink = func(o fleet.Outcome) {
		if o.At < p.begins || o.At >= until {
			return
		}
		v := seen(&o, c.Plan.Timeout)
		all.add(v)
		if o.At < p.logEnds {
			log.add(v)
		}
		if o.Status != feature.OK {
			out.failed++
		}
	}
	if _, err := fleet.Simulate(ctx, c); err != nil {
		return out, fmt.Errorf("%s, %s: %w", w.name, s.name, err)
	}
	out.log, out.all, out.sent = log.means(), all.means(), all.n
	return out, nil
}

// takeOver lets a router decide by s after half of the time in which caches fill, and
// as the log's router until then: who changes a policy changes that of a fleet that
// runs. In one that begins empty under the target, prompts that begin alike may all
// stick to the endpoint that happened to see the first of them, for as long as anybody
// looks. Canaries, and a bundle that the log's policy does not ask, decide from the
// beginning, for no router has both.
func (w *world) takeOver(c *fleet.RouterConfig, s *setting, b *bundles) {
	if s.canary > 0 || w.logged.canary > 0 || s.says != w.logged.says || s.name == w.logged.name {
		s.route(c, b)
		return
	}
	w.logged.route(c, b)
	arm := fleet.Arm{Policy: s.policy, Fallback: s.fallback, Settings: s.settings}
	c.Experiment = &fleet.Experiment{Arms: [2]fleet.Arm{arm, arm}, Switchback: &design.Switchback{
		Name: "taken-over", Start: fleet.Begins().Add((w.period().begins / 2).Truncate(time.Microsecond)), Block: forGood, Pairs: 1, Arms: armNames,
	}}
}

// forGood is longer than any run.
const forGood = 1000 * time.Hour

// effect is target/logged - 1, with a 95 % interval.
type effect = trial.Change

// truths are the effect of a target on the fleet, on the traffic of the log and
// on that of an experiment.
type truths struct{ log, all [quantities]effect }

// runs are those of a world under a setting, with other noise each time, the same
// for every setting.
type runs struct {
	world   *world
	bundles *bundles
	setting *setting
	seed    uint64
	all     []means
}

// extend runs it until there are so many.
func (r *runs) extend(ctx context.Context, most int) error {
	for i := len(r.all); i < most; i++ {
		m, err := r.world.run(ctx, r.bundles, r.setting, seeds{engines: r.seed, traffic: r.seed, run: r.seed + truthStream + uint64(i)}, i < longRuns)
		if err != nil {
			return err
		}
		r.all = append(r.all, m)
	}
	return nil
}

// sent is how many requests all of them were of.
func (r *runs) sent() (n int) {
	for _, m := range r.all {
		n += m.sent
	}
	return n
}

// longRuns is how many of the runs that tell the truth, the first ones, are long.
const longRuns = 6

const (
	// again is how many times as many runs as were asked for are made at most where
	// they do not tell the truth well enough, and more how many of them at once.
	again, more = 2, 4
	// share is what part of an effect half of its interval may be.
	share = 0.2
)

// enough is how well an effect is known at least, either way, if that is not well
// beside the effect: what is near the bound of decisive ones is known within half
// of that of mean E2E. Mean TTFT differs more between runs, and so do instruments.
var enough = [quantities]float64{ttft: decisive, e2e: decisive / 2}

// truth compares a target's runs with as many of the log's policy: so many, and more
// where their interval is wide or leaves open whether the effect is decisive.
func truth(ctx context.Context, logged, target *runs, repeats int) (out truths, err error) {
	for n := repeats; ; n = min(n+more, again*repeats) {
		if err := logged.extend(ctx, n); err != nil {
			return out, err
		}
		if err := target.extend(ctx, n); err != nil {
			return out, err
		}
		if out = compared(logged.all, target.all); out.known() || n == again*repeats {
			return out, nil
		}
	}
}

// known reports whether the effect on the log's traffic is known well enough.
func (t *truths) known() bool {
	for q, e := range t.log {
		half := (e.High - e.Low) / 2
		open := e.Low < decisive && decisive < e.High || e.Low < -decisive && -decisive < e.High
		if open || !(half <= max(enough[q], share*math.Abs(e.Mean))) {
			return false
		}
	}
	return true
}

// compared compares runs of equal seeds.
func compared(logged, target []means) (out truths) {
	for q := range quantities {
		var log, all []float64
		for i := range target {
			log = append(log, math.Log(target[i].log[q]/logged[i].log[q]))
			if i < longRuns {
				all = append(all, math.Log(target[i].all[q]/logged[i].all[q]))
			}
		}
		out.log[q], out.all[q] = trial.ChangeOf(log), trial.ChangeOf(all)
	}
	return out
}
