package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Choice is what Decide found. It may be used again for the next decision;
// its slices are as long as the Input's candidates.
type Choice struct {
	Index         int                // of the chosen candidate; -1 when there is none
	Policy        string             // that decided: the configured one, or the fallback
	Probabilities []float64          // of every candidate, over the decision's own draws; with ShedProbability they sum to 1
	Costs         []float64          // what was minimised; NaN for candidates that were not scored
	Forecasts     []feature.Forecast // corrected, with the prior as of now; NoForecast without a residual
	Explored      bool
	Held          bool // forecasts might have decided, and the canary's coin said no
	Reason        Reason

	Shed            bool            // turned away: Index is -1
	ShedProbability float64         // that it would be, over the decision's own draws
	RetryAfter      feature.Seconds // by which the best p90 TTFT misses the objective that nobody meets

	room     []feature.Seconds // of the forecast TTFTs: waiting for a sequence and KV blocks
	eligible []int             // candidates that may be chosen at all
	pool     []int             // those among them the filter left
	scratch  []int
	numbers  []float64
	other    []float64 // probabilities of what the canary did not draw
	prices   prices
	left     bool // the warm candidates, because none of them meets an objective that others meet
	rng      *rand.Rand
	source   *rand.PCG
}

// rule is one policy: it fills costs, probabilities, index and reason of a
// choice whose eligible candidates are set.
type rule func(*Input, *Choice)

// Names of the policies.
const (
	RoundRobin     = "round-robin"
	Random         = "random"
	LeastRequest   = "least-request"
	PowerOfTwo     = "power-of-two"
	WeightedBlend  = "weighted-blend"
	PredictorBlend = "predictor-blend"
	TokenLoad      = "token-load"
	ActiveRequest  = "active-request"
	CombinedLoad   = "combined-load"
	Predicted      = "predicted"
)

var rules = map[string]rule{
	RoundRobin:     roundRobin,
	Random:         random,
	LeastRequest:   leastRequest,
	PowerOfTwo:     powerOfTwo,
	WeightedBlend:  weightedBlend,
	PredictorBlend: predictorBlend,
	TokenLoad:      matched(tokenLoad),
	ActiveRequest:  matched(activeRequest),
	CombinedLoad:   matched(combinedLoad),
	Predicted:      predicted,
}

// Names returns the policies in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(rules))
	for name := range rules {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Check reports a policy that does not exist, naming those that do.
func Check(name string) error {
	if _, ok := rules[name]; !ok {
		return fmt.Errorf("no policy %q: want one of %v", name, Names())
	}
	return nil
}

// Forecasting reports whether a policy needs forecasts.
func Forecasting(name string) bool { return name == Predicted || name == PredictorBlend }

// CheckFallback reports a policy that can't be a fallback: one that needs
// forecasts or does not exist.
func CheckFallback(name string) error {
	switch name {
	case TokenLoad, ActiveRequest, CombinedLoad, RoundRobin, LeastRequest, Random, PowerOfTwo, WeightedBlend:
		return nil
	}
	return fmt.Errorf("no fallback %q: want %s, %s or %s", name, TokenLoad, ActiveRequest, CombinedLoad)
}

// Decide chooses. It reads only in, writes only out, and allocates nothing
// once out has grown to the number of candidates. An unknown policy is an
// error, as is an unfit fallback when it is needed; no candidate is a Choice
// with Index -1, as is a request that is shed.
func Decide(in *Input, out *Choice) error {
	if err := Check(in.Policy); err != nil {
		return err
	}
	out.prepare(in)
	if len(out.eligible) == 0 {
		return nil
	}
	if !Forecasting(in.Policy) {
		rules[in.Policy](in, out)
		return nil
	}
	forecasts := in.Forecasts && out.anyForecast()
	canary := forecasts && in.tosses()
	if !forecasts || canary {
		if err := CheckFallback(in.Fallback); err != nil {
			return err
		}
	}
	switch {
	case canary:
		out.canary(in)
	case forecasts:
		rules[in.Policy](in, out)
	default:
		out.Policy = in.Fallback
		rules[in.Fallback](in, out)
	}
	return nil
}

// tosses reports whether a coin says who decides, where there are forecasts.
func (in *Input) tosses() bool {
	return Forecasting(in.Policy) && in.Forecasts && in.Canary > 0 && in.Canary < 1
}

// canary draws whether forecasts or the fallback decide. The probabilities are
// over that draw too, so both say what they would do; of the one that was not
// drawn nothing else is kept.
func (out *Choice) canary(in *Input) {
	drawn, other, share := in.Policy, in.Fallback, in.Canary
	if held := out.rng.Float64() >= in.Canary; held {
		drawn, other, share = other, drawn, 1-share
		out.Held = true
	}
	rules[other](in, out)
	shed := out.ShedProbability
	out.other = append(out.other[:0], out.Probabilities...)
	out.clear(in)
	out.Policy = drawn
	rules[drawn](in, out)
	for i := range out.Probabilities {
		out.Probabilities[i] = share*out.Probabilities[i] + (1-share)*out.other[i]
	}
	out.ShedProbability = share*out.ShedProbability + (1-share)*shed
}

// prepare empties out, makes the forecasts and a source of random numbers.
func (out *Choice) prepare(in *Input) {
	n := len(in.Candidates)
	out.Policy, out.Held = in.Policy, false
	out.Forecasts = slices.Grow(out.Forecasts[:0], n)[:n]
	out.room = slices.Grow(out.room[:0], n)[:n]
	for i := range in.Candidates {
		out.Forecasts[i], out.room[i] = in.Candidates[i].forecast(&in.Request)
	}
	out.clear(in)
	if out.rng == nil {
		out.source = rand.NewPCG(0, 0)
		out.rng = rand.New(out.source)
	}
	out.source.Seed(in.Seed, 0x5349_4c4c_5741_5931)
}

// clear forgets a choice and finds the eligible candidates: those of the best
// standing there is.
func (out *Choice) clear(in *Input) {
	n := len(in.Candidates)
	out.Index, out.Explored, out.Reason = -1, false, Reason{Code: NoCandidate}
	out.Shed, out.ShedProbability, out.RetryAfter = false, 0, 0
	out.left = false
	out.Probabilities = slices.Grow(out.Probabilities[:0], n)[:n]
	out.Costs = slices.Grow(out.Costs[:0], n)[:n]
	out.eligible, out.pool, out.scratch = out.eligible[:0], out.pool[:0], out.scratch[:0]
	best := Barred
	for i := range in.Candidates {
		best = min(best, in.Candidates[i].Standing)
	}
	for i := range in.Candidates {
		out.Probabilities[i] = 0
		out.Costs[i] = math.NaN()
		if in.Candidates[i].Standing == best && best != Barred {
			out.eligible = append(out.eligible, i)
		}
	}
}

// anyForecast reports whether an eligible candidate has a forecast.
func (out *Choice) anyForecast() bool {
	return slices.ContainsFunc(out.eligible, func(i int) bool { return out.Forecasts[i].Known() })
}

// forecast applies the bundle's residual and the online correction to the
// prior as of now. It also says how much of the TTFT is waiting for room.
func (c *Candidate) forecast(r *Request) (f feature.Forecast, room feature.Seconds) {
	if !c.Residual.Known() {
		return feature.NoForecast, 0
	}
	p := c.Prior(r)
	f = feature.Forecast{Residual: c.Residual, Support: feature.Unknown}
	f.TTFT = apply(p.TTFT, c.Residual.TTFT, c.Correction.TTFT)
	f.TPOT = apply(p.TPOT, c.Residual.TPOT, c.Correction.TPOT)
	if p.Admission > 0 && p.TTFT > 0 {
		room = f.TTFT.P50 * p.Admission / p.TTFT
	}
	return f, room
}

func apply(prior feature.Seconds, residual, correction feature.LogQuantiles) feature.Quantiles {
	q := feature.Quantiles{
		P50: prior * feature.Seconds(math.Exp(residual.P50+correction.P50)),
		P90: prior * feature.Seconds(math.Exp(residual.P90+correction.P90)),
	}
	q.P90 = max(q.P90, q.P50)
	return q
}

// least chooses the candidate of set with the least cost, exact ties at
// random. Costs of the set must be filled in.
func (out *Choice) least(set []int) {
	out.scratch = out.scratch[:0]
	best := math.Inf(1)
	for _, i := range set {
		switch cost := out.Costs[i]; {
		case cost < best:
			best = cost
			out.scratch = append(out.scratch[:0], i)
		case cost == best:
			out.scratch = append(out.scratch, i)
		}
	}
	if len(out.scratch) == 0 { // nothing comparable: all alike
		out.scratch = append(out.scratch, set...)
	}
	p := 1 / float64(len(out.scratch))
	for _, i := range out.scratch {
		out.Probabilities[i] = p
	}
	out.Index = out.scratch[0]
	if len(out.scratch) > 1 {
		out.Index = out.scratch[out.rng.IntN(len(out.scratch))]
	}
}
