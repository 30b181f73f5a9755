package main

import (
	"math/rand/v2"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// pairs is how many random ordered pairs are compared.
const pairs = 100_000

// rounding is the share of a forecast by which arithmetic may let it fall.
const rounding = 1e-12

// violations counts the pairs of which the second, with no less load in any
// feature and more in some, has a lower forecast, p50 or p90, TTFT or TPOT, or a
// p90 below its p50. The prior is computed anew for both. Half of the pairs lie
// across the edge of what the bundle has seen.
func violations(e *bundle.Evaluator, seen []state, p physics.Profile, seed uint64) (broken, across int) {
	rng := rand.New(rand.NewPCG(seed, 0x6d6f6e6f))
	most := extremes(seen)
	vectors, out := make([]feature.Vector, 2), make([]feature.Forecast, 2)
	for n := 0; n < pairs; {
		less := seen[rng.IntN(len(seen))]
		less.request.CachedTokens = rng.Float64() * less.request.PromptTokens * float64(rng.IntN(2))
		if rng.IntN(2) == 0 {
			less.load.Profile.SpeedFactor = 0.5 + rng.Float64()
			less.load.Profile.PeakPrefillThroughput = 5_000 + 20_000*rng.Float64()
		}
		beyond := n%2 == 0
		more := raised(less, most, beyond, rng)
		vectors[0], vectors[1] = vectorOf(less, p), vectorOf(more, p)
		e.Evaluate(vectors, out)
		outside := out[0].Support == 1 && out[1].Support < 1
		if beyond && !outside {
			continue // drawn again
		}
		n++
		if outside {
			across++
		}
		if fell(out[0], out[1]) {
			broken++
		}
	}
	return broken, across
}

// numbers are the features of a state that add load, and whether a larger
// number is more of it.
func numbers(s *state) []struct {
	at *float64
	up bool
} {
	return []struct {
		at *float64
		up bool
	}{
		{&s.request.PromptTokens, true}, {&s.request.CachedTokens, false},
		{&s.load.Scraped.Waiting, true}, {&s.load.Scraped.KVUsed, true},
		{&s.load.Ledger.Requests, true}, {&s.load.Ledger.PrefillTokens, true},
		{&s.load.Profile.PeakPrefillThroughput, false},
	}
}

// extremes are the greatest of each of the numbers.
func extremes(seen []state) []float64 {
	var most []float64
	for i := range seen {
		for j, x := range numbers(&seen[i]) {
			if i == 0 {
				most = append(most, 0)
			}
			most[j] = max(most[j], known(*x.at))
		}
	}
	return most
}

func known(x float64) float64 {
	if x != x {
		return 0
	}
	return x
}

// raised is s with more load in one feature or several; beyond lifts one of
// them out of what was seen.
func raised(s state, most []float64, beyond bool, rng *rand.Rand) state {
	all := numbers(&s)
	lifted := rng.IntN(len(all))
	for j, x := range all {
		switch {
		case *x.at != *x.at:
		case !x.up:
			*x.at *= rng.Float64()
		case beyond && j == lifted:
			*x.at = max(*x.at, most[j]) * (1 + 3*rng.Float64())
		case j == lifted || rng.IntN(3) == 0:
			*x.at += rng.Float64() * rng.Float64() * max(0, most[j]-*x.at)
		}
	}
	s.load.Scraped.KVUsed = min(1, s.load.Scraped.KVUsed)
	s.request.CachedTokens = min(s.request.CachedTokens, s.request.PromptTokens)
	return s
}

func fell(a, b feature.Forecast) bool {
	for _, x := range [][2]feature.Seconds{{a.TTFT.P50, b.TTFT.P50}, {a.TTFT.P90, b.TTFT.P90}, {a.TPOT.P50, b.TPOT.P50}, {a.TPOT.P90, b.TPOT.P90}} {
		if !(float64(x[1]) >= float64(x[0])*(1-rounding)) {
			return true
		}
	}
	return !(b.TTFT.P90 >= b.TTFT.P50 && b.TPOT.P90 >= b.TPOT.P50)
}
