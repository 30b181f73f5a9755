package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Seen is one vector and what came of it. Unknown latencies are NaN.
type Seen struct {
	Vector feature.Vector
	TTFT   feature.Seconds
	TPOT   feature.Seconds
	Weight float64 // positive: how much it counts
}

const (
	// seenRows is the least number of measured times that can decide the
	// terms of a curve; with fewer the analytic prior stands.
	seenRows = 50
	// seenMost is how many rows a curve is fitted to at most, evenly spread:
	// more change its few terms by less than the noise.
	seenMost = 4000
	// analyticRows is how many rows the analytic prior counts as: what few
	// rows say of a term that they hardly know is held against it.
	analyticRows = 0.1
	// roomShare is the most of its analytic TTFT that a row may have waited for
	// room to say something of an engine that has room.
	roomShare = 0.1
	// knotShare and knotRows are the least share and number of rows between
	// two knots, so that each slope has evidence of its own.
	knotShare = 0.02
	knotRows  = 10
	// openShare is the share of rows beyond the last knot at least: they
	// decide the slope with which a curve extrapolates.
	openShare = 0.35
	// leastShare is the share of a latency that a term must make out in some
	// row, lest rounding keep it.
	leastShare = 1e-4
)

// Form is what a fitted curve may be made of.
type Form int

// The forms, the plainest first.
const (
	Analytic Form = iota // the analytic prior of the vector as it is
	Scaled               // the same, times a number
	Full                 // a sum of terms, the analytic prior among them
)

// Forms is one for each latency.
type Forms struct{ TTFT, TPOT Form }

// Vectors fits a prior to what came of vectors: for each latency a sum of
// terms, non-negative and robust on the relative error. In full form prompt and
// queue count by slopes that may change with their size; those of an engine
// that has prefill to do, or a queue, are apart from those of one that only
// decodes. A latency with too few rows keeps the analytic prior.
func Vectors(rows []Seen, forms Forms) (physics.Fitted, error) {
	f := physics.Fitted{Peak: typicalPeak(rows)}
	for _, c := range []struct {
		curve *physics.Curve
		form  Form
		kind  int
		of    func(*Seen) float64
	}{
		{&f.TPOT, forms.TPOT, ofTPOT, func(s *Seen) float64 { return float64(s.TPOT) }},
		{&f.TTFT, forms.TTFT, ofTTFT, func(s *Seen) float64 { return float64(s.TTFT) }},
	} {
		var with []Seen
		for i := range rows {
			if of := c.of(&rows[i]); of > 0 && !math.IsInf(of, 0) {
				with = append(with, rows[i])
			}
		}
		if len(with) < seenRows || c.form == Analytic {
			continue
		}
		with, all := roomy(with, c.kind), with
		terms := candidates(with, c.kind)
		if c.form == Scaled {
			terms = terms[:analytic[c.kind]]
		}
		c.curve.Terms = curve(&f, thinned(with, seenMost), terms, c.kind, c.of)
		switch {
		case c.kind == ofTTFT:
			c.curve.Terms = append(c.curve.Terms, waits(&f, all))
		case c.form == Full:
			c.curve.Terms = append(c.curve.Terms, beyond(all))
		}
		c.curve.Min, c.curve.Max = extent(&f, all, c.kind)
	}
	if err := f.Check(); err != nil {
		return physics.Fitted{}, fmt.Errorf("the rows do not describe an engine: %w", err)
	}
	return f, nil
}

// roomy are the rows that say what TTFT is at an engine that has room; all of
// them where too few had, and for TPOT.
func roomy(rows []Seen, kind int) []Seen {
	if kind == ofTPOT {
		return rows
	}
	var with []Seen
	for i := range rows {
		if p := rows[i].Vector.Prior(); !(p.Admission > roomShare*p.TTFT) {
			with = append(with, rows[i])
		}
	}
	if len(with) < seenRows {
		return rows
	}
	return with
}

// waits is the term of the wait for room, which is a number of decode steps. It
// is held to the analytic one, made longer as TPOT is. It is not fitted: where
// rows were learned from there was room for most of them, and those that waited
// tell it badly, for a wait hangs on how long others' answers turn out.
func waits(f *physics.Fitted, rows []Seen) physics.Term {
	return physics.Term{Seconds: longer(f, rows), Ramp: physics.Ramp{Column: feature.ColumnPriorAdmission}}
}

// beyond is the term of what prefill takes from decoding past the most that the
// rows have of that: it is held to the analytic one. Below the knee prefill slows
// decoding by no more than its noise, and what fits best may know nothing of it.
func beyond(rows []Seen) physics.Term {
	most := 0.0
	for i := range rows {
		most = max(most, float64(rows[i].Vector.Prior().Interference))
	}
	return physics.Term{Seconds: 1, Ramp: physics.Ramp{Column: feature.ColumnPriorInterference, From: most}}
}

// longer is how many times the analytic TPOT the fitted one is, in the median of
// rows.
func longer(f *physics.Fitted, rows []Seen) float64 {
	times := make([]float64, 0, len(rows))
	for i := range rows {
		v := &rows[i].Vector
		if x := float64(f.Estimate(v).TPOT / v.Prior().TPOT); x > 0 && !math.IsInf(x, 0) {
			times = append(times, x)
		}
	}
	if len(times) == 0 {
		return 1
	}
	return quantile(times, 0.5)
}

// curve fits the terms of one latency, the first of which is the analytic prior.
func curve(f *physics.Fitted, rows []Seen, terms []physics.Term, kind int, of func(*Seen) float64) []physics.Term {
	nowhere := func(t physics.Term) bool {
		return !slices.ContainsFunc(rows, func(r Seen) bool { return t.At(&r.Vector, 1) > 0 })
	}
	own := slices.DeleteFunc(slices.Clone(terms[:analytic[kind]]), nowhere)
	terms = append(own, slices.DeleteFunc(slices.Clone(terms[analytic[kind]:]), nowhere)...)
	equations := make([]equation, len(rows))
	weights := make([]float64, len(rows))
	most := make([]float64, len(terms)) // share of a latency for each second of the term
	for i := range rows {
		r := &rows[i]
		e := equation{value: of(r), of: of(r), kind: kind, parts: make([]float64, len(terms))}
		pace := f.Pace(&r.Vector)
		for j := range terms {
			e.parts[j] = terms[j].At(&r.Vector, pace)
			most[j] = max(most[j], e.parts[j]/e.of)
		}
		equations[i], weights[i] = e, r.Weight
	}
	from := start{at: make([]float64, len(terms)), rows: analyticRows}
	for j := range own {
		from.at[j] = 1 // the analytic prior as it is
	}
	x := weighted(equations, len(terms), weights, from)
	// Where every row is explained by its load alone, something must be left
	// of an idle engine.
	always := func(j int) bool { return terms[j].Ramp.Column == physics.Constant || j == 0 }
	idle := 0.0
	for j := range terms {
		if always(j) {
			idle += x[j]
		}
	}
	if !(idle > 0) {
		x[0] = leastShare
	}
	var kept []physics.Term
	for j, t := range terms {
		if t.Seconds = x[j]; t.Seconds > 0 && (always(j) || x[j]*most[j] > leastShare) {
			kept = append(kept, t)
		}
	}
	return kept
}

// extent is the range of a fitted curve over rows.
func extent(f *physics.Fitted, rows []Seen, kind int) (least, most float64) {
	least, most = math.Inf(1), 0
	for i := range rows {
		p := f.Estimate(&rows[i].Vector)
		x := float64(p.TTFT)
		if kind == ofTPOT {
			x = float64(p.TPOT)
		}
		least, most = min(least, x), max(most, x)
	}
	return least, most
}

// The grids of knots grow by a factor, since what matters of a size is its
// magnitude.
var (
	tokenKnots = append([]float64{1}, doubling(5, 22)...)
	countKnots = doubling(0, 12)
	shareKnots = []float64{0.25, 0.5, 0.75}
	timeKnots  = growing(0.02, 1000, 1.5)
)

func doubling(from, to int) []float64 {
	return growing(math.Exp2(float64(from)), math.Exp2(float64(to)), 2)
}

func growing(from, to, factor float64) []float64 {
	var knots []float64
	for k := from; k <= to; k *= factor {
		knots = append(knots, k)
	}
	return knots
}

// analytic is how many of the first terms make up the analytic prior.
var analytic = [...]int{ofTPOT: 1, ofTTFT: 2}

// candidates are the terms of one latency before their fit, each of one
// second: first the analytic prior, then the constant.
func candidates(rows []Seen, kind int) []physics.Term {
	column := func(name string) int { return feature.Index(name) }
	uncached, prefill, waiting := column("uncached_tokens"), column("inflight_prefill_tokens"), column("waiting")
	inflight := column("inflight_requests")
	terms := []physics.Term{}
	add := func(ramps ...physics.Ramp) {
		for _, r := range ramps {
			terms = append(terms, physics.Term{Seconds: 1, Ramp: r})
		}
	}
	open := func(column int) physics.Ramp { return physics.Ramp{Column: column} }
	first := physics.Ramp{To: 1} // of counts: whether there is any
	// What the analytic prior misses in proportion; within bounds, so that
	// it does not run away where both grow.
	times := func(own int, ramps []physics.Ramp) {
		for _, r := range closed(ramps) {
			terms = append(terms, physics.Term{Seconds: 1, Ramp: open(own), Times: &r})
		}
	}
	if kind == ofTTFT {
		add(open(feature.ColumnPriorPrefill), open(feature.ColumnPriorQueue), open(physics.Constant), open(feature.ColumnPriorTPOT))
		add(ramps(rows, uncached, tokenKnots)...)
		add(steps(rows, uncached, tokenKnots)...)
		add(ramps(rows, feature.ColumnPriorPrefill, timeKnots)...)
		prompt := open(feature.ColumnPromptTokens)
		terms = append(terms, physics.Term{Seconds: 1, Ramp: open(uncached), Times: &prompt}) // attention
		add(ramps(rows, prefill, tokenKnots)...)
		first.Column = waiting
		terms = append(terms, physics.Term{Seconds: 1, Ramp: open(prefill), Times: &first}) // once there is a queue
		add(ramps(rows, waiting, countKnots)...)
		add(ramps(rows, inflight, countKnots)...)
		add(ramps(rows, column("kv_used"), shareKnots)...)
		add(open(column("running")), open(column("inflight_decoding")), open(column("inflight_context_tokens")))
		times(feature.ColumnPriorPrefill, ramps(rows, waiting, countKnots))
		times(feature.ColumnPriorPrefill, ramps(rows, column("running"), countKnots))
		times(feature.ColumnPriorPrefill, ramps(rows, column("kv_used"), shareKnots))
		return terms
	}
	add(open(feature.ColumnPriorTPOT), open(physics.Constant))
	for _, name := range []string{"running", "inflight_decoding"} {
		add(ramps(rows, column(name), countKnots)...)
	}
	add(ramps(rows, column("kv_used"), shareKnots)...)
	add(ramps(rows, column("inflight_context_tokens"), tokenKnots)...)
	add(open(feature.ColumnPromptTokens), open(uncached))
	first.Column = inflight
	add(first)
	// A step holds no more prefill than its budget: however long the queue
	// before the engine, it slows decoding no further.
	add(closed(ramps(rows, prefill, tokenKnots))...)
	add(closed(ramps(rows, waiting, countKnots))...)
	times(feature.ColumnPriorTPOT, ramps(rows, column("running"), countKnots))
	times(feature.ColumnPriorTPOT, ramps(rows, column("kv_used"), shareKnots))
	return terms
}

// ramps cuts a column at those of the knots that have enough rows on both
// sides. The last one is open.
func ramps(rows []Seen, column int, knots []float64) []physics.Ramp {
	values := known64(rows, column)
	least := max(knotRows, knotShare*float64(len(rows)))
	var out []physics.Ramp
	from := 0.0
	for _, k := range knots {
		if below(values, k)-below(values, from) < least || float64(len(values))-below(values, k) < openShare*float64(len(values)) {
			continue
		}
		out = append(out, physics.Ramp{Column: column, From: from, To: k})
		from = k
	}
	return append(out, physics.Ramp{Column: column, From: from})
}

// closed leaves out the open one.
func closed(all []physics.Ramp) []physics.Ramp { return all[:len(all)-1] }

// steps are jumps right after those of the knots that have enough rows on both
// sides: engines pad batches to sizes they have prepared, and beyond the
// largest do without.
func steps(rows []Seen, column int, knots []float64) []physics.Ramp {
	values := known64(rows, column)
	least := max(knotRows, knotShare*float64(len(rows)))
	var out []physics.Ramp
	for _, k := range knots {
		if n := below(values, k); n >= least && float64(len(values))-n >= least {
			out = append(out, physics.Ramp{Column: column, From: k, To: k + 1})
		}
	}
	return out
}

// known64 are the known values of a column, sorted.
func known64(rows []Seen, column int) []float64 {
	var values []float64
	for i := range rows {
		if x := float64(rows[i].Vector[column]); x == x {
			values = append(values, x)
		}
	}
	slices.Sort(values)
	return values
}

// below is how many of the sorted values are at most x.
func below(sorted []float64, x float64) float64 {
	n, _ := slices.BinarySearch(sorted, math.Nextafter(x, math.Inf(1)))
	return float64(n)
}

// typicalPeak is the median of the known peak prefill throughputs, or 0.
func typicalPeak(rows []Seen) float64 {
	values := known64(rows, feature.Index("peak_prefill_throughput"))
	if len(values) == 0 || !(values[len(values)/2] > 0) {
		return 0
	}
	return values[len(values)/2]
}

// thinned returns at most n of the rows, evenly spaced, the last among them.
func thinned(rows []Seen, n int) []Seen {
	if len(rows) <= n {
		return rows
	}
	out := make([]Seen, n)
	for i := range out {
		out[i] = rows[(i+1)*len(rows)/n-1]
	}
	return out
}
