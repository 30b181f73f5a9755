package fit

import (
	"cmp"
	"fmt"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
)

// batchRows is the least number of rows that can decide five numbers.
const batchRows = 6

// Batches fits rows of one deployment in which s sequences started together
// and ended together:
//
//	prefill = A + B*s*prompt + C*s*prompt^2/2
//	step    = A + D*s + E*s*(prompt + output/2)
func Batches(rows []measured.Batch) (physics.Coefficients, error) {
	if len(rows) < batchRows {
		return physics.Coefficients{}, fmt.Errorf("%d static batches: want at least %d of one deployment", len(rows), batchRows)
	}
	var equations []equation
	for _, r := range rows {
		least, most := prefill(r.PromptTokens, r.Sequences)
		equations = append(equations,
			equation{value: float64(r.Prefill), of: float64(r.Prefill), kind: ofTTFT, parts: []float64{1, least, most, 0, 0}},
			equation{value: float64(r.Step), of: float64(r.Step), kind: ofTPOT, parts: []float64{1, 0, 0, r.Sequences, r.Sequences * (r.PromptTokens + r.OutputTokens/2)}})
	}
	x := robust(equations, 5)
	c := coefficients(x[0], x[1], x[2], x[3], x[4])
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("the rows do not describe an engine: %w", err)
	}
	return c, nil
}

// PredictBatch is the prefill (as TTFT) and the mean step (as TPOT) of a
// static batch.
func PredictBatch(c physics.Coefficients, r measured.Batch) feature.Prior {
	return feature.Prior{
		TTFT: feature.Seconds(c.A) + feature.Seconds(r.Sequences)*c.Work(r.PromptTokens, r.PromptTokens),
		TPOT: c.Step(r.Sequences, r.Sequences*(r.PromptTokens+r.OutputTokens/2)),
	}
}

// CrossBatches predicts every row from a fit without the settings of its fold.
// Groups: All, and the number of sequences.
func CrossBatches(rows []measured.Batch) (Errors, error) {
	type setting struct{ prompt, output, sequences float64 }
	of := func(r measured.Batch) setting { return setting{r.PromptTokens, r.OutputTokens, r.Sequences} }
	var settings []setting
	for _, r := range rows {
		settings = append(settings, of(r))
	}
	fold := shuffled(settings, func(a, b setting) int {
		return cmp.Or(cmp.Compare(a.prompt, b.prompt), cmp.Compare(a.output, b.output), cmp.Compare(a.sequences, b.sequences))
	})
	var all Errors
	for k := range folds {
		train, test := split(rows, func(_ int, r measured.Batch) bool { return fold[of(r)] == k })
		if len(test) == 0 {
			continue
		}
		c, err := Batches(train)
		if err != nil {
			return all, fmt.Errorf("without fold %d: %w", k+1, err)
		}
		for _, r := range test {
			all.Add(PredictBatch(c, r), feature.Prior{TTFT: r.Prefill, TPOT: r.Step}, All, fmt.Sprintf("batch %g", r.Sequences))
		}
	}
	return all, nil
}
