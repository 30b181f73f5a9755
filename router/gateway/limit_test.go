package gateway_test

import (
	"net/http"
	"testing"

	"github.com/spillway-llm/spillway/router/gateway"
)

// One request too many is refused and told why; when another has ended there is
// room again.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway.Config)
		status int
		reason string
	}{
		"of all":        {func(c *gateway.Config) { c.MaxRequests = 2 }, http.StatusServiceUnavailable, "too_many_requests"},
		"of one client": {func(c *gateway.Config) { c.MaxOfClient = 2 }, http.StatusTooManyRequests, "client_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			finish := make(chan struct{})
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				streamHeaders(w)
				send(w, tokenEvent)
				receive(t, finish, "the client to have asked for more")
				send(w, endEvent+doneEvent)
			})
			f := newFront(t, c.change, e.URL)
			var open []*http.Response
			for range 2 {
				a, err := f.post(t, t.Context(), chatBody)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, a)
			}
			for range 2 { // a refusal takes no room
				a, err := f.post(t, t.Context(), chatBody)
				all(t, a, err)
				if a.StatusCode != c.status || a.Header.Get("X-Spillway-Reason") != c.reason || a.Header.Get("Retry-After") != "1" {
					t.Errorf("%d %v, want %d %s", a.StatusCode, a.Header, c.status, c.reason)
				}
			}
			if n := f.count(t, "spillway_router_refusals_total", c.reason); n != 2 {
				t.Errorf("%v refusals were counted", n)
			}
			finish <- struct{}{}
			finish <- struct{}{}
			for _, a := range open {
				all(t, a, nil)
				f.outcome(t)
			}
			for range 2 {
				a, err := f.post(t, t.Context(), chatBody)
				if err != nil || a.StatusCode != http.StatusOK {
					t.Fatalf("with room again: %v %v", a, err)
				}
				finish <- struct{}{}
				all(t, a, err)
				f.outcome(t)
			}
		})
	}
}
