package measured

import (
	"encoding/json"
	"io"
	"iter"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Dispatch is one request, the load of its endpoint as a router knew it when
// it sent the request there, and what came of it. Unknown is NaN.
type Dispatch struct {
	PromptTokens   float64
	UncachedTokens float64
	OutputTokens   float64 // expected; NaN when nothing was known
	InFlight       float64 // requests sent there and not ended, queue included
	Waiting        float64 // those in the engine's queue
	PrefillTokens  float64 // uncached prompt tokens of requests without a first token
	KVUsed         float64 // share of the KV cache, 0 to 1
	TTFT           feature.Seconds
	TPOT           feature.Seconds
}

// LatencyPredictor reads the training rows of llm-d's latency predictor: JSON
// lines in order of completion. Each request gives two rows, one with a TTFT
// and one with a TPOT; the other number is 0 there, which here is unknown.
func LatencyPredictor(r io.Reader) iter.Seq2[Dispatch, error] {
	return read(r, func(line []byte) (Dispatch, error) {
		var row struct {
			KVUsed   *float64 `json:"kv_cache_percentage"`
			Prompt   *float64 `json:"input_token_length"`
			Waiting  *float64 `json:"num_request_waiting"`
			InFlight *float64 `json:"num_request_running"`
			TTFT     *float64 `json:"actual_ttft_ms"`
			TPOT     *float64 `json:"actual_tpot_ms"`
			Prefill  *float64 `json:"prefill_tokens_in_flight"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return Dispatch{}, err
		}
		for _, x := range []struct {
			name        string
			value       *float64
			least, most float64
		}{
			{"kv_cache_percentage", row.KVUsed, 0, 1},
			{"input_token_length", row.Prompt, 1, maxTokens},
			{"num_request_waiting", row.Waiting, 0, maxTokens},
			{"num_request_running", row.InFlight, 0, maxTokens},
			{"actual_ttft_ms", row.TTFT, 0, 1000 * maxSeconds},
			{"actual_tpot_ms", row.TPOT, 0, 1000 * maxSeconds},
			{"prefill_tokens_in_flight", row.Prefill, 0, maxTokens},
		} {
			if err := within(x.name, x.value, x.least, x.most); err != nil {
				return Dispatch{}, err
			}
		}
		return Dispatch{
			PromptTokens: *row.Prompt, UncachedTokens: *row.Prompt, OutputTokens: feature.Unknown,
			InFlight: *row.InFlight, Waiting: *row.Waiting, PrefillTokens: *row.Prefill, KVUsed: *row.KVUsed,
			TTFT: positive(*row.TTFT / 1000), TPOT: positive(*row.TPOT / 1000),
		}, nil
	})
}

// positive is v, or unknown where there is nothing to measure.
func positive(v float64) feature.Seconds {
	if v > 0 {
		return feature.Seconds(v)
	}
	return feature.Seconds(feature.Unknown)
}
