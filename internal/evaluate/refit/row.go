package refit

import (
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// A Row is a request that can be learned from and judged.
type Row struct {
	Sample learn.Sample
	Case   evaluate.Case // without forecasts
}

// RowOf is the row of a decision and its outcome, with column loadColumn of the
// vector as the load; the reason when it is none.
func RowOf(logged *feature.Row, loadColumn int) (Row, evaluate.LeftOut) {
	c, why := evaluate.Observed(logged, loadColumn)
	if why != "" {
		return Row{}, why
	}
	if !feature.IsUnknown(c.CensoredAt) {
		return Row{}, evaluate.Aborted
	}
	s, ok := learn.SampleOf(logged)
	if !ok {
		return Row{}, evaluate.Unmeasured
	}
	return Row{s, c}, ""
}

// Measured makes rows of others' measurements, which tell what was known at
// dispatch but neither time nor endpoint: they are taken to be of one endpoint
// with profile p, and their times count them. What the prior needs and a row does
// not tell counts as nothing there. Rows without a latency are left out.
func Measured(dispatches []measured.Dispatch, p physics.Profile, loadColumn int) []Row {
	var rows []Row
	for i, d := range dispatches {
		request, load := d.State()
		vector := feature.Of(request, load, priorOf(request, load, p))
		at := evaluate.Counted(i)
		s, ok := learn.Measured(learn.Sample{Decided: at, Finished: at, Vector: vector}, d.TTFT, d.TPOT)
		if !ok {
			continue
		}
		rows = append(rows, Row{s, evaluate.Case{
			At: at, PromptTokens: d.PromptTokens, Load: float64(vector[loadColumn]),
			TTFT: d.TTFT, TPOT: d.TPOT, CensoredAt: feature.Seconds(feature.Unknown),
		}})
	}
	return rows
}

func priorOf(request feature.Request, load feature.Load, p physics.Profile) feature.Prior {
	request.Completions = 1
	load.Ledger.Decoding, load.Ledger.ContextTokens = 0, 0
	load.Profile.MaxBatchedTokens = float64(p.MaxBatchedTokens)
	return physics.Estimate(p.Coefficients, request, load)
}
