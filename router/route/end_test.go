package route_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

func TestEveryEndSettlesOnceAndTellsThePool(t *testing.T) {
	const failure, success = "failure", "success"
	for _, c := range []struct {
		name string
		end  route.End
		told string
	}{
		{"served", served(1000, 10), success},
		{"client left", ended(feature.ClientAbort, 0), ""},
		{"client left in the middle", ended(feature.ClientAbort, 200), ""},
		{"refused by the endpoint", ended(feature.UpstreamError, 400), ""},
		{"too many for the endpoint", ended(feature.UpstreamError, 429), ""},
		{"redirected", ended(feature.UpstreamError, 307), ""},
		{"failed", ended(feature.UpstreamError, 500), failure},
		{"unreachable", ended(feature.UpstreamError, 502), failure},
		{"overloaded", ended(feature.UpstreamError, 503), ""},
		{"told of an error in its answer", route.End{Status: feature.UpstreamError, HTTPStatus: 200, ErrorInside: true}, ""},
		{"broke in the middle", ended(feature.UpstreamError, 200), failure},
		{"silent", ended(feature.UpstreamTimeout, 504), failure},
		{"silent in the middle", ended(feature.UpstreamTimeout, 200), failure},
		{"router ended", ended(feature.Lost, 503), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			ticket := w.begin(t, query("x"))
			if e := w.Status().Endpoints[0]; e.InFlight != 1 || e.PrefillTokens != 1000 {
				t.Errorf("%v requests and %v prefill tokens in flight, want 1 and 1000", e.InFlight, e.PrefillTokens)
			}
			ticket.Sent(time.Now())
			ticket.FirstToken(time.Now())
			if e := w.Status().Endpoints[0]; e.InFlight != 1 || e.PrefillTokens != 0 {
				t.Errorf("%v requests and %v prefill tokens in flight after the first token, want 1 and 0", e.InFlight, e.PrefillTokens)
			}
			ticket.End(c.end)
			ticket.End(ended(feature.Lost, 500))
			ticket.FirstToken(time.Now())
			ticket.Tokens(5, time.Now())
			if ticket.Retry("late") {
				t.Error("a request that ended was retried")
			}
			w.idle(t)
			want := map[string][2]int{failure: {1, 0}, success: {0, 1}, "": {0, 0}}[c.told]
			if got := w.fleet.reports(id(0)); got != want {
				t.Errorf("the pool heard of %v failures and successes, want %v", got, want)
			}
			if o := w.memory.outcome(ticket); o.Status != c.end.Status || o.HTTPStatus != c.end.HTTPStatus || w.memory.twice != 0 {
				t.Errorf("outcome %+v, recorded again %d times", o, w.memory.twice)
			}
		})
	}
}

func TestOutcomeHoldsOnlyWhatWasObserved(t *testing.T) {
	measured := served(1000, 10)
	aborted := measured
	aborted.Status = feature.ClientAbort
	for _, c := range []struct {
		name      string
		streaming bool
		first     bool // a token came
		end       route.End
		censored  feature.Seconds
		ttft, e2e feature.Seconds
	}{
		{"served", true, true, measured, unknown, 0.2, measured.E2E},
		{"left before the first token", true, false, ended(feature.ClientAbort, 0), 3, unknown, unknown},
		{"timed out before it", true, false, ended(feature.UpstreamTimeout, 504), 3, unknown, unknown},
		{"reset before it", true, false, ended(feature.UpstreamError, 502), 3, unknown, unknown},
		{"left after it", true, true, aborted, unknown, 0.2, unknown},
		{"left, not streaming", false, false, ended(feature.ClientAbort, 0), unknown, unknown, unknown},
		{"served without a token", true, false, ended(feature.OK, 200), unknown, unknown, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, nil)
				q := query("x")
				q.Streaming = c.streaming
				ticket := w.begin(t, q)
				pass(time.Second)
				ticket.Sent(time.Now())
				pass(3 * time.Second)
				if c.first {
					ticket.FirstToken(time.Now())
				}
				ticket.End(c.end)
				o := w.memory.outcome(ticket)
				for _, x := range []struct {
					what      string
					got, want feature.Seconds
				}{{"censored_at", o.CensoredAt, c.censored}, {"ttft", o.TTFT, c.ttft}, {"e2e", o.E2E, c.e2e}} {
					if !sameNumber(float64(x.got), float64(x.want)) {
						t.Errorf("%s is %v, want %v", x.what, x.got, x.want)
					}
				}
				if d := w.memory.decision(ticket); o.DecidedAt != d.DecidedAt || o.Attempt != 1 {
					t.Errorf("outcome of %v, attempt %d, decision of %v", o.DecidedAt, o.Attempt, d.DecidedAt)
				}
			})
		})
	}
}

func TestClientThatNeverReachedAnEndpointCensorsNothing(t *testing.T) {
	w := newWorld(t, 1, nil)
	ticket := w.begin(t, query("x"))
	ticket.End(ended(feature.ClientAbort, 0))
	if o := w.memory.outcome(ticket); !feature.IsUnknown(o.CensoredAt) {
		t.Errorf("censored at %v, and nothing was sent", o.CensoredAt)
	}
}

func TestPromptThatDoesNotStreamMovesToDecodingByItself(t *testing.T) {
	inLive(t, 1, nil, func(t *testing.T, w *world) {
		q := query("x")
		q.Streaming = false
		ticket := w.begin(t, q)
		p90 := w.memory.decision(ticket).Candidates[0].Corrected.TTFT.P90.Duration()
		pass(p90 - time.Millisecond)
		if e := w.Status().Endpoints[0]; e.PrefillTokens != 1000 {
			t.Errorf("%v prefill tokens before its p90 TTFT of %v", e.PrefillTokens, p90)
		}
		pass(2 * time.Millisecond)
		if e := w.Status().Endpoints[0]; e.PrefillTokens != 0 || e.InFlight != 1 {
			t.Errorf("%v prefill tokens and %v requests after its p90 TTFT", e.PrefillTokens, e.InFlight)
		}
		ticket.End(served(1000, 10))
		w.idle(t)
	})
}

func TestRetryGoesOnceToTheNextBest(t *testing.T) {
	w := newWorld(t, 4, func(c *route.Config) { c.Policy = policy.TokenLoad })
	// e000 is idle, e001 has the most, e002 the least but drains, e003 less.
	for i, tokens := range []int{0, 9000, 100, 5000} {
		if i > 0 {
			w.fill(t, id(i), tokens)
		}
	}
	ticket := w.begin(t, query("x"))
	if ticket.Endpoint() != id(0) {
		t.Fatalf("first choice is %s", ticket.Endpoint())
	}
	ticket.Sent(time.Now())
	w.fleet.only(id(2), func(e *pool.State) { e.Draining = true })
	if !ticket.Retry("upstream_connect") {
		t.Fatal("no retry, though others are there")
	}
	if ticket.Endpoint() != id(3) || ticket.URL() != "http://"+id(3) {
		t.Errorf("retried on %s at %s, want %s", ticket.Endpoint(), ticket.URL(), id(3))
	}
	ticket.Sent(time.Now())
	if ticket.Retry("upstream_connect") {
		t.Error("retried twice")
	}
	ticket.End(ended(feature.UpstreamError, 502))
	if o := w.memory.outcome(ticket); o.Attempt != 2 || o.Endpoint != id(3) {
		t.Errorf("attempt %d on %s", o.Attempt, o.Endpoint)
	}
	if d := w.memory.decision(ticket); d.Chosen != id(0) {
		t.Errorf("the decision's row says %s", d.Chosen)
	}
	for e, want := range map[string][2]int{id(0): {1, 0}, id(3): {1, 0}} {
		if got := w.fleet.reports(e); got != want {
			t.Errorf("%s: %v failures and successes, want %v", e, got, want)
		}
	}
	if e := w.Status().Endpoints[0]; e.InFlight != 0 {
		t.Errorf("%v in flight on the endpoint that failed", e.InFlight)
	}
}

// fill puts a request of so many tokens on an endpoint.
func (w *world) fill(t testing.TB, on string, tokens int) {
	t.Helper()
	away := map[string]bool{}
	for _, e := range w.fleet.Snapshot().Endpoints {
		away[e.ID] = e.Draining
	}
	w.fleet.change(func(e *pool.State) { e.Draining = e.ID != on })
	q := query("")
	q.Prompt, q.PromptBytes, q.PromptTokens = nil, 0, tokens
	if got := w.begin(t, q).Endpoint(); got != on {
		t.Fatalf("filled %s, want %s", got, on)
	}
	w.fleet.change(func(e *pool.State) { e.Draining = away[e.ID] })
}

// A whole answer may take long because it is long.
func TestTimeoutOfAWholeAnswerIsNoSignOfASickEndpoint(t *testing.T) {
	for _, c := range []struct {
		code, failures int
	}{{504, 0}, {200, 1}} {
		w := newWorld(t, 1, nil)
		q := query("x")
		q.Streaming = false
		ticket := w.begin(t, q)
		ticket.Sent(time.Now())
		ticket.End(ended(feature.UpstreamTimeout, c.code))
		if got := w.fleet.reports(id(0)); got != [2]int{c.failures, 0} {
			t.Errorf("status %d: %v failures and successes", c.code, got)
		}
	}
}

func TestOverloadIsRetriedAndNoFailure(t *testing.T) {
	w := newWorld(t, 2, nil)
	ticket := w.begin(t, query("x"))
	busy := ticket.Endpoint()
	if !ticket.Retry(route.Overloaded) {
		t.Fatal("no retry")
	}
	ticket.End(served(1000, 10))
	if got := w.fleet.reports(busy); got != [2]int{} {
		t.Errorf("%v failures and successes of an endpoint that was only busy", got)
	}
}

func TestRetryClaimsThePrefix(t *testing.T) {
	w := newWorld(t, 2, func(c *route.Config) { c.Policy = policy.TokenLoad })
	ticket := w.begin(t, query("p"))
	ticket.Sent(time.Now())
	failed := ticket.Endpoint()
	if !ticket.Retry(route.Reset) {
		t.Fatal("no retry")
	}
	w.fleet.leave(failed)
	ticket.End(served(1000, 10))
	if got := w.cached(t, w.begin(t, query("p"))); got != 15*64 {
		t.Errorf("%v tokens held where the request went in the end, want 960", got)
	}
}

// cached is how much of a request's prompt its endpoint was believed to hold.
func (w *world) cached(t testing.TB, ticket *route.Ticket) float64 {
	t.Helper()
	return float64(w.memory.decision(ticket).ChosenVector[feature.ColumnCachedTokens])
}

func TestOldestOpenRequestIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		oldest := func() time.Time { at, _ := w.OldestOpen(); return at }
		if at, ok := w.OldestOpen(); ok {
			t.Errorf("open since %v, and nothing is", at)
		}
		first := w.begin(t, query("x"))
		pass(time.Minute)
		second := w.begin(t, query("y"))
		w.fleet.leave(first.Endpoint()) // what goes on there is still open
		w.begin(t, query("z")).End(ended(feature.ClientAbort, 0))
		for _, ticket := range []*route.Ticket{first, second} {
			if want := w.memory.decision(ticket).DecidedAt; oldest() != want {
				t.Errorf("the oldest is of %v, want %v", oldest(), want)
			}
			ticket.End(served(1000, 10))
		}
		if !oldest().IsZero() {
			t.Error("all ended, and one is open")
		}
	})
}

func TestRetryWithoutSendingIsStillOne(t *testing.T) {
	w := newWorld(t, 2, nil)
	ticket := w.begin(t, query("x"))
	if !ticket.Retry("bad url") || ticket.Retry("bad url") {
		t.Error("an endpoint that could not even be asked is not retried once")
	}
	ticket.End(ended(feature.UpstreamError, 502))
	w.idle(t)
	if o := w.memory.outcome(ticket); o.Attempt != 2 {
		t.Errorf("attempt %d", o.Attempt)
	}
}

func TestNoRetry(t *testing.T) {
	for what, c := range map[string]struct {
		happens func(*world, *route.Ticket)
		reports int // of failures
	}{
		"after the first token": {func(_ *world, ticket *route.Ticket) { ticket.FirstToken(time.Now()) }, 0},
		"when the others left":  {func(w *world, _ *route.Ticket) { w.fleet.leave(id(1)) }, 1},
		"when the others drain": {func(w *world, _ *route.Ticket) { w.fleet.only(id(1), func(e *pool.State) { e.Draining = true }) }, 1},
		"when the others forgot it": {func(w *world, _ *route.Ticket) {
			w.fleet.only(id(1), func(e *pool.State) { e.LLMs = []string{"other"} })
		}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			w.fleet.join(id(1))
			w.fill(t, id(1), 5000)
			ticket := w.begin(t, query("x"))
			ticket.Sent(time.Now())
			c.happens(w, ticket)
			if ticket.Retry("upstream_reset") || ticket.Endpoint() != id(0) {
				t.Errorf("moved to %s", ticket.Endpoint())
			}
			if got := w.fleet.reports(id(0)); got[0] != c.reports {
				t.Errorf("%d failures reported, want %d", got[0], c.reports)
			}
			ticket.End(ended(feature.UpstreamError, 502))
			if got := w.fleet.reports(id(0)); got[0] != 1 {
				t.Errorf("one failed request counts %d times", got[0])
			}
			if e := w.Status().Endpoints[0]; e.InFlight != 0 {
				t.Errorf("%v in flight", e.InFlight)
			}
		})
	}
}

func TestRetryOfATicketIsNoEvidenceAboutForecasts(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		ticket := w.begin(t, query("x"))
		ticket.Sent(time.Now())
		if !ticket.Retry("upstream_connect") {
			t.Fatal("no retry")
		}
		ticket.Sent(time.Now())
		end := served(1000, 10)
		end.TTFT = 100 // far from any forecast
		ticket.End(end)
		d := w.memory.decision(w.begin(t, query("y")))
		for _, c := range d.Candidates {
			if math.Abs(float64(c.Corrected.TTFT.P50/c.Forecast.TTFT.P50)-1) > 1e-5 {
				t.Errorf("%s: corrected to %v from %v", c.Endpoint, c.Corrected.TTFT.P50, c.Forecast.TTFT.P50)
			}
		}
	})
}

func TestHeaderNamesTheDecision(t *testing.T) {
	w := newWorld(t, 1, nil)
	ticket := w.begin(t, query("x"))
	if want := ticket.ID().String() + "; " + w.memory.decision(ticket).Reason; ticket.Header() != want || strings.Contains(want, "\n") {
		t.Errorf("header %q, want %q", ticket.Header(), want)
	}
}
