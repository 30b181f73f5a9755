package main

import (
	"fmt"
	"io"
	"math"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
)

// says is what each instrument is, and how it fails, in a sentence.
var says = [instruments]string{
	naive:        "mean of the requests that the target would have sent where they went, less that of all: those are the easy requests, or the hard ones",
	direct:       "mean forecast of what the target does, less that of what was done: sees no queue that the target would have built or saved, and takes forecasts' word",
	ips:          "what came, weighted by how much more often the target does it: the state is the one that the log's policy left, and few weights decide",
	snips:        "the same, divided by the sum of the weights: less noise, the same blindness",
	doublyRobust: "forecasts, corrected where chance did what the target does: right of one request, blind to what all of them together change",
	switchDR:     "the same without the greatest weights: blind in the same way",
	priced:       "with what the cost model says a request takes from others: looks beyond the request, as far as a model sees",
	simulator:    "a fleet fitted to the log replays its traffic under both: fails where engines do what no step model does, and its check on the log must tell",
	anyway:       "the same, also where its check on the log failed",
	switchback:   "blocks of time take turns: sees all that happens within a block, and needs many of them",
	splitNaive:   "difference of the arms of a coin for each request: both arms wait in the same queues, so what one does the other feels",
	splitDQ:      "what a choice changed of the requests after it, too: sees as far as its horizon, with much noise",
}

// writeText writes everything as Markdown, which reads well in a terminal too.
func writeText(w io.Writer, r *bench.Report, studies []*study, prices []price) {
	all := pairsOf(studies)
	fmt.Fprintf(w, "# How far each instrument can be trusted\n\nMade by `%s`: %d simulated worlds, %d pairs of a log's policy and a target, the true effect from %d runs of each, or up to %d where they differ much; that of switchbacks from %d, of %d times the log's traffic. ", r.Command, len(studies), len(all),
		r.Sizes["runs of each policy"], again*r.Sizes["runs of each policy"], min(longRuns, r.Sizes["runs of each policy"]), longLogs)
	fmt.Fprintf(w, "Effects are relative to the log's policy; errors are in points of that. Sign: of the pairs whose true effect exceeds %.0f %%, with the 99 %% Wilson interval, which takes pairs to be independent, though those of one world share its log. Requests needed: for an interval of 5 points either way, were it only chance. Half of the true effects' own intervals, median: %s points of mean TTFT, %s of mean E2E.\n",
		100*decisive, points(own(all, ttft)), points(own(all, e2e)))
	if len(r.Bars) > 0 {
		fmt.Fprintf(w, "\n%s\n", verdict(all))
	}
	for q := range quantities {
		for g := range groups {
			fmt.Fprintf(w, "\n## %s, %s\n\n| instrument | answered | bias | RMSE | median error | sign right | covered | half interval | requests needed |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n", q, g)
			for i := range instruments {
				s := scoreOf(all, i, q, g)
				if s.pairs == 0 {
					continue
				}
				fmt.Fprintf(w, "| %s | %d of %d | %s | %s | %s | %s | %s | %s | %s |\n", i, s.answered, s.pairs,
					points(s.bias), points(s.rmse), points(s.median), signs(&s), percent(s.covered), points(s.width), digits(s.needed))
			}
		}
	}
	fmt.Fprint(w, "\n## What they are, and how they fail\n\n")
	for i := range instruments {
		fmt.Fprintf(w, "* **%s**: %s.\n", i, says[i])
	}
	writeOverlap(w, all)
	writePrices(w, prices)
	writePairs(w, studies)
}

// verdict says which instrument is the primary one, and how often the simulator said
// anything: what it refuses is in none of its bars.
func verdict(all []*pair) string {
	s := scoreOf(all, simulator, e2e, every)
	said := fmt.Sprintf(" It answers %d of %d pairs, and of the others nothing is known by it.", s.answered, s.pairs)
	switch {
	case broken(all):
		return "**The fitted simulator misses its bars over all worlds: switchback is the primary instrument**, and the simulator is one for worlds that a step model describes." + said
	case misses(all, every):
		return "**The fitted simulator misses its bars over all worlds, and not because of what it lacks**: it holds them where engines have a mechanism that no step model has." + said
	}
	return "**The fitted simulator holds its bars over all worlds**; switchback is shown beside it." + said
}

// own is the median of half of the true effects' intervals.
func own(all []*pair, q quantity) float64 {
	var halves []float64
	for _, p := range all {
		halves = append(halves, (p.truth.log[q].High-p.truth.log[q].Low)/2)
	}
	return median(halves)
}

func signs(s *score) string {
	if s.decisive == 0 {
		return ""
	}
	p := s.sign()
	return fmt.Sprintf("%d of %d (%.0f to %.0f %%)", s.right, s.decisive, 100*p.Low, 100*p.High)
}

// writeOverlap writes how much of a log says something of a target.
func writeOverlap(w io.Writer, all []*pair) {
	fmt.Fprint(w, "\n## Effective samples\n\nMedians over pairs. Left to chance: decisions that could have gone another way. Disagreement: how often log and target differ, at least.\n\n| log | candidates | disagreement | pairs | decisions | left to chance | effective samples |\n|---|---:|---|---:|---:|---:|---:|\n")
	bands := []struct {
		name string
		most float64
	}{{"below 10 %", 0.1}, {"10 to 40 %", 0.4}, {"above 40 %", math.Inf(1)}}
	for _, kind := range []string{"exploring 1 %", "exploring 5 %", "any of the shortlist", "canary"} {
		for _, endpoints := range []int{4, 6, 10} {
			least := math.Inf(-1)
			for _, band := range bands {
				var rows, chance, effective []float64
				for _, p := range all {
					if differs := 1 - p.overlap.common; p.world.kind() != kind || p.world.endpoints != endpoints || differs < least || differs >= band.most {
						continue
					}
					rows, chance, effective = append(rows, float64(p.rows)), append(chance, float64(p.overlap.judged)), append(effective, p.overlap.effective)
				}
				least = band.most
				if len(rows) > 0 {
					fmt.Fprintf(w, "| %s | %d | %s | %d | %.0f | %.0f | %.0f |\n", kind, endpoints, band.name, len(rows), median(rows), median(chance), median(effective))
				}
			}
		}
	}
}

// writePrices writes what exploring costs.
func writePrices(w io.Writer, prices []price) {
	if len(prices) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## What exploring 1 %% costs\n\nAgainst exploring nothing, on the same requests and engines, %d seeds: change in percent with its paired 95 %% interval.\n\n| world | mean TTFT | TTFT p99 |\n|---|---:|---:|\n", len(prices[0].mean))
	for _, p := range append(prices, pooled(prices)) {
		fmt.Fprintf(w, "| %s | %s | %s |\n", p.world, trial.ChangeOf(p.mean), trial.ChangeOf(p.p99))
	}
}

// writePairs writes every pair.
func writePairs(w io.Writer, studies []*study) {
	fmt.Fprintf(w, "\n## Every pair\n\nEffects on mean E2E in percent, with 95 %% intervals.\n")
	for _, s := range studies {
		fmt.Fprintf(w, "\n### %s\n\nLogged by %s: mean TTFT %s s, mean E2E %s s.", s.world.name, s.world.logged.name, digits(s.logged[ttft]), digits(s.logged[e2e]))
		if !s.trusted {
			fmt.Fprintf(w, " The fitted fleet refuses: %s.", s.why)
		}
		fmt.Fprint(w, "\n\n| target | true | fitted simulator | switchback | true then | DR | DR, priced | DM | split, DQ |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
		for i := range s.pairs {
			p := &s.pairs[i]
			fmt.Fprintf(w, "| %s | %s |", p.target.name, p.truth.log[e2e])
			for _, i := range []instrument{anyway, switchback} {
				fmt.Fprintf(w, " %s |", &p.estimates[i][e2e])
			}
			fmt.Fprintf(w, " %s |", p.truth.all[e2e])
			for _, i := range []instrument{doublyRobust, priced, direct, splitDQ} {
				fmt.Fprintf(w, " %s |", &p.estimates[i][e2e])
			}
			fmt.Fprintln(w)
		}
	}
}

// String is the estimate in percent; empty where there is none.
func (e *estimate) String() string {
	if !e.known() {
		return ""
	}
	return e.effect.String()
}

func points(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.1f", 100*v)
}

func percent(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// digits writes three significant ones.
func digits(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
