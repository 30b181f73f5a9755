package policy

import (
	"math"
	"slices"
)

// Shortlist finds the candidates that are worth a forecast. It may be used
// again; the zero value is ready.
type Shortlist struct {
	order []int
	costs []float64
}

// Choose returns the candidates to forecast in ascending order: the k that
// cost least under the prior, the better standing first, and all warm ones;
// every candidate for k = 0. The slice is valid until the next call.
func (s *Shortlist) Choose(in *Input, k int) []int {
	n := len(in.Candidates)
	s.order = s.order[:0]
	for i := range n {
		s.order = append(s.order, i)
	}
	if k <= 0 || n <= k {
		return s.order
	}
	s.costs = s.costs[:0]
	for i := range n {
		s.costs = append(s.costs, priorCost(in, i))
	}
	slices.SortFunc(s.order, func(a, b int) int { // no cost is NaN
		switch {
		case s.costs[a] < s.costs[b]:
			return -1
		case s.costs[a] > s.costs[b]:
			return 1
		}
		return a - b // as they stand
	})
	rest := s.order[k:]
	for _, i := range rest {
		if Sticky(in, i) {
			s.order[k] = i // rest is read ahead of where this writes
			k++
		}
	}
	s.order = s.order[:k]
	slices.Sort(s.order)
	return s.order
}

// priorCost orders candidates by standing, then by the seconds the prior
// gives.
func priorCost(in *Input, i int) float64 {
	const perStanding = 1e6 // more seconds than any request takes
	c := &in.Candidates[i]
	p := c.Prior(&in.Request)
	cost := float64(p.TTFT) + float64(p.TPOT)*in.Request.ExpectedOutputTokens
	if math.IsNaN(cost) {
		cost = math.Inf(1)
	}
	return min(cost, perStanding/2) + float64(c.Standing)*perStanding
}
