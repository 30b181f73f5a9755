package main

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// heldOut is the share of the rows, the latest, that judge.
const heldOut = 0.4

// faults are the ways in which the window of a refit is bad.
var faults = []kind{
	{"unit shift", 0, spoilt(unitShift)},
	{"swapped columns", 0, spoilt(swappedColumns)},
	{"leaked label", 0, spoilt(leakedLabel)},
	{"shuffled labels", 0, spoilt(shuffledLabels)},
	{"one regime", 0, oneRegime},
	{"constant labels", 0, spoilt(constantLabels)},
	{"NaN flood", 0, spoilt(flood)},
	{"tiny window", 0, tinyWindow},
	{"fast errors", 0, spoilt(fastErrors)},
	{"time reversed", 0, spoilt(timeReversed)},
}

// size of a window: little more than a first refit needs.
func size(rng *rand.Rand) int { return 260 + rng.IntN(100) }

// spoilt makes a good window bad.
func spoilt(spoil func(rng *rand.Rand, rows []feature.Row)) func(*rand.Rand, uint64, time.Time) []feature.Row {
	return func(rng *rand.Rand, seed uint64, now time.Time) []feature.Row {
		rows := clean(seed).rows(size(rng), now)
		spoil(rng, rows)
		return rows
	}
}

// part is the whole window, or what is learned from, or what judges.
func part(rng *rand.Rand, rows []feature.Row) []feature.Row {
	cut := len(rows) - int(math.Ceil(heldOut*float64(len(rows))))
	return [][]feature.Row{rows, rows[:cut], rows[cut:]}[rng.IntN(3)]
}

// scaled multiplies what was measured.
func scaled(o *feature.Outcome, by feature.Seconds) {
	o.TTFT, o.TPOT, o.E2E = o.TTFT*by, o.TPOT*by, o.E2E*by
}

// unitShift writes milliseconds for seconds, or divides seconds as if they were
// milliseconds.
func unitShift(rng *rand.Rand, rows []feature.Row) {
	by := []feature.Seconds{1000, 0.001}[rng.IntN(2)]
	alone := rng.IntN(3) == 0 // only TTFT
	shifted := part(rng, rows)
	for i := range shifted {
		o := &shifted[i].Outcome
		if alone {
			o.TTFT *= by
		} else {
			scaled(o, by)
		}
	}
}

// swappedColumns exchanges two columns: in the rows that are learned from, or
// in all of them where the two are of different kinds, so that it can be seen.
func swappedColumns(rng *rand.Rand, rows []feature.Row) {
	column := feature.Index
	learned := rows[:len(rows)-int(math.Ceil(heldOut*float64(len(rows))))]
	swaps := []struct {
		a, b int
		rows []feature.Row
	}{
		{feature.ColumnPriorTTFT, feature.ColumnPriorTPOT, rows},
		{feature.ColumnPriorTTFT, feature.ColumnPriorTPOT, learned},
		{feature.ColumnPromptTokens, feature.ColumnUncachedTokens, rows},
		{feature.ColumnCachedTokens, feature.ColumnPromptTokens, rows},
		{feature.ColumnPromptTokens, column("inflight_context_tokens"), rows},
		{column("kv_used"), column("running"), rows},
		{column("inflight_requests"), column("inflight_prefill_tokens"), rows},
		{feature.ColumnPriorTTFT, column("waiting"), rows},
		{feature.ColumnPriorTPOT, column("scrape_age"), rows},
		{feature.ColumnPriorTTFT, column("scrape_age"), learned},
	}
	s := swaps[rng.IntN(len(swaps))]
	for i := range s.rows {
		v := &s.rows[i].Vector
		v[s.a], v[s.b] = v[s.b], v[s.a]
	}
}

// leakedLabel writes into a column what only the future tells.
func leakedLabel(rng *rand.Rand, rows []feature.Row) {
	names := []string{"scrape_age", "expected_output_tokens", "max_output_tokens", "waiting", "running", "inflight_context_tokens", "dispatched_tokens_since_scrape"}
	column := feature.Index(names[rng.IntN(len(names))])
	kind := rng.IntN(4)
	for i := range rows {
		o, v := &rows[i].Outcome, &rows[i].Vector
		v[column] = float32([]float64{
			float64(o.TTFT),
			1000 * float64(o.TTFT),
			float64(o.TTFT / v.Prior().TTFT),
			float64(o.TPOT),
		}[kind])
	}
}

// shuffledLabels gives every row the outcome of another one.
func shuffledLabels(rng *rand.Rand, rows []feature.Row) {
	rng.Shuffle(len(rows), func(i, j int) {
		a, b := &rows[i].Outcome, &rows[j].Outcome
		a.TTFT, b.TTFT, a.TPOT, b.TPOT, a.E2E, b.E2E = b.TTFT, a.TTFT, b.TPOT, a.TPOT, b.E2E, a.E2E
		a.OutputTokens, b.OutputTokens = b.OutputTokens, a.OutputTokens
	})
	for i := range rows {
		ends(&rows[i])
	}
}

// ends lets a request end when its outcome says.
func ends(r *feature.Row) { r.Outcome.FinishedAt = r.DecidedAt.Add(r.Outcome.E2E.Duration()) }

// oneRegime is a window of which every row is alike, or one whose held-out rows
// come from a regime that was not learned from and where the prior errs the
// other way.
func oneRegime(rng *rand.Rand, seed uint64, now time.Time) []feature.Row {
	w, n := clean(seed), size(rng)
	if rng.IntN(2) == 0 {
		r := w.regime()
		w.alike = &r
		return w.rows(n, now)
	}
	w.idle = rng.IntN(2) == 0
	w.heavy = !w.idle
	for k := range w.slope {
		w.slope[k] = 0
	}
	rows := w.rows(n, now)
	w.idle, w.heavy = w.heavy, w.idle
	for k := range w.bias {
		w.bias[k] = -w.bias[k]
	}
	judge := int(math.Ceil(heldOut * float64(n)))
	return append(rows[:n-judge], w.rows(judge, now)...)
}

// constantLabels measures the same whatever the request.
func constantLabels(rng *rand.Rand, rows []feature.Row) {
	ttft, tpot := feature.Seconds(0.05+rng.Float64()), feature.Seconds(0.005+0.05*rng.Float64())
	both := rng.IntN(2) == 0
	for i := range rows {
		o := &rows[i].Outcome
		o.TTFT = ttft
		if both {
			o.TPOT = tpot
		}
		o.E2E = o.TTFT + o.TPOT*feature.Seconds(o.OutputTokens-1)
		ends(&rows[i])
	}
}

// flood makes most numbers of many vectors unknown.
func flood(rng *rand.Rand, rows []feature.Row) {
	of, columns, prior := 0.3+0.7*rng.Float64(), 0.5+0.5*rng.Float64(), rng.IntN(2) == 0
	for i := range rows {
		if rng.Float64() >= of {
			continue
		}
		for c := range rows[i].Vector {
			if rng.Float64() < columns && (prior || c < feature.ColumnPriorTTFT) {
				rows[i].Vector[c] = float32(math.NaN())
			}
		}
	}
}

// tinyWindow has too few rows to judge anything.
func tinyWindow(rng *rand.Rand, seed uint64, now time.Time) []feature.Row {
	return clean(seed).rows(1+rng.IntN(245), now)
}

// fastErrors stores errors as if they were answers.
func fastErrors(rng *rand.Rand, rows []feature.Row) {
	of, tokens := 0.15+0.5*rng.Float64(), float64(rng.IntN(2))
	for i := range rows {
		if rng.Float64() >= of {
			continue
		}
		o := &rows[i].Outcome
		o.TTFT = feature.Seconds(0.0005 + 0.0015*rng.Float64())
		o.TPOT, o.E2E, o.OutputTokens = feature.Seconds(feature.Unknown), o.TTFT, tokens
		ends(&rows[i])
	}
}

// timeReversed lets the last decision be the first.
func timeReversed(rng *rand.Rand, rows []feature.Row) {
	first, last := rows[0].DecidedAt, rows[len(rows)-1].DecidedAt
	kind := rng.IntN(3)
	for i := range rows {
		r := &rows[i]
		took := r.Outcome.FinishedAt.Sub(r.DecidedAt)
		r.DecidedAt = first.Add(last.Sub(r.DecidedAt))
		switch kind {
		case 0: // it ended before it was decided
			r.Outcome.FinishedAt = r.DecidedAt.Add(-took)
		case 1: // its id knows better
			r.Outcome.FinishedAt = r.DecidedAt.Add(took)
		}
		r.Outcome.DecidedAt = r.DecidedAt
	}
}
