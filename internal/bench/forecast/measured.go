package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/physics"
)

// routerProfile is what a router that knows nothing of these endpoints would
// have them be: the same LLM on other hardware.
const routerProfile = "qwen3-32b-h100-tp2-routing"

// testShare is the share of the rows that judge.
const testShare = 0.2

// The bounds. Those of errors are what quick fits of other tools reach at best
// on the same rows; see docs/results.
var bounds = map[string]float64{
	"ttft_mape_sharegpt_time": 0.107, "ttft_median_sharegpt_time": 0.087,
	"ttft_mape_bimodal_time": 0.013, "ttft_median_bimodal_time": 0.010,
	"ttft_mape_sharegpt_random": 0.121, "ttft_mape_bimodal_random": 0.122,
	"tpot_mape_sharegpt_time": 0.033, "tpot_mape_bimodal_time": 0.054,
}

// The p90 must cover a share in this range: its 99 % interval has to meet it.
const coverLeast, coverMost = 0.87, 0.93

// measuredRows judges on what was measured at real endpoints.
func measuredRows(ctx context.Context, o options, report *bench.Report) ([]printed, error) {
	p, err := physics.Named(routerProfile)
	if err != nil {
		return nil, err
	}
	var tables []printed
	for _, x := range []struct{ name, pattern string }{{"sharegpt", "sharegpt-h200*.jsonl"}, {"bimodal", "bimodal-h200*.jsonl"}} {
		t, err := read(o.data, x.name, x.pattern, p)
		if err != nil {
			return nil, err
		}
		report.Sizes[x.name+" rows"] = len(t.samples)
		report.Sizes[x.name+" broken lines"] = t.broken
		judged := table{Title: fmt.Sprintf("%s: %s", x.name, t.file)}
		for _, split := range splits {
			lines, err := t.judge(ctx, x.name, split, p, o.seed, report)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", x.name, split.name, err)
			}
			judged.Rows = append(judged.Rows, lines...)
		}
		tables = append(tables, judged)
	}
	return tables, nil
}

// splits are the ways to part a trace. One random draw alone moves an error by
// as much as a tenth, so there are several, judged together.
var splits = []struct {
	name  string
	draws int
}{{"time", 1}, {"random", 5}}

// judge puts all contenders to one way of parting the rows, and counts what
// ours violates.
func (t trace) judge(ctx context.Context, name string, split struct {
	name  string
	draws int
}, p physics.Profile, seed uint64, report *bench.Report) ([]line, error) {
	var names []string
	var tallies []tally
	broken := 0
	for draw := range split.draws {
		learned, rest := t.split(split.name, seed+uint64(draw))
		contenders, b, err := contend(ctx, learned.samples, seed)
		if err != nil {
			return nil, err
		}
		for i, c := range contenders {
			if draw == 0 {
				names, tallies = append(names, c.name), append(tallies, tally{})
			}
			tallies[i].add(rest.samples, c.forecast(rest.samples))
		}
		if draw > 0 {
			continue
		}
		e, err := b.Evaluator()
		if err != nil {
			return nil, err
		}
		var across int
		broken, across = violations(e, learned.states, p, seed)
		report.Sizes["pairs across the edge, "+name+" "+split.name] = across
	}
	var lines []line
	for i := range tallies {
		for k, s := range tallies[i].scores() {
			latency := []string{"TTFT", "TPOT"}[k]
			lines = append(lines, line{split.name, latency, names[i], s})
			if i == len(tallies)-1 {
				report.Bars = append(report.Bars, barsOf(strings.ToLower(latency), name+"_"+split.name, s)...)
			}
		}
	}
	report.Bars = append(report.Bars, bench.Bar{Name: "violations_" + name + "_" + split.name, Value: float64(broken), Relation: bench.AtMost, Bound: 0})
	slices.SortStableFunc(lines, func(a, b line) int { return strings.Compare(b.Latency, a.Latency) })
	return lines, nil
}

// barsOf are the promises about one latency of one split.
func barsOf(latency, rows string, s score) []bench.Bar {
	var bars []bench.Bar
	for _, x := range []struct {
		what  string
		value float64
	}{{"mape", s.MAPE}, {"median", s.Median}} {
		name := latency + "_" + x.what + "_" + rows
		if bound, ok := bounds[name]; ok {
			bars = append(bars, bench.Bar{Name: name, Value: x.value, Relation: bench.AtMost, Bound: bound})
		}
	}
	return append(bars,
		bench.Bar{Name: latency + "_cover_high_" + rows, Value: float64(s.Prequential.High), Relation: bench.AtLeast, Bound: coverLeast},
		bench.Bar{Name: latency + "_cover_low_" + rows, Value: float64(s.Prequential.Low), Relation: bench.AtMost, Bound: coverMost},
	)
}

// split parts a trace into what is learned from and what judges, both in the
// order of the file: "time" is its last testShare, "random" as many drawn rows.
func (t trace) split(how string, seed uint64) (learned, rest trace) {
	n := len(t.samples)
	judges := make([]bool, n)
	k := int(testShare * float64(n))
	for i := range k {
		judges[n-1-i] = true
	}
	if how == "random" {
		rng := rand.New(rand.NewPCG(seed, 0x73706c6974))
		rng.Shuffle(n, func(i, j int) { judges[i], judges[j] = judges[j], judges[i] })
	}
	for i, judge := range judges {
		to := &learned
		if judge {
			to = &rest
		}
		to.samples, to.states = append(to.samples, t.samples[i]), append(to.states, t.states[i])
	}
	return learned, rest
}
