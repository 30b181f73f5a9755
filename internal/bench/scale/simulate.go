package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
)

const (
	perSecond = 1000 // requests
	tens      = 20   // of endpoints
)

// worse is by how much predicted may be worse than the better matched
// configuration, as in single regimes on ten endpoints.
const worse = 0.01

// chat is 76 % of what 200 endpoints answer: their knee is 20 times that of ten.
func chat() trial.World {
	w := trial.Worlds[1]
	w.Tens, w.Before, w.Judged = tens, 30*time.Second, 60*time.Second
	return w
}

// arms are compared with each other: the last with the better of the others.
var arms = []string{policy.TokenLoad, policy.ActiveRequest, policy.Predicted}

// metrics are what they are compared by.
var metrics = []struct {
	name string
	of   func(*fleet.Summary) float64
}{
	{"ttft_mean", func(s *fleet.Summary) float64 { return float64(s.TTFT.Mean) }},
	{"ttft_p90", func(s *fleet.Summary) float64 { return float64(s.TTFT.P90) }},
	{"e2e_mean", func(s *fleet.Summary) float64 { return float64(s.E2E.Mean) }},
}

// quality is what predicted routing is worth, beside the better of the others.
type quality struct {
	Better  []string             `json:"better"` // of the matched configurations, by metric
	Change  []trial.Change       `json:"change"` // of predicted against it
	Seconds []map[string]float64 `json:"seconds"`
}

// simulate runs all arms with all seeds.
func simulate(ctx context.Context, report *bench.Report) (*quality, error) {
	world := chat()
	known, rows, err := world.Learn(ctx)
	if err != nil {
		return nil, err
	}
	seeds := report.Seeds
	runs := make([]fleet.Summary, len(seeds)*len(arms))
	done := bench.Progress("simulations", len(runs))
	err = trial.Each(ctx, len(runs), func(ctx context.Context, i int) error {
		defer done()
		seed, arm := seeds[i/len(arms)], arms[i%len(arms)]
		c, err := world.Config(seed, perSecond/(tens*world.Knee))
		if err != nil {
			return err
		}
		c.Router.Policy = arm
		if policy.Forecasting(arm) {
			c.Router.Forecaster = fleet.Served(known)
		}
		r, err := fleet.Simulate(ctx, c)
		if err != nil {
			return fmt.Errorf("%s, seed %d: %w", arm, seed, err)
		}
		runs[i] = r.Summary(r.All(), fleet.SLO{})
		return nil
	})
	if err != nil {
		return nil, err
	}
	report.Sizes["endpoints"], report.Sizes["requests/s"], report.Sizes["rows learned"] = tens*10, perSecond, rows
	for i := range runs {
		report.Sizes["requests judged"] += runs[i].Requests
	}
	q := &quality{}
	for _, m := range metrics {
		means := map[string]float64{}
		for i := range runs {
			means[arms[i%len(arms)]] += m.of(&runs[i]) / float64(len(seeds))
		}
		better := 0
		if means[arms[1]] < means[arms[0]] {
			better = 1
		}
		var logs []float64
		for s := range seeds {
			of := runs[s*len(arms):]
			logs = append(logs, math.Log(m.of(&of[len(arms)-1])/m.of(&of[better])))
		}
		q.Better, q.Change, q.Seconds = append(q.Better, arms[better]), append(q.Change, trial.ChangeOf(logs)), append(q.Seconds, means)
	}
	return q, nil
}

// print writes the table.
func (q *quality) print(out io.Writer) error {
	fmt.Fprintf(out, "simulated: %d endpoints, %d requests/s of interactive chat\n", tens*10, perSecond)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\ttoken-load\tactive-request\tpredicted\tagainst the better, %")
	for i, m := range metrics {
		s := q.Seconds[i]
		fmt.Fprintf(tw, "%s\t%.4g s\t%.4g s\t%.4g s\t%s (%s)\n", m.name, s[arms[0]], s[arms[1]], s[arms[2]], q.Change[i], q.Better[i])
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// bars are the promises.
func (q *quality) bars() (out []bench.Bar) {
	for i, m := range metrics {
		out = append(out, bench.Bar{Name: m.name + "_200", Value: q.Change[i].Mean, Relation: bench.AtMost, Bound: worse})
	}
	return out
}
