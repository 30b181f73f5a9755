package policy

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
// flight; a tie is a coin toss. The stated probability is over both draws.
func powerOfTwo(in *Input, out *Choice) {
	n := len(out.eligible)
	for _, i := range out.eligible {
		out.Costs[i] = in.Candidates[i].Load.Ledger.Requests
	}
	out.Reason = Reason{Code: LeastLoad}
	if n == 1 {
		out.Index = out.eligible[0]
		out.Probabilities[out.Index] = 1
		out.Reason.Cost = out.Costs[out.Index]
		return
	}
	pairs := float64(n) * float64(n-1) / 2
	for _, i := range out.eligible {
		wins := 0.0
		for _, j := range out.eligible {
			switch {
			case i == j:
			case out.Costs[i] < out.Costs[j]:
				wins++
			case out.Costs[i] == out.Costs[j]:
				wins += 0.5
			}
		}
		out.Probabilities[i] = wins / pairs
	}
	a := out.rng.IntN(n)
	b := out.rng.IntN(n - 1)
	if b >= a {
		b++
	}
	i, j := out.eligible[a], out.eligible[b]
	out.Index = i
	if out.Costs[j] < out.Costs[i] || out.Costs[j] == out.Costs[i] && out.rng.IntN(2) == 1 {
		out.Index = j
	}
	out.Reason.Cost = out.Costs[out.Index]
}
