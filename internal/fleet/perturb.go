package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/physics"
)

// Bounds of what Perturb does: factors around 1, log-uniform, and a request
// overhead around the 33 ms that a measured idle TTFT has beyond its prefill
// (vLLM on H200, llm-d latency predictor rows).
const (
	perturbMin, perturbMax   = 0.8, 1.25
	overheadMin, overheadMax = 20 * time.Millisecond, 100 * time.Millisecond
)

// Perturb returns the engine that stands at the given index of a fleet whose
// engines are only nearly what their profile says: every coefficient is
// multiplied by its own factor from 0.8 to 1.25, and every request is held for
// an overhead of 20 to 100 ms before it joins the line. The same seed and index
// give the same engine. Whoever forecasts for it is told neither.
func Perturb(p physics.Profile, seed uint64, index int) (physics.Profile, time.Duration) {
	rng := rand.New(rand.NewPCG(seed, uint64(index)))
	factor := func() float64 {
		lo, hi := math.Log(perturbMin), math.Log(perturbMax)
		return math.Exp(lo + rng.Float64()*(hi-lo))
	}
	c := &p.Coefficients
	for _, x := range []*float64{&c.A, &c.B, &c.C, &c.D, &c.E} {
		*x *= factor()
	}
	p.Source = fmt.Sprintf("%s; perturbed with seed %d, index %d", p.Source, seed, index)
	return p, overheadMin + time.Duration(rng.Int64N(int64(overheadMax-overheadMin)+1))
}
