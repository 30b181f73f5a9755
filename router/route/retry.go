package route

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// options are the endpoints that a decision chose from, with what it thought of
// them side by side.
type options struct {
	endpoints []*endpoint  // see scratch.known
	costs     []float64    // NaN where the policy did not score
	forecasts []forecastOf // of many endpoints few have one
}

type forecastOf struct {
	endpoint string
	feature.Forecast
}

// forecast is what the decision forecast of an endpoint.
func (o *options) forecast(endpoint string) feature.Forecast {
	for i := range o.forecasts {
		if o.forecasts[i].endpoint == endpoint {
			return o.forecasts[i].Forecast
		}
	}
	return feature.NoForecast
}

// Cause says why a request is moved to another endpoint.
type Cause string

// The causes that a front door may give.
const (
	Unreachable Cause = "connect"     // no connection
	Reset       Cause = "reset"       // the connection ended before an answer
	BadGateway  Cause = "bad_gateway" // HTTP 502
	Overloaded  Cause = "unavailable" // HTTP 503: the endpoint is well and says that it has enough
)

// Causes lists all of them, for metrics.
var Causes = []Cause{Unreachable, Reset, BadGateway, Overloaded}

// Retry moves the request to the next best endpoint of the same decision after
// the first one failed before its first byte, and tells the pool of the
// failure, unless that was overload alone. It reports false, and moves nothing, when there is no other, when a
// retry was made before, and once a token came.
func (t *Ticket) Retry(why Cause) bool {
	if t.ended || t.first {
		return false
	}
	r := t.router
	failed := t.endpoint.id
	if why != Overloaded && !t.reported {
		t.reported = true
		r.pool.ReportFailure(failed)
	}
	if t.attempt > 1 || !t.move() {
		return false
	}
	if r.log.Enabled(context.Background(), slog.LevelDebug) {
		r.log.Debug("retrying on another endpoint", "decision", t.id.String(), "from", failed, "to", t.endpoint.id, "reason", string(why))
	}
	return true
}

// move charges the ticket to the next best endpoint instead of its own, and
// claims the prefix there.
func (t *Ticket) move() bool {
	r := t.router
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sync()
	next := t.nextBest(now)
	if next == nil {
		return false
	}
	t.moveTo(next, t.others.forecast(next.id), now)
	return true
}

// moveTo charges the ticket to next instead, of which the decision forecast
// so much. Called under router.mu.
func (t *Ticket) moveTo(next *endpoint, corrected feature.Forecast, now time.Time) {
	r := t.router
	t.unclaim()
	t.settle()
	t.endpoint, t.url = next, next.state.URL
	t.claim()
	t.attempt++
	t.others = options{}
	t.corrected, t.plain = corrected, feature.NoForecast // made for another moment: nothing is learned from it
	t.entry.UncachedTokens = t.entry.PromptTokens        // what it holds was not asked
	t.believed, t.known, t.follows = belief{}, len(t.chain), 0
	t.work = float64(next.profile.Coefficients.Work(t.prompt, t.prompt))
	t.reported, t.sentAt = false, time.Time{}
	t.charge(now)
	r.metrics.lastResort(r.standing(next.state, now))
}

// nextBest is the best other endpoint that the present pool has: of the best
// standing, of the least cost at the decision, of the fewest requests in
// flight now.
func (t *Ticket) nextBest(now time.Time) *endpoint {
	r := t.router
	var best *endpoint
	var its rank
	for i, was := range t.others.endpoints {
		e := r.still(was)
		if e == nil || e.id == t.endpoint.id || !serves(e.state, t.query.LLM) {
			continue
		}
		rank := rank{
			standing: r.standing(e.state, now),
			cost:     unscoredLast(t.others.costs[i]),
			requests: e.look(r, now).load.Ledger.Requests,
		}
		if rank.standing != policy.Barred && (best == nil || rank.before(its)) {
			best, its = e, rank
		}
	}
	return best
}

// rank orders endpoints for a retry.
type rank struct {
	standing policy.Standing
	cost     float64 // see unscoredLast
	requests float64
}

func (a rank) before(b rank) bool {
	return cmp.Or(
		cmp.Compare(a.standing, b.standing),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(a.requests, b.requests),
	) < 0
}

// unscoredLast is a cost in an order that has what was not scored at its end.
func unscoredLast(cost float64) float64 {
	if math.IsNaN(cost) {
		return math.Inf(1)
	}
	return cost
}
