package route

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/router/policy"
)

// Address is the ip:port of the endpoint that serves.
func (t *Ticket) Address() string {
	t.router.mu.Lock()
	defer t.router.mu.Unlock()
	return t.endpoint.address
}

// Fallbacks lists the addresses of up to n endpoints to try, in order, should
// the one that was chosen not be reached: those that Retry would take. Nothing
// is charged to them.
func (t *Ticket) Fallbacks(n int) []string {
	n = min(n, len(t.others.endpoints)-1)
	if n <= 0 {
		return nil
	}
	r := t.router
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if best, sure := t.fallbacks(cheapest(t.others.costs, n+spareFallbacks), n, now); sure {
		return best
	}
	all := make([]int, len(t.others.endpoints))
	for i := range all {
		all[i] = i
	}
	best, _ := t.fallbacks(all, n, now)
	return best
}

// spareFallbacks is how many more are looked at than are wanted: the endpoint
// that was chosen is among the cheapest, and others may have left.
const spareFallbacks = 4

// cheapest finds the k least costs, in order; what was not scored is last. Of
// equal ones the first come first.
func cheapest(costs []float64, k int) []int {
	best := make([]int, 0, k+1)
	for i, cost := range costs {
		cost = unscoredLast(cost)
		if len(best) == k && cost >= unscoredLast(costs[best[k-1]]) {
			continue
		}
		at := len(best)
		for at > 0 && cost < unscoredLast(costs[best[at-1]]) {
			at--
		}
		best = slices.Insert(best, at, i)
		best = best[:min(k, len(best))]
	}
	return best
}

// fallbacks lists the best n among some of the options, and reports whether they are the
// best of all, if these options are the cheapest: enough, all of good standing,
// and no two that cost the same. Called under router.mu.
func (t *Ticket) fallbacks(among []int, n int, now time.Time) (addresses []string, sure bool) {
	type choice struct {
		address string
		rank    rank
	}
	r := t.router
	best := make([]choice, 0, len(among))
	for _, i := range among {
		e := r.endpoints[t.others.endpoints[i].id]
		if e == nil || e == t.endpoint || e.address == t.endpoint.address || !serves(e.state, t.query.LLM) {
			continue
		}
		standing := r.standing(e.state, now)
		if standing == policy.Barred {
			continue
		}
		requests := e.look(r, now).load.Ledger.Requests
		best = append(best, choice{e.address, rank{standing, t.others.costs[i], requests}})
	}
	slices.SortStableFunc(best, func(a, b choice) int {
		switch {
		case a.rank.before(b.rank):
			return -1
		case b.rank.before(a.rank):
			return 1
		}
		return 0
	})
	sure = len(best) > n
	for i := range min(n+1, len(best)) {
		sure = sure && best[i].rank.standing == policy.Good && (i == 0 || best[i-1].rank.cost < best[i].rank.cost)
	}
	for _, c := range best[:min(n, len(best))] {
		addresses = append(addresses, c.address)
	}
	return addresses, sure
}

// Served says which endpoint really serves, where that is not for the router
// to decide: the accounting moves to the endpoint of that address. When it was
// handed over there is not known, so its TTFT and E2E are not either. It reports
// false, and moves nothing, when the ticket is there already, when no endpoint
// of that address may serve the request, and once a token came.
func (t *Ticket) Served(address string) bool {
	if t.ended || t.first {
		return false
	}
	r := t.router
	r.mu.Lock()
	defer r.mu.Unlock()
	if address == t.endpoint.address {
		return false
	}
	r.sync()
	at := slices.IndexFunc(r.present, func(e *endpoint) bool {
		return e.address == address && serves(e.state, t.query.LLM)
	})
	if at < 0 {
		return false
	}
	next := r.present[at]
	t.moveTo(next, t.others.forecast(next.id), time.Now())
	return true
}
