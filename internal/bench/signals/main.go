// Command signals judges what old numbers of endpoints cost: TTFT p99 of simulated
// fleets at 80 % of their knee, with scrapes that are 1 s and 10 s old on average,
// against fresh ones on the same requests.
//
//	go run ./internal/bench/signals --out docs/results
//
// Fresh numbers are asked for every 50 ms and come at once. Old ones are asked for
// as seldom as they are to be old, and take half as long to arrive: their age goes
// from half of that to one and a half. A router then takes numbers for fresh that
// are three scrapes old, as its configuration must say. The worlds and the pooling
// are those of the benchmark of failures.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
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
	flag.StringVar(&o.out, "out", "", "folder for signals.json")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed; each draws engines and traffic")
	flag.IntVar(&o.seeds, "seeds", 20, "number of seeds")
	flag.Parse()
	bench.Main("signals", func(ctx context.Context) error { return run(ctx, os.Stdout, o) })
}

const (
	kneeShare  = 0.8
	freshEvery = 50 * time.Millisecond
)

// ages are how old numbers are on average, and what that may cost. The first is
// what others are compared with.
var ages = []struct {
	name  string
	age   time.Duration
	bound float64
}{{"fresh", 0, 0}, {"1s", time.Second, 0.05}, {"10s", 10 * time.Second, 0.10}}

// scraped is a router whose numbers are of an age.
func scraped(c *fleet.RouterConfig, age time.Duration) {
	c.ScrapeInterval = freshEvery
	if age > 0 {
		c.ScrapeInterval, c.ScrapeDelay, c.ScrapeMaxAge = age, age/2, max(10*time.Second, 3*age)
	}
}

// cell is what came of one run.
type cell struct {
	p99, mean        float64
	requests, failed int
}

// row is one age, beside fresh numbers.
type row struct {
	Age    string         `json:"age"`
	Pooled trial.Change   `json:"ttft_p99"`
	Mean   trial.Change   `json:"ttft_mean"`
	Worlds []trial.Change `json:"worlds"` // in the order of trial.Worlds
	Failed int            `json:"failed"` // ended without a first token
}

func run(ctx context.Context, w io.Writer, o options) error {
	if o.seeds < 2 {
		return fmt.Errorf("--seeds: want at least 2, not %d", o.seeds)
	}
	report := bench.Report{Name: "signals", Command: "make bench-signals", Origin: bench.Here(), Sizes: map[string]int{}}
	for i := range o.seeds {
		report.Seeds = append(report.Seeds, o.seed+uint64(i))
	}
	rows, err := compare(ctx, &report)
	if err != nil {
		return err
	}
	if err := print(w, rows); err != nil {
		return err
	}
	report.Data = rows
	for i, r := range rows {
		report.Bars = append(report.Bars,
			bench.Bar{Name: "ttft_p99_" + r.Age, Value: r.Pooled.High, Relation: bench.AtMost, Bound: ages[i+1].bound},
			bench.Bar{Name: "failed_requests_" + r.Age, Value: float64(r.Failed), Relation: bench.AtMost, Bound: 0})
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}

// compare runs every world with every seed and age.
func compare(ctx context.Context, report *bench.Report) ([]row, error) {
	worlds, seeds := trial.Worlds, report.Seeds
	known := make([]fleet.Forecaster, len(worlds))
	for i := range worlds {
		var err error
		if known[i], report.Sizes[worlds[i].Name+" rows learned"], err = worlds[i].Learn(ctx); err != nil {
			return nil, err
		}
	}
	cells := make([]cell, len(worlds)*len(seeds)*len(ages))
	done := bench.Progress("simulations", len(cells))
	err := trial.Each(ctx, len(cells), func(ctx context.Context, i int) error {
		defer done()
		age, seed, world := i%len(ages), i/len(ages)%len(seeds), i/len(ages)/len(seeds)
		c, err := worlds[world].Config(seeds[seed], kneeShare)
		if err != nil {
			return err
		}
		c.Router.Forecaster = fleet.Served(known[world])
		scraped(&c.Router, ages[age].age)
		r, err := fleet.Simulate(ctx, c)
		if err != nil {
			return fmt.Errorf("%s, seed %d, %s: %w", worlds[world].Name, seeds[seed], ages[age].name, err)
		}
		s := r.Summary(r.All(), fleet.SLO{})
		cells[i] = cell{p99: float64(s.TTFT.P99), mean: float64(s.TTFT.Mean), requests: s.Requests}
		for _, q := range r.Requests {
			if q.Status != feature.OK && q.OutputTokens == 0 {
				cells[i].failed++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var rows []row
	for a := 1; a < len(ages); a++ {
		r := row{Age: ages[a].name}
		p99, mean := make([][]float64, len(worlds)), make([][]float64, len(worlds))
		for w := range worlds {
			for s := range seeds {
				at := (w*len(seeds) + s) * len(ages)
				old, fresh := &cells[at+a], &cells[at]
				p99[w] = append(p99[w], math.Log(old.p99/fresh.p99))
				mean[w] = append(mean[w], math.Log(old.mean/fresh.mean))
				r.Failed += old.failed
			}
			r.Worlds = append(r.Worlds, trial.ChangeOf(p99[w]))
		}
		r.Pooled, r.Mean = trial.ChangeOf(trial.Pooled(p99...)), trial.ChangeOf(trial.Pooled(mean...))
		rows = append(rows, r)
	}
	for i := range cells {
		report.Sizes["requests judged"] += cells[i].requests
	}
	report.Sizes["simulations"] = len(cells)
	return rows, nil
}

// print writes the table.
func print(out io.Writer, rows []row) error {
	fmt.Fprintln(out, "TTFT with old numbers of endpoints against fresh ones, in %, with 95 % intervals")
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "age\tp99 pooled")
	for _, w := range trial.Worlds {
		fmt.Fprintf(tw, "\tp99 %s", w.Name)
	}
	fmt.Fprintln(tw, "\tmean pooled\tfailed")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s", r.Age, r.Pooled)
		for _, c := range r.Worlds {
			fmt.Fprintf(tw, "\t%s", c)
		}
		fmt.Fprintf(tw, "\t%s\t%d\n", r.Mean, r.Failed)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}
