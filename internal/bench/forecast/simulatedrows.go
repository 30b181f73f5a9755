package main

import (
	"context"
	"fmt"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// The bounds on simulated rows: of TTFT, corrected online.
const (
	simulatedMedian = 0.08 // |error|
	simulatedSpread = 0.05 // of the biases of endpoints, less what is noise
	decileRows      = 2000 // from which a decile of load is judged by itself
)

// simulatedSeeds is how many runs of each scenario are judged together.
const simulatedSeeds = 5

// simulatedSeries are what is judged on simulated rows. The last one is what the
// router decided by.
var simulatedSeries = []string{
	"router's own prior", "prior alone", "trees alone", "golearn CART", "ours",
	"prior alone, corrected online", "trees alone, corrected online", corrected,
}

// simulatedRows judges on what the simulator logged.
func simulatedRows(ctx context.Context, o options, report *bench.Report) ([]printed, error) {
	var seeds []uint64
	for i := range simulatedSeeds {
		seeds = append(seeds, o.seed+uint64(i))
	}
	report.Seeds = seeds
	var tables []printed
	var forks forked
	for _, s := range scenarios {
		f := evaluate.NewForecasts(evaluate.Options{Series: simulatedSeries, Split: evaluate.ByTime, Load: "inflight_requests"})
		for _, seed := range seeds {
			l, err := s.run(ctx, seed)
			if err != nil {
				return nil, err
			}
			report.Sizes[s.name+" rows learned"] += len(l.learned)
			l.judge(f, seed)
			if s.name != "heterogeneous" {
				continue
			}
			if err := forks.add(ctx, s, &l, seed); err != nil {
				return nil, err
			}
		}
		r := f.Report(o.seed)
		report.Sizes[s.name+" rows judged"] = int(r.Judged)
		tables = append(tables, judgedBy(fmt.Sprintf("%s: simulated, loads of %v of the knee (%g requests/s) learned, of %v judged", s.name, s.learned, s.knee, s.judged), r))
		report.Bars = append(report.Bars, simulatedBars(s.name, &r, report)...)
	}
	settled, err := newcomers(ctx, seeds, report)
	if err != nil {
		return nil, err
	}
	return append(tables, settled, forks.table(o.seed)), nil
}

// judge adds what all contenders say of the rows of one run, and what the router
// said. Each run has endpoints of its own.
func (l *logged) judge(f *evaluate.Forecasts, seed uint64) {
	samples := make([]learn.Sample, len(l.judged))
	for i := range l.judged {
		samples[i].Vector = l.judged[i].Vector
	}
	said := map[string][]feature.Forecast{}
	for _, c := range l.contenders {
		said[c.name] = c.forecast(samples)
	}
	var prior, trees evaluate.Online
	for i := range l.judged {
		r := &l.judged[i]
		c, why := evaluate.Observed(r, loadColumn)
		if why != "" {
			f.Skip(why)
			continue
		}
		c.LLM, c.Endpoint = fmt.Sprintf("seed %d", seed), fmt.Sprintf("seed %d, %s", seed, c.Endpoint)
		c.Forecasts = []feature.Forecast{
			evaluate.PriorForecast(&r.Vector), said["prior alone"][i], said["trees alone"][i], said["golearn CART"][i], r.Forecast,
			prior.Correct(&c, said["prior alone"][i], r.Outcome.FinishedAt),
			trees.Correct(&c, said["trees alone"][i], r.Outcome.FinishedAt), r.Corrected,
		}
		f.Add(&c)
	}
}

// simulatedBars are the promises about what the router decided by.
func simulatedBars(name string, r *evaluate.Report, report *bench.Report) []bench.Bar {
	q := &r.Series[len(r.Series)-1].TTFT
	bars := []bench.Bar{
		{Name: "ttft_median_" + name, Value: float64(q.All.MedianAPE), Relation: bench.AtMost, Bound: simulatedMedian},
		{Name: "ttft_bias_spread_" + name, Value: float64(q.BiasSpread.Typical), Relation: bench.AtMost, Bound: simulatedSpread},
	}
	least, most := feature.Unknown, feature.Unknown // unknown while no decile is judged
	for _, g := range q.ByLoad {
		if g.Rows+g.Censored < decileRows {
			continue
		}
		report.Sizes[name+" deciles judged"]++
		share := float64(g.Coverage.Share)
		if !(share >= least) {
			least = share
		}
		if !(share <= most) {
			most = share
		}
	}
	return append(bars,
		bench.Bar{Name: "ttft_decile_cover_least_" + name, Value: least, Relation: bench.AtLeast, Bound: coverLeast},
		bench.Bar{Name: "ttft_decile_cover_most_" + name, Value: most, Relation: bench.AtMost, Bound: coverMost},
	)
}
