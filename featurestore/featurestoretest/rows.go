package featurestoretest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Decision makes a decision as a store returns it, with the given number of
// candidates, of which it chose one; with 0 candidates it was shed. Same rng,
// same decision. Some of its numbers are unknown.
func Decision(rng *rand.Rand, at time.Time, llm string, candidates int) feature.Decision {
	at = time.UnixMicro(at.UnixMicro()).UTC()
	d := feature.Decision{
		ID: NewID(rng, at), DecidedAt: at, LLM: llm, Router: "router-0", Mode: "live",
		Policy: "predicted", PolicyVersion: 1 + rng.IntN(3), Bundle: rng.Int64N(100), Schema: feature.Schema,
		State: "live", Reason: "least cost",
		PromptTokens: float64(rng.IntN(30_000)), ExpectedOutputTokens: float64(rng.IntN(2_000)),
		SLOTTFT: seconds(rng), SLOTPOT: seconds(rng), Priority: rng.IntN(5) - 2,
		ChosenVector: unknownVector(), Propensity: feature.Unknown, Explored: rng.IntN(20) == 0,
		Complete: true, RestCostMin: feature.Unknown, RestCostMax: feature.Unknown,
		Epoch: rng.Uint64(), Seed: rng.Uint64(),
		States: binary.LittleEndian.AppendUint64(nil, rng.Uint64()),
	}
	if rng.IntN(4) > 0 {
		d.PromptDigest = []byte{1, 1, 0, byte(rng.Uint32()), 0, 255, 7}
	}
	if rng.IntN(4) > 0 {
		d.Experiment, d.Arm = "split share=0.05 arms=fallback|predicted", "predicted"
	}
	for i := range candidates {
		d.Candidates = append(d.Candidates, feature.Candidate{
			Endpoint: fmt.Sprintf("http://10.0.0.%d:8000", i), Class: "h100-tp2",
			Vector: vector(rng), Forecast: forecast(rng), Corrected: forecast(rng),
			Cost: float64(seconds(rng)), Probability: 1 / float64(candidates),
		})
	}
	if candidates > 0 {
		c := d.Candidates[rng.IntN(candidates)]
		d.Chosen, d.ChosenClass, d.ChosenVector, d.Propensity = c.Endpoint, c.Class, c.Vector, c.Probability
	}
	return d
}

// Outcome makes the outcome of d as a store returns it.
func Outcome(rng *rand.Rand, d feature.Decision) feature.Outcome {
	return feature.Outcome{
		Decision: d.ID, DecidedAt: d.DecidedAt, Attempt: 1, Status: feature.OK, HTTPStatus: 200,
		TTFT: feature.Seconds(rng.ExpFloat64()), TPOT: seconds(rng), E2E: feature.Seconds(10 * rng.ExpFloat64()),
		OutputTokens: float64(rng.IntN(2_000)), CachedTokens: float64(seconds(rng)),
		Endpoint: d.Chosen, CensoredAt: feature.Seconds(feature.Unknown),
		FinishedAt: d.DecidedAt.Add(time.Duration(rng.IntN(60_000)) * time.Millisecond),
	}
}

// NewID makes a UUIDv7 of the given time (RFC 9562, section 5.7).
func NewID(rng *rand.Rand, at time.Time) feature.ID {
	var id feature.ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|rng.Uint64()&0xffff)
	binary.BigEndian.PutUint64(id[8:], rng.Uint64())
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// seconds is unknown now and then.
func seconds(rng *rand.Rand) feature.Seconds {
	if rng.IntN(4) == 0 {
		return feature.Seconds(feature.Unknown)
	}
	return feature.Seconds(rng.ExpFloat64())
}

func vector(rng *rand.Rand) feature.Vector {
	v := unknownVector()
	for i := range v {
		switch rng.IntN(8) {
		case 0: // unknown
		case 1:
			v[i] = math.Float32frombits(1 + rng.Uint32N(1000)) // tiny, below the normal range
		case 2:
			v[i] = float32(math.Copysign(0, -1))
		default:
			v[i] = rng.Float32() * 1000
		}
	}
	return v
}

func unknownVector() (v feature.Vector) {
	for i := range v {
		v[i] = float32(feature.Unknown)
	}
	return v
}

func forecast(rng *rand.Rand) feature.Forecast {
	if rng.IntN(4) == 0 {
		return feature.NoForecast
	}
	return feature.Forecast{
		TTFT: feature.Quantiles{P50: feature.Seconds(rng.Float64()), P90: feature.Seconds(1 + rng.Float64())},
		TPOT: feature.Quantiles{P50: feature.Seconds(rng.Float64()), P90: feature.Seconds(1 + rng.Float64())},
		Residual: feature.Residual{
			TTFT: feature.LogQuantiles{P50: rng.NormFloat64(), P90: rng.NormFloat64()},
			TPOT: feature.LogQuantiles{P50: rng.NormFloat64(), P90: rng.NormFloat64()},
		},
		Support: rng.Float64(),
	}
}
