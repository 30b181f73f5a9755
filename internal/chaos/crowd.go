package main

import (
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/crowd"
)

// How many clients there are of each front door, how long they think between two
// requests, and how long they wait for one.
const (
	direct   = 14
	proxied  = 8
	thinking = 250 * time.Millisecond // on average
	patience = 30 * time.Second
)

type record = crowd.Record

// clients are a crowd, and the router that they go to.
type clients struct {
	*crowd.Crowd
	door atomic.Pointer[router]
}

func newClients(first *router) *clients {
	c := &clients{}
	c.door.Store(first)
	c.Crowd = crowd.New(crowd.Config{LLM: llm, Direct: direct, Proxied: proxied, Thinking: thinking, Patience: patience,
		Shared: 100, Own: 400, Whole: 6, Door: func() crowd.Door {
			r := c.door.Load()
			return crowd.Door{Front: r.front, Picker: r.picker}
		}})
	return c
}
