package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// forkedAt are the requests of a run of which every alternative is run too.
var forkedAt = []int{100, 150, 200, 250, 300}

// forkedLoad is the share of the knee at which.
const forkedLoad = 0.9

// forked are decisions of which every alternative was run, as each contender
// forecasts them.
type forked struct {
	names []string
	forks [][]evaluate.Fork // by contender
}

// add runs the alternatives of some decisions that a router makes with what a
// run has learned, in a fleet that has just begun.
func (f *forked) add(ctx context.Context, s scenario, l *logged, seed uint64) error {
	s.learned, s.judged, s.each = []float64{forkedLoad}, nil, 10*time.Minute
	c, err := s.world(seed, l.bundle)
	if err != nil {
		return err
	}
	for _, request := range forkedAt {
		forks, err := fleet.Fork(ctx, c, request)
		if err != nil {
			return fmt.Errorf("fork at request %d of seed %d: %w", request, seed, err)
		}
		samples := make([]learn.Sample, len(forks.Rows))
		for i, r := range forks.Rows {
			samples[i].Vector = r.Vector
		}
		said := map[string][]feature.Forecast{}
		var names []string
		for _, x := range l.contenders {
			names = append(names, x.name)
			said[x.name] = x.forecast(samples)
		}
		names = append(names, corrected)
		for _, r := range forks.Rows {
			said[corrected] = append(said[corrected], r.Corrected)
		}
		if f.names == nil {
			f.names, f.forks = names, make([][]evaluate.Fork, len(names))
		}
		for k, name := range names {
			f.forks[k] = append(f.forks[k], forkOf(&forks, said[name]))
		}
	}
	return nil
}

// corrected names what the router decided by.
const corrected = "ours, corrected online"

// forkOf is a fork with one contender's forecasts.
func forkOf(from *fleet.Forked, said []feature.Forecast) evaluate.Fork {
	out := evaluate.Fork{Chosen: from.Chosen}
	for i, r := range from.Rows {
		more := feature.Seconds(max(0, r.Vector[feature.ColumnExpectedOutputTokens]-1))
		out.Candidates = append(out.Candidates, evaluate.Alternative{
			Endpoint: r.Endpoint,
			Forecast: evaluate.Latency{TTFT: said[i].TTFT.P50, E2E: said[i].TTFT.P50 + more*said[i].TPOT.P50},
			True:     evaluate.Latency{TTFT: r.Outcome.TTFT, E2E: r.Outcome.E2E},
		})
	}
	return out
}

// table is the regret of choosing by each contender's forecasts.
func (f *forked) table(seed uint64) regretTable {
	t := regretTable{Title: fmt.Sprintf("true regret of %d decisions at %.0f %% of the knee of the heterogeneous fleet, every alternative run", len(f.forks[0]), 100*forkedLoad)}
	for k, name := range f.names {
		for _, r := range evaluate.Regrets(f.forks[k], seed) {
			if k == 0 {
				t.Rows = append(t.Rows, regretRow{Latency: r.Latency, Contender: "chosen by the router", Choice: r.Policy})
			}
			concordance := r.Concordance
			t.Rows = append(t.Rows, regretRow{Latency: r.Latency, Contender: "least forecast of " + name, Choice: r.Forecast, Concordance: &concordance})
		}
	}
	return t
}
