package main

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router"
)

func TestOpenRequestsAreNotLost(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := defaultConfig().Router
	limit := now.Add(-15*time.Minute - 2*time.Minute - time.Minute) // answer_timeout, idle_timeout and some
	for name, x := range map[string]struct {
		oldest time.Time // zero: none is open
		want   time.Time
	}{
		"none is open":         {time.Time{}, limit},
		"a young one is open":  {now.Add(-time.Second), limit},
		"a stream of an hour":  {now.Add(-time.Hour), now.Add(-time.Hour)},
		"as old as it may be":  {limit, limit},
		"a moment older still": {limit.Add(-1), limit.Add(-1)},
	} {
		serving := &router.Serving{OldestOpen: func() (time.Time, bool) { return x.oldest, !x.oldest.IsZero() }}
		if got := c.lostBefore(now, serving); got != x.want {
			t.Errorf("%s: those before %v are lost, want %v", name, got, x.want)
		}
	}
	if got := c.lostBefore(now, nil); got != limit {
		t.Errorf("before the router serves: %v, want %v", got, limit)
	}
}

// Requests of the router before, which has the same name, may end until its drain
// timeout has passed, however long ago they were decided.
func TestRequestsOfTheRouterBeforeAreNotLost(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := defaultConfig().Router
	c.Drain = 2 * time.Hour
	if got := c.aloneFrom(began); got != began {
		t.Errorf("without a handover it is alone from %v, want %v", got, began)
	}
	c.Handover = "/run/spillway/handover.sock"
	if got, least := c.aloneFrom(began), began.Add(30*time.Second+c.Drain); got.Before(least) {
		t.Errorf("with a handover it is alone from %v, want %v or later", got, least)
	}
}
