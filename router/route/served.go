package route

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
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
	if n <= 0 {
		return nil
	}
	r := t.router
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	type choice struct {
		address string
		rank    rank
	}
	var best []choice // in order, n at most
	for i := range t.others {
		o := &t.others[i]
		e := r.endpoints[o.endpoint]
		if e == nil || e == t.endpoint || e.address == t.endpoint.address || !serves(e.state, t.query.LLM) {
			continue
		}
		c := choice{e.address, rank{standing: r.standing(e.state, now), cost: o.cost}}
		if c.rank.standing == policy.Barred || len(best) == n && c.rank.after(best[n-1].rank) {
			continue
		}
		c.rank.requests = r.ledger.State(e.id, e.incarnation, now, e.state.ScrapedAt).Requests
		at, _ := slices.BinarySearchFunc(best, c, func(a, b choice) int {
			if a.rank.before(b.rank) {
				return -1
			}
			return 1
		})
		if len(best) == n {
			if at == n {
				continue
			}
			best = best[:n-1]
		}
		best = slices.Insert(best, at, c)
	}
	addresses := make([]string, len(best))
	for i := range best {
		addresses[i] = best[i].address
	}
	return addresses
}

// after reports whether a comes after b whatever is in flight.
func (a rank) after(b rank) bool {
	a.requests, b.requests = 0, 0
	return b.before(a)
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
	next, corrected := r.present[at], feature.NoForecast
	for i := range t.others {
		if t.others[i].endpoint == next.id {
			corrected = t.others[i].corrected
		}
	}
	t.moveTo(next, corrected, time.Now())
	return true
}
