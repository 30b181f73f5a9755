package route_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// expendable is a request that may be shed and asks for a TTFT in seconds.
func expendable(ttft feature.Seconds) *route.Query {
	q := query("a prompt")
	q.Priority, q.SLOTTFT = -1, ttft
	return q
}

func TestShedRequestsAreRecordedAndChargeNothing(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		ticket, err := w.Begin(t.Context(), expendable(1e-3))
		var shed *route.Shed
		if !errors.As(err, &shed) || ticket != nil {
			t.Fatalf("a request that nobody can serve in time: %v", err)
		}
		if shed.RetryAfter != time.Second {
			t.Errorf("retry after %v, want 1 s", shed.RetryAfter)
		}
		text, reason, _ := strings.Cut(shed.Decision, "; ")
		id, err := feature.ParseID(text)
		if err != nil || !strings.HasPrefix(reason, "shed with probability 1.00") {
			t.Errorf("the decision is %q: %v", shed.Decision, err)
		}
		d, o := w.memory.decisions[id], w.memory.outcomes[id]
		if d.Chosen != "" || d.Policy != policy.Predicted || d.Propensity != 1 || d.Bundle != 7 || d.Reason != reason || d.Priority != -1 {
			t.Errorf("decided %+v", d)
		}
		checkReplay(t, d)
		if o.Status != feature.Shed || o.HTTPStatus != 429 || o.Endpoint != "" || !o.DecidedAt.Equal(d.DecidedAt) || !feature.IsUnknown(o.TTFT) {
			t.Errorf("outcome %+v", o)
		}
		w.idle(t)
		if _, open := w.OldestOpen(); open {
			t.Error("a request that was shed is open")
		}
		if n := w.count(t, "spillway_router_shed_total"); n != 1 {
			t.Errorf("%v requests counted as shed", n)
		}
		if s := w.Status().LLMs[0]; s.Shed != 1 || s.Decisions != 1 {
			t.Errorf("status counts %d shed of %d", s.Shed, s.Decisions)
		}
		// The same without permission, and without an objective.
		for _, q := range []*route.Query{query("a prompt"), expendable(unknown)} {
			if q.Priority == 0 {
				q.SLOTTFT = 1e-3
			}
			w.begin(t, q).End(served(1000, 10))
		}
	})
}

// A long queue is said to be one.
func TestRetryAfterFollowsTheQueue(t *testing.T) {
	inLive(t, 1, nil, func(t *testing.T, w *world) {
		long := query("long")
		long.PromptBytes = 4 * 200_000
		var all []*route.Ticket
		for range 2 {
			all = append(all, w.begin(t, long)) // some 20 s of prefill each
		}
		_, err := w.Begin(t.Context(), expendable(0.5))
		var shed *route.Shed
		if !errors.As(err, &shed) || shed.RetryAfter < 10*time.Second || shed.RetryAfter > time.Minute {
			t.Errorf("behind 400,000 tokens: %v", err)
		}
		for _, ticket := range all {
			ticket.End(ended(feature.ClientAbort, 0))
		}
	})
}

// While forecasts may not decide, nobody is shed by them.
func TestOnlyLiveForecastsShed(t *testing.T) {
	for name, change := range map[string]func(*route.Config){
		"shadow":       func(c *route.Config) { c.Mode = route.ModeShadow },
		"another rule": func(c *route.Config) { c.Policy = policy.CombinedLoad },
	} {
		w := newWorld(t, 2, change)
		ticket, err := w.Begin(context.Background(), expendable(1e-3))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ticket.End(served(1000, 10))
	}
}

func TestCanaryDecidesItsShare(t *testing.T) {
	inLive(t, 3, func(c *route.Config) { c.Mode, c.Canary, c.Fallback = route.ModeCanary, 0.3, policy.ActiveRequest }, func(t *testing.T, w *world) {
		const requests = 1000
		by := map[string]float64{}
		for range requests {
			ticket := w.begin(t, query("a prompt"))
			d := w.memory.decision(ticket)
			by[d.Policy]++
			if d.Mode != "canary" {
				t.Fatalf("mode is %q", d.Mode)
			}
			if held := strings.HasPrefix(d.Reason, "not in the canary of 0.3; "); held != (d.Policy == policy.ActiveRequest) {
				t.Fatalf("by %s: %s", d.Policy, d.Reason)
			}
			ticket.End(ended(feature.ClientAbort, 0))
		}
		if got := by[policy.Predicted]; math.Abs(got-300) > 5*math.Sqrt(requests*0.3*0.7) {
			t.Errorf("forecasts decided %v of %d", got, requests)
		}
		if n := w.count(t, "spillway_router_fallbacks_total", "canary", "live"); n != by[policy.ActiveRequest] {
			t.Errorf("%v fallbacks are counted as the canary's, of %v", n, by[policy.ActiveRequest])
		}
	})
}

func TestTimeInStatesIsCounted(t *testing.T) {
	inLive(t, 1, nil, func(t *testing.T, w *world) {
		live := w.count(t, "spillway_router_state_seconds_total", llm, "live")
		pass(30 * time.Second)
		w.oracle.set(fails(errPredictor))
		w.begin(t, query("")).End(served(1000, 10))
		w.mustBe(t, "down")
		pass(10 * time.Second)
		for state, want := range map[string]float64{"live": live + 30, "down": 10} {
			if got := w.count(t, "spillway_router_state_seconds_total", llm, state); math.Abs(got-want) > 1.01 {
				t.Errorf("%v s are counted as %s, want %v s", got, state, want)
			}
		}
	})
}
