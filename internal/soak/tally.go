package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/bench"
)

// tally is what a soak came to.
type tally struct {
	Seconds float64
	Rounds  []round
	Left    int // goroutines, when all had ended
}

// counts are the bars that hold for a soak of any length: nothing is left over,
// nothing is lost.
func (t *tally) counts() []bench.Bar {
	var inFlight, prefill, engines, rows, unended, stray, unknown, missing, halved float64
	for _, r := range t.Rounds {
		inFlight += r.InFlight
		prefill += r.Prefill
		engines += r.Engines
		rows = max(rows, float64(r.Lost+r.Dropped)) // counted from the beginning
		unended += float64(r.Unended)
		stray = max(stray, float64(r.Stray))
		unknown += float64(r.Unknown)
		missing += float64(r.Missing)
		halved += float64(r.Traffic.Halved)
	}
	none := func(name string, n float64) bench.Bar {
		return bench.Bar{Name: name, Value: n, Relation: bench.AtMost, Bound: 0}
	}
	return []bench.Bar{
		none("ledger_drift_requests", inFlight),
		none("ledger_drift_tokens", prefill),
		none("left_in_engines", engines),
		none("rows_lost", rows),
		none("decisions_without_outcome", unended),
		none("outcomes_without_decision", stray),
		none("decisions_unknown", unknown),
		none("endpoints_not_back", missing),
		none("answers_halved", halved),
		none("goroutines_left", float64(t.Left)),
	}
}

// flat is by how much a number may grow over the last two thirds of a soak, as a
// share of its mean there.
const flat = 0.1

// trends are the bars about growth, by regression on the rounds, of which the
// first third is left out: caches fill then.
func (t *tally) trends() []bench.Bar {
	rest := t.Rounds[len(t.Rounds)/3:]
	grown := func(name string, of func(round) float64) bench.Bar {
		y := make([]float64, len(rest))
		for i, r := range rest {
			y[i] = of(r)
		}
		return bench.Bar{Name: name, Value: growth(y), Relation: bench.AtMost, Bound: flat}
	}
	return []bench.Bar{
		grown("heap_growth", func(r round) float64 { return float64(r.Heap) }),
		grown("goroutine_growth", func(r round) float64 { return float64(r.Goroutines) }),
		grown("file_growth", func(r round) float64 { return float64(r.Files) }),
	}
}

// growth is how much the line of least squares through y rises from the first to
// the last, as a share of the mean. 0 where there is no line.
func growth(y []float64) float64 {
	n := float64(len(y))
	mean, moment, spread := 0.0, 0.0, 0.0
	for _, v := range y {
		mean += v / n
	}
	for i, v := range y {
		x := float64(i) - (n-1)/2
		moment += x * (v - mean)
		spread += x * x
	}
	if spread == 0 || mean == 0 {
		return 0
	}
	return moment / spread * (n - 1) / mean
}

// shownRounds is about how many rounds are printed and kept in the file.
const shownRounds = 12

// shown is some of the rounds, evenly spread, and the last.
func (t *tally) shown() (some []round) {
	step := max(1, len(t.Rounds)/shownRounds)
	for i := (len(t.Rounds) - 1) % step; i < len(t.Rounds); i += step {
		some = append(some, t.Rounds[i])
	}
	return some
}

// print writes some of the rounds.
func (t *tally) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\nround\trequests\twhole\tleft\trefused\tfailed\tstore away\tspooled\tdecisions\tlost\tin flight\theap MB\tgoroutines\tfiles\t")
	for _, r := range t.shown() {
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%d\t%d\t%v\t%d\t%d\t%d\t%g\t%.1f\t%d\t%d\t\n", r.Number,
			r.Traffic.Requests, r.Traffic.Whole, r.Traffic.Left, r.Traffic.Refused, r.Traffic.Failed, r.Away, r.Spooled,
			r.Decisions, r.Lost+r.Dropped, r.InFlight, float64(r.Heap)/1e6, r.Goroutines, r.Files)
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
}
