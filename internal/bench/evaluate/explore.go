package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// explored are the worlds in which the cost of exploring is measured: the log's
// traffic, ten endpoints, forecasts of the prior.
var explored = []world{
	{name: "mixed", traffic: mixed, share: 0.6, endpoints: 10, mechanism: none},
	{name: "interactive-chat", traffic: chat, share: 0.85, endpoints: 10, mechanism: none},
	{name: "rag", traffic: rag, share: 0.5, endpoints: 10, mechanism: none},
	{name: "b2b-saas", traffic: b2b, share: 0.35, endpoints: 10, mechanism: none},
}

// price is what exploring 1 % of the requests costs, against exploring none.
type price struct {
	world     string
	mean, p99 []float64 // logarithms of the ratios of TTFT, by seed
}

// priceOf measures one world with one seed.
func priceOf(ctx context.Context, w *world, seed uint64) (logMean, logP99 float64, err error) {
	var mean, p99 [2]float64
	for i, share := range []float64{0, 0.01} {
		s := exploring(share, prior)
		p := w.period()
		c, err := w.config(seeds{seed, seed, seed}, p.arrivals(p.logEnds))
		if err != nil {
			return 0, 0, err
		}
		s.route(&c.Router, nil)
		var all []float64
		c.Sink = func(o fleet.Outcome) {
			if o.At >= p.begins && o.At < p.logEnds {
				all = append(all, seen(&o, c.Plan.Timeout)[ttft])
			}
		}
		if _, err := fleet.Simulate(ctx, c); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", w.name, err)
		}
		mean[i] = meanOf(all)
		slices.Sort(all)
		p99[i] = evaluate.Quantile(all, 0.99)
	}
	return math.Log(mean[1] / mean[0]), math.Log(p99[1] / p99[0]), nil
}

// explore measures all worlds with so many seeds.
func explore(ctx context.Context, first uint64, repeats int, done func()) ([]price, error) {
	out := make([]price, len(explored))
	for i := range out {
		out[i] = price{explored[i].name, make([]float64, repeats), make([]float64, repeats)}
	}
	err := trial.Each(ctx, repeats*len(explored), func(ctx context.Context, k int) (err error) {
		i, s := k%len(explored), k/len(explored)
		out[i].mean[s], out[i].p99[s], err = priceOf(ctx, &explored[i], first+uint64(s))
		done()
		return err
	})
	return out, err
}

// pooled is the price over all worlds.
func pooled(all []price) price {
	out := price{world: "all worlds"}
	var mean, p99 [][]float64
	for i := range all {
		mean, p99 = append(mean, all[i].mean), append(p99, all[i].p99)
	}
	out.mean, out.p99 = trial.Pooled(mean...), trial.Pooled(p99...)
	return out
}
