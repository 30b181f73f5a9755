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
	t.router.mu.Lock()
	defer t.router.mu.Unlock()
	return t.fallbacks(n, time.Now())
}

// fallbacks lists the addresses of the best n other endpoints. Called under
// router.mu.
//
// Few are looked at: what costs more than the n best so far can't be one of them,
// unless its standing is better.
func (t *Ticket) fallbacks(n int, now time.Time) []string {
	r := t.router
	best := make([]string, 0, n+1)
	ranks := make([]rank, 0, n+1)
	for i, was := range t.others.endpoints {
		cost := unscoredLast(t.others.costs[i])
		if len(best) == n && ranks[n-1].standing == policy.Good && cost > ranks[n-1].cost {
			continue
		}
		e := r.still(was)
		if e == nil || e.address == t.endpoint.address || !serves(e.state, t.query.LLM) {
			continue
		}
		its := rank{r.standing(e.state, now), cost, e.look(r, now).load.Ledger.Requests}
		if its.standing == policy.Barred {
			continue
		}
		at := len(ranks)
		for at > 0 && its.before(ranks[at-1]) {
			at--
		}
		if at < n {
			best, ranks = slices.Insert(best, at, e.address), slices.Insert(ranks, at, its)
			best, ranks = best[:min(n, len(best))], ranks[:min(n, len(ranks))]
		}
	}
	return best
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
