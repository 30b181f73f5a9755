package workload

import "time"

// Rising plans an open loop whose load changes: each of the loads for as long
// as the next, without a pause. The plan's Stages tell them apart; the first
// one's warm-up does not count. Of a closed loop, or with a load that Check
// refuses, it is empty.
func (s Spec) Rising(seed uint64, loads []float64, each time.Duration) Plan {
	plan := Plan{Workers: s.Workers, Warmup: s.Warmup, Timeout: s.Timeout, Sessions: func(func(Session) bool) {}}
	if s.Closed || s.staged || each <= 0 {
		return plan
	}
	for i, load := range loads {
		if s.Check(load) != nil {
			return Plan{Sessions: plan.Sessions}
		}
		from := time.Duration(i) * each
		plan.Stages = append(plan.Stages, Stage{Load: load, From: max(from, min(s.Warmup, each)), To: from + each})
	}
	plan.Sessions = arrivals(seed, func(yield func(span) bool) {
		for _, load := range loads {
			if !s.spans(load, each, yield) {
				return
			}
		}
	})
	return plan
}
