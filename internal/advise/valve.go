package advise

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
)

// Valve says when a request may leave its warm endpoint.
type Valve struct {
	// Penalty is by how much longer a request may wait for its first token at its
	// warm endpoint than at the best other: what the operator permits.
	Penalty feature.Seconds `json:"max_ttft_penalty_seconds"`
	// Predicted is the same of predicted, on forecasts.
	Predicted feature.Seconds `json:"predicted_ttft_penalty_seconds"`
	// Throughput is the calibrated peak prefill throughput, tokens/s, and Tokens
	// the difference in uncached tokens in flight at which the valve of the matched
	// configurations opens.
	Throughput float64 `json:"peak_prefill_throughput"`
	Tokens     float64 `json:"tokens"`

	// Saved is the prefill time that caches saved a request that found something
	// there, at the median and the 90th percentile; NaN where nobody did. A request
	// that leaves pays it.
	Saved    feature.Seconds `json:"saved_p50_seconds"`
	SavedP90 feature.Seconds `json:"saved_p90_seconds"`
	Says     string          `json:"says"`
}

// NewValve is the valve of endpoints of that profile for an operator who permits
// that much more TTFT. It is an error where that is not above 0.
func NewValve(p physics.Profile, permitted feature.Seconds) (Valve, error) {
	if !(permitted > 0) || math.IsInf(float64(permitted), 0) {
		return Valve{}, fmt.Errorf("a TTFT penalty of %v s: want more than 0", permitted)
	}
	unknown := feature.Seconds(feature.Unknown)
	return Valve{
		Penalty: permitted, Predicted: min(permitted, policy.Defaults().PredictedPenalty),
		Throughput: p.PeakPrefillThroughput, Tokens: float64(permitted) * p.PeakPrefillThroughput,
		Saved: unknown, SavedP90: unknown,
	}, nil
}

// settings are those of a router with the valve.
func (v *Valve) settings() policy.Settings {
	s := policy.Defaults()
	s.MaxTTFTPenalty, s.PredictedPenalty, s.DefaultThroughput = v.Penalty, v.Predicted, v.Throughput
	return s
}

// worth fills in what staying saves.
func (v *Valve) worth(u *use) {
	var saved []float64
	for i := range u.parts {
		if s := u.parts[i].saved; s > 0 {
			saved = append(saved, s)
		}
	}
	slices.Sort(saved)
	v.Saved, v.SavedP90 = feature.Seconds(at(saved, 0.5)), feature.Seconds(at(saved, 0.9))
	v.Says = fmt.Sprintf("opens at %.0f uncached tokens in flight more than elsewhere: %.3g s at %.0f tokens/s", v.Tokens, v.Penalty, v.Throughput)
	switch {
	case feature.IsUnknown(float64(v.Saved)):
		v.Says += "; no prompt was found cached, so it has nothing to hold"
	case v.Penalty < v.SavedP90:
		v.Says += fmt.Sprintf("; that is less than the %.2g s of prefill that a warm cache saves every tenth request: such requests leave for longer than they would have waited", v.SavedP90)
	default:
		v.Says += fmt.Sprintf("; a warm cache saves %.2g s of prefill (median), %.2g s (p90)", v.Saved, v.SavedP90)
	}
}
