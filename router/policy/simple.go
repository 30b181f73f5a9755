package policy

import (
	"cmp"
	"math"
	"slices"
)

// roundRobin takes the eligible endpoints in turn. It is deterministic: the
// turn is part of the input.
func roundRobin(in *Input, out *Choice) {
	out.Index = out.eligible[in.Turn%uint64(len(out.eligible))]
	out.Probabilities[out.Index] = 1
	out.Reason = Reason{Code: InTurn}
}

// random takes any eligible endpoint.
func random(_ *Input, out *Choice) {
	p := 1 / float64(len(out.eligible))
	for _, i := range out.eligible {
		out.Probabilities[i] = p
	}
	out.Index = out.eligible[out.rng.IntN(len(out.eligible))]
	out.Reason = Reason{Code: AnyOf}
}

// leastRequest takes the endpoint with the fewest requests in flight.
func leastRequest(in *Input, out *Choice) {
	for _, i := range out.eligible {
		out.Costs[i] = in.Candidates[i].Load.Ledger.Requests
	}
	out.least(out.eligible)
	out.Reason = Reason{Code: LeastLoad, Cost: out.Costs[out.Index]}
}

// powerOfTwo draws two endpoints and takes the one with fewer requests in
// flight, the first drawn when they tie. An unknown number counts as more than
// any other. The stated probability is over both draws.
func powerOfTwo(in *Input, out *Choice) {
	n := len(out.eligible)
	for _, i := range out.eligible {
		out.Costs[i] = in.Candidates[i].Load.Ledger.Requests
	}
	first := out.rng.IntN(n)
	second := first
	if n > 1 {
		second = out.rng.IntN(n - 1)
		if second >= first {
			second++
		}
	}
	a, b := out.eligible[first], out.eligible[second]
	out.Index = a
	if out.compare(a, b) > 0 {
		out.Index = b
	}
	out.Reason = Reason{Code: LeastLoad, Cost: out.Costs[out.Index]}

	// Each wins against all that are busier, and half against its equals.
	if n == 1 {
		out.Probabilities[a] = 1
		return
	}
	out.scratch = append(out.scratch[:0], out.eligible...)
	slices.SortFunc(out.scratch, out.compare)
	pairs := float64(n) * float64(n-1) / 2
	for from := 0; from < n; {
		to := from + 1
		for to < n && out.compare(out.scratch[from], out.scratch[to]) == 0 {
			to++
		}
		wins := float64(n-to) + float64(to-from-1)/2
		for _, i := range out.scratch[from:to] {
			out.Probabilities[i] = wins / pairs
		}
		from = to
	}
}

// compare orders two candidates by cost, an unknown one last.
func (out *Choice) compare(i, j int) int {
	return cmp.Compare(knownCost(out.Costs[i]), knownCost(out.Costs[j]))
}

// knownCost turns an unknown cost into the greatest.
func knownCost(cost float64) float64 {
	if math.IsNaN(cost) {
		return math.Inf(1)
	}
	return cost
}
