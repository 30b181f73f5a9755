package main

import (
	"context"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// tailBound is what TTFT p99 may be above that of the matched configuration.
const tailBound = 0.05

// verdict is one failure beside the matched configuration, over all seeds.
type verdict struct {
	Failure string       `json:"failure"`
	Pooled  trial.Change `json:"ttft_p99"`
	Mean    trial.Change `json:"ttft_mean"`
	Worlds  []inWorld    `json:"worlds"`

	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Changes  int            `json:"most_changes"`      // in one run
	Before   int            `json:"changes_before"`    // of state before the injection, in all runs
	Decided  int            `json:"decided"`           // by forecasts after the injection, in all runs
	Noticed  time.Duration  `json:"noticed_ns"`        // the latest end of live operation, since the injection
	After    time.Duration  `json:"after_200_ns"`      // the latest, since the 200th bad outcome
	Missed   int            `json:"runs_unnoticed"`    // with 200 bad outcomes and no end of it
	Reasons  map[string]int `json:"reasons,omitempty"` // of ends of live operation
}

// inWorld is a failure in one world.
type inWorld struct {
	World string       `json:"world"`
	P99   trial.Change `json:"ttft_p99"`
}

// compare runs all failures in all worlds with all seeds, each beside the matched
// configuration.
func compare(ctx context.Context, worlds []world, all []failure, seeds []uint64, done func()) ([]verdict, map[string]int, error) {
	known := make([]fleet.Forecaster, len(worlds))
	sizes := map[string]int{}
	for i := range worlds {
		var rows int
		var err error
		if known[i], rows, err = worlds[i].Learn(ctx); err != nil {
			return nil, nil, err
		}
		sizes[worlds[i].Name+" rows learned"] = rows
		sizes[worlds[i].Name+" fleets"] = len(seeds) * worlds[i].fleets
	}
	// Beside each other: the matched configuration of the world as it stays, of
	// the one that changes, then every failure.
	arms := len(all) + 2
	type place struct{ world, fleet int }
	var places []place
	runs := make([][]run, len(worlds)) // by fleet, then arm
	for w := range worlds {
		for f := range len(seeds) * worlds[w].fleets {
			places = append(places, place{w, f})
		}
		runs[w] = make([]run, len(seeds)*worlds[w].fleets*arms)
	}
	err := trial.Each(ctx, len(places)*arms, func(ctx context.Context, i int) error {
		defer done()
		at, arm := places[i/arms], i%arms
		f, asked := &failure{slows: arm == 1}, fleet.Forecaster(nil)
		if arm > 1 {
			f, asked = &all[arm-2], known[at.world]
		}
		var err error
		runs[at.world][at.fleet*arms+arm], err = simulate(ctx, &worlds[at.world], seedOf(seeds, at.fleet), f, asked)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var out []verdict
	for n := range all {
		f := &all[n]
		matched := 0
		if f.slows {
			matched = 1
		}
		v := verdict{Failure: f.name, Reasons: map[string]int{}, After: math.MinInt64}
		p99, mean := make([][]float64, len(worlds)), make([][]float64, len(worlds))
		for w := range worlds {
			for of := runs[w]; len(of) > 0; of = of[arms:] {
				r, m := &of[n+2], &of[matched]
				p99[w] = append(p99[w], math.Log(r.P99/m.P99))
				mean[w] = append(mean[w], math.Log(r.Mean/m.Mean))
				v.add(r)
			}
			v.Worlds = append(v.Worlds, inWorld{worlds[w].Name, trial.ChangeOf(p99[w])})
			p99[w], mean[w] = bySeed(p99[w], len(seeds)), bySeed(mean[w], len(seeds))
		}
		v.Pooled, v.Mean = trial.ChangeOf(trial.Pooled(p99...)), trial.ChangeOf(trial.Pooled(mean...))
		out = append(out, v)
	}
	for _, of := range runs {
		for i := range of {
			sizes["requests judged"] += of[i].Requests
		}
		sizes["simulations"] += len(of)
	}
	return out, sizes, nil
}

// add counts one run.
func (v *verdict) add(r *run) {
	v.Requests += r.Requests
	v.Failed += r.Failed
	v.Decided += r.Decided
	changes := 0
	for _, c := range r.Changes {
		if c.At < 0 {
			v.Before++
			continue
		}
		changes++
		if c.From == "live" {
			v.Reasons[string(c.To)+": "+c.Reason]++
		}
	}
	v.Changes = max(v.Changes, changes)
	at, after, ok := r.noticed()
	if !ok {
		v.Missed++
		return
	}
	v.Noticed, v.After = max(v.Noticed, at), max(v.After, after)
}

// bars are the promises about a failure.
func (v *verdict) bars(f *failure) []bench.Bar {
	out := []bench.Bar{
		{Name: "failed_requests_" + f.name, Value: float64(v.Failed), Relation: bench.AtMost, Bound: 0},
		{Name: "changes_" + f.name, Value: float64(v.Changes), Relation: bench.AtMost, Bound: float64(f.changes)},
	}
	if f.answer != nil || f.spoil != nil || f.slows { // else what the policy is worth, which others judge
		out = append(out, bench.Bar{Name: "ttft_p99_" + f.name, Value: v.Pooled.High, Relation: bench.AtMost, Bound: tailBound})
	}
	if f.silent {
		out = append(out, bench.Bar{Name: "decided_after_" + f.name, Value: float64(v.Decided), Relation: bench.AtMost, Bound: 0})
	}
	if f.refuted {
		after := v.After.Seconds()
		if v.Missed > 0 {
			after = math.Inf(1)
		}
		out = append(out, bench.Bar{Name: "seconds_after_200_" + f.name, Value: after, Relation: bench.AtMost, Bound: noticeable.Seconds()})
	}
	return out
}
