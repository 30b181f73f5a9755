package fit

import (
	"fmt"

	"github.com/spillway-llm/spillway/internal/physics"
)

// Note says of a profile's coefficients where they come from: what was fitted,
// and the median errors on rows that the fit had not seen.
func Note(what string, rows int, held Quality) string {
	return fmt.Sprintf("%s, %d rows; held-out median error TTFT %.1f %% (%d rows), TPOT %.1f %% (%d rows)",
		what, rows, 100*held.TTFT.Median, held.TTFT.Rows, 100*held.TPOT.Median, held.TPOT.Rows)
}

// Limits is what an engine's configuration says and rows do not tell.
type Limits struct {
	MaxBatchedTokens int // token budget of one step
	MaxNumSeqs       int // most sequences in one batch
	KVCapacityTokens int // tokens the cache holds
	BlockTokens      int // tokens of one block
}

// StepNoise is the standard deviation of the relative step time that fitted
// profiles carry: steady states average it away, so it is not fitted. 3 % is
// what both studies behind the routing rules used.
const StepNoise = 0.03

// Profile puts coefficients and limits together. The peak prefill throughput is
// PeakPrefill of them.
func Profile(name, source string, c physics.Coefficients, l Limits) (physics.Profile, error) {
	p := physics.Profile{
		Name: name, Source: source, Coefficients: c,
		MaxBatchedTokens: l.MaxBatchedTokens, MaxNumSeqs: l.MaxNumSeqs, KVCapacityTokens: l.KVCapacityTokens, BlockTokens: l.BlockTokens,
		NoiseStdDev: StepNoise,
	}
	if l.MaxBatchedTokens > 0 {
		p.PeakPrefillThroughput = PeakPrefill(c, l.MaxBatchedTokens)
	}
	return p, p.Check()
}
