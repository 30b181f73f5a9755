package policy

import "math"

// Shortlist finds the candidates that are worth a forecast. It may be used
// again; the zero value is ready.
type Shortlist struct {
	order []int
	costs []float64 // of all
	least []float64 // the k least of them, ascending
}

// Choose returns the candidates to forecast in ascending order: the k that
// cost least under the prior, the better standing first, and all warm ones;
// every candidate for k = 0. Of those that cost the same the first come first.
// The slice is valid until the next call.
func (s *Shortlist) Choose(in *Input, k int) []int {
	n := len(in.Candidates)
	s.order = s.order[:0]
	if k <= 0 || n <= k {
		for i := range n {
			s.order = append(s.order, i)
		}
		return s.order
	}
	s.costs, s.least = s.costs[:0], s.least[:0]
	for i := range n {
		cost := priorCost(in, i) // never NaN
		s.costs = append(s.costs, cost)
		s.keep(cost, k)
	}
	most := s.least[k-1]
	alike := k // of those that cost as much, how many are among the k
	for alike > 0 && s.least[k-alike] < most {
		alike--
	}
	for i, cost := range s.costs {
		chosen := cost < most
		if cost == most && alike > 0 {
			alike--
			chosen = true
		}
		if chosen || Sticky(in, i) {
			s.order = append(s.order, i)
		}
	}
	return s.order
}

// keep puts a cost among the k least, if it is one of them. Few are: a sort of
// all takes three times as long.
func (s *Shortlist) keep(cost float64, k int) {
	if len(s.least) < k {
		s.least = append(s.least, cost)
	} else if cost >= s.least[k-1] {
		return
	}
	at := len(s.least) - 1
	for ; at > 0 && s.least[at-1] > cost; at-- {
		s.least[at] = s.least[at-1]
	}
	s.least[at] = cost
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
