// Command saturation judges the number that routers give to autoscalers, the share
// of the time of its endpoints that arrivals take: simulated fleets at shares of
// their knee, which the benchmark of failures has found by latency. The number
// should be about 1 at the knee, whatever the traffic, and well away from it at
// half of that and beyond.
//
//	go run ./internal/bench/saturation --out docs/results
//
// The router believes of all engines what it does of one (fleet.Perturb), and the
// matched configuration decides, as where the knees were found.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
)

// options are the flags.
type options struct {
	out   string
	seed  uint64
	seeds int
}

func main() {
	var o options
	flag.String("data", "", "not used: everything is simulated")
	flag.StringVar(&o.out, "out", "", "folder for saturation.json")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed; each draws engines and traffic")
	flag.IntVar(&o.seeds, "seeds", 3, "number of seeds")
	flag.Parse()
	bench.Main("saturation", func(ctx context.Context) error { return run(ctx, os.Stdout, o) })
}

// shares are the loads, as shares of the knee, and what bounds the mean of the
// number there; a bound of 0 is none.
var shares = []struct {
	share, least, most float64
}{{0.5, 0, 0.6}, {0.8, 0, 0}, {1, 0.8, 1.25}, {1.3, 1, 0}}

// Conversations last some minutes, and their load comes no sooner: for so long
// nothing is judged where there are any.
const (
	untilSteady = 6 * time.Minute
	thenJudged  = 12 * time.Minute
)

// steady is a world that is judged once its load is what it is called.
func steady(w trial.World) trial.World {
	if w.Workload != "rag" { // which has single requests
		w.Before, w.Judged = untilSteady, thenJudged
	}
	return w
}

// sampleEvery is how often the number is looked at, as by Prometheus.
const sampleEvery = 15 * time.Second

// row is one world at one load.
type row struct {
	World    string         `json:"world"`
	Share    float64        `json:"share_of_knee"`
	Mean     feature.Number `json:"saturation"`
	Low      feature.Number `json:"saturation_p5"`
	High     feature.Number `json:"saturation_p95"`
	Slowdown feature.Number `json:"slowdown"` // of the judged requests: E2E over that of the request alone
}

func run(ctx context.Context, w io.Writer, o options) error {
	if o.seeds < 1 {
		return fmt.Errorf("--seeds: want at least 1, not %d", o.seeds)
	}
	report := bench.Report{Name: "saturation", Command: "make bench-saturation", Origin: bench.Here(), Sizes: map[string]int{}}
	for i := range o.seeds {
		report.Seeds = append(report.Seeds, o.seed+uint64(i))
	}
	rows, err := judge(ctx, &report)
	if err != nil {
		return err
	}
	if err := print(w, rows); err != nil {
		return err
	}
	report.Data = rows
	for i, r := range rows {
		bound, name := shares[i%len(shares)], fmt.Sprintf("saturation_%s_at_%g_of_knee", r.World, r.Share)
		if bound.least > 0 {
			report.Bars = append(report.Bars, bench.Bar{Name: name + "_min", Value: float64(r.Mean), Relation: bench.AtLeast, Bound: bound.least})
		}
		if bound.most > 0 {
			report.Bars = append(report.Bars, bench.Bar{Name: name + "_max", Value: float64(r.Mean), Relation: bench.AtMost, Bound: bound.most})
		}
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}

// seen is what came of one run.
type seen struct {
	samples  []float64 // of the number
	slowdown float64
	requests int
}

// judge runs every world at every load with every seed.
func judge(ctx context.Context, report *bench.Report) ([]row, error) {
	worlds, seeds := trial.Worlds, report.Seeds
	cells := make([]seen, len(worlds)*len(shares)*len(seeds))
	done := bench.Progress("simulations", len(cells))
	err := trial.Each(ctx, len(cells), func(ctx context.Context, i int) error {
		defer done()
		seed, share, world := i%len(seeds), i/len(seeds)%len(shares), i/len(seeds)/len(shares)
		var err error
		if cells[i], err = simulate(ctx, steady(worlds[world]), seeds[seed], shares[share].share); err != nil {
			return fmt.Errorf("%s, seed %d, %g of the knee: %w", worlds[world].Name, seeds[seed], shares[share].share, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var rows []row
	for i := 0; i < len(cells); i += len(seeds) {
		var samples []float64
		slowdown := 0.0
		for _, c := range cells[i : i+len(seeds)] {
			samples = append(samples, c.samples...)
			slowdown += c.slowdown / float64(len(seeds))
			report.Sizes["requests"] += c.requests
		}
		slices.Sort(samples)
		rows = append(rows, row{
			World: worlds[i/len(seeds)/len(shares)].Name, Share: shares[i/len(seeds)%len(shares)].share,
			Mean: feature.Number(evaluate.Mean(samples)), Slowdown: feature.Number(slowdown),
			Low: feature.Number(evaluate.Quantile(samples, 0.05)), High: feature.Number(evaluate.Quantile(samples, 0.95)),
		})
	}
	report.Sizes["simulations"] = len(cells)
	return rows, nil
}

// simulate runs one world and looks at the number while requests are judged.
func simulate(ctx context.Context, w trial.World, seed uint64, share float64) (seen, error) {
	c, err := w.Config(seed, share)
	if err != nil {
		return seen{}, err
	}
	var rows []*feature.Row
	c.Rows = func(r *feature.Row) { rows = append(rows, r) }
	r, err := fleet.Simulate(ctx, c)
	if err != nil {
		return seen{}, err
	}
	slices.SortStableFunc(rows, func(a, b *feature.Row) int { return a.DecidedAt.Compare(b.DecidedAt) })
	began := rows[0].DecidedAt
	out := seen{slowdown: float64(r.Summary(r.All(), fleet.SLO{}).Slowdown), requests: len(rows)}
	of := map[string]*correction.Occupancy{}
	at := 0
	for now := began; now.Before(began.Add(w.Before + w.Judged)); now = now.Add(sampleEvery) {
		for ; at < len(rows) && !rows[at].DecidedAt.After(now); at++ {
			row := rows[at]
			if of[row.Endpoint] == nil {
				of[row.Endpoint] = &correction.Occupancy{}
			}
			coefficients := c.Router.Profiles[row.Class].Coefficients
			of[row.Endpoint].Add(row.DecidedAt, occupied(coefficients, &row.Vector))
		}
		if now.Sub(began) < w.Before {
			continue
		}
		sum := 0.0
		for _, name := range slices.Sorted(maps.Keys(of)) {
			sum += of[name].Share(now)
		}
		out.samples = append(out.samples, sum/float64(len(c.Engines))) // of idle ones too
	}
	return out, nil
}

// columns of a vector that say what its request takes.
var (
	prompt   = feature.Index("prompt_tokens")
	cached   = feature.Index("cached_tokens")
	expected = feature.Index("expected_output_tokens")
	several  = feature.Index("completions")
	seqs     = feature.Index("max_num_seqs")
	capacity = feature.Index("kv_capacity_tokens")
	speed    = feature.Index("speed_factor")
)

// occupied is what the request of a vector takes of its endpoint, as the router
// counts it.
func occupied(c physics.Coefficients, v *feature.Vector) feature.Seconds {
	return physics.Occupied(c,
		feature.Request{PromptTokens: float64(v[prompt]), CachedTokens: float64(v[cached]), ExpectedOutputTokens: float64(v[expected]), Completions: float64(v[several])},
		feature.Profile{MaxNumSeqs: float64(v[seqs]), KVCapacityTokens: float64(v[capacity]), SpeedFactor: float64(v[speed])})
}

// print writes the table.
func print(out io.Writer, rows []row) error {
	fmt.Fprintln(out, "share of the time of ten endpoints that arrivals take, at shares of the knee")
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "world\tof knee\tsaturation\tp5\tp95\tslowdown")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\n", r.World, r.Share, r.Mean, r.Low, r.High, r.Slowdown)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}
