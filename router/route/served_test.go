package route_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

func TestAddressHasOneSpelling(t *testing.T) {
	for _, c := range [][2]string{
		{"10.0.0.1:8000", "10.0.0.1:8000"},
		{" 10.0.0.1:8000 ", "10.0.0.1:8000"},
		{"[::ffff:10.0.0.1]:8000", "10.0.0.1:8000"},
		{"[2001:DB8:0::1]:80", "[2001:db8::1]:80"},
		{"Engine-0.Engines:8000", "engine-0.engines:8000"},
		{"", ""},
	} {
		if got := route.Address(c[0]); got != c[1] {
			t.Errorf("Address(%q) = %q, want %q", c[0], got, c[1])
		}
	}
}

// Of the endpoints that may serve a request, one is chosen by its port too.
func TestOnlyEndpointsWithinAreChosen(t *testing.T) {
	w := newWorld(t, 4, nil)
	for i, address := range []string{"10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.3:8000"} {
		w.fleet.only(id(i), func(e *pool.State) { e.URL = "http://" + address })
	}
	q := query("x")
	within := []string{"10.0.0.1:8001", "10.0.0.2:8000", "10.0.0.9:8000"}
	seen := map[string]bool{}
	for i := range 20 {
		q := query(fmt.Sprint(i)) // nobody has its prefix
		q.Within = within
		ticket := w.begin(t, q)
		seen[ticket.Address()] = true
		if others := ticket.Fallbacks(5); len(others) != 1 || !slices.Contains(within, others[0]) || others[0] == ticket.Address() {
			t.Errorf("fallbacks of %s are %v", ticket.Address(), others)
		}
		ticket.FirstToken(time.Now()) // stays, so that load pushes the next elsewhere
	}
	if len(seen) != 2 || !seen["10.0.0.1:8001"] || !seen["10.0.0.2:8000"] {
		t.Errorf("chosen were %v", seen)
	}
	for _, within := range [][]string{{}, {"10.0.0.9:8000"}, {"10.0.0.2:8001"}} {
		q.Within = within
		if _, err := w.Begin(context.Background(), q); !errors.Is(err, route.ErrNoEndpoint) {
			t.Errorf("within %v: %v", within, err)
		}
	}
}

// Fallbacks are the endpoints that a retry would take, the best first.
func TestFallbacksAreInTheOrderOfRetries(t *testing.T) {
	const endpoints = 20
	w := newWorld(t, endpoints, nil)
	w.fleet.only(id(2), func(e *pool.State) { e.Draining = true })
	w.fleet.only(id(3), func(e *pool.State) { e.Healthy = false })
	for i := range endpoints {
		w.fill(t, id(i), 1000*(1+7*i%11)) // some cost the same
	}
	ticket := w.begin(t, query("x"))
	all := ticket.Fallbacks(endpoints)
	if n := len(all); n != endpoints-2 || all[n-1] != id(3)+":80" || slices.Contains(all, id(2)+":80") {
		t.Fatalf("fallbacks of %s are %v: want the %d others that are not draining, the unhealthy one last", ticket.Endpoint(), all, endpoints-2)
	}
	for n := range all {
		if got := ticket.Fallbacks(n); !slices.Equal(got, all[:n]) {
			t.Errorf("the first %d of %v are %v", n, all, got)
		}
	}
	if !ticket.Retry(route.Unreachable) || ticket.Address() != all[0] {
		t.Errorf("a retry goes to %s, the first fallback is %s", ticket.Address(), all[0])
	}
}

func TestServedMovesTheAccounting(t *testing.T) {
	w := newWorld(t, 3, nil)
	ticket := w.begin(t, query("x"))
	ticket.Sent(time.Now())
	chosen := ticket.Address()
	all := ticket.Fallbacks(2)
	if ticket.Served(chosen) || ticket.Served("10.9.9.9:80") {
		t.Error("moved to where it was, or to nobody")
	}
	for attempt, address := range append(all, chosen) { // there and back
		if !ticket.Served(address) || ticket.Address() != address {
			t.Fatalf("move %d to %s failed", attempt, address)
		}
		in := 0.0
		for _, e := range w.Status().Endpoints {
			if in += float64(e.InFlight); e.InFlight == 1 && e.ID+":80" != address {
				t.Errorf("%s has the request, %s serves it", e.ID, address)
			}
		}
		if in != 1 {
			t.Errorf("%v requests are in flight", in)
		}
	}
	ticket.FirstToken(time.Now())
	if ticket.Served(all[0]) {
		t.Error("moved after the first token")
	}
	end := served(1000, 10)
	end.TTFT, end.E2E = unknown, unknown
	ticket.End(end)
	if ticket.Served(all[0]) {
		t.Error("moved after the end")
	}
	w.idle(t)
	if o := w.memory.outcome(ticket); o.Endpoint+":80" != chosen || o.Attempt != 4 || !feature.IsUnknown(o.CensoredAt) {
		t.Errorf("outcome %+v: want the fourth attempt, at %s", o, chosen)
	}
	for i := range 3 {
		if got := w.fleet.reports(id(i)); got[0] != 0 {
			t.Errorf("%s is said to have failed", id(i))
		}
	}
}
