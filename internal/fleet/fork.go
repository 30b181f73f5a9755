package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Forked is one request of a world, sent to every endpoint in turn.
type Forked struct {
	Chosen int // the endpoint that the router chose; -1: it shed the request
	// Rows is by endpoint what was known and forecast of it at the decision, and
	// what came of the request there, all others routed as the router saw fit.
	Rows []feature.Row
}

// Fork runs the same world once for every endpoint that is there from the
// beginning, up to the end of one request (the first that is sent is 1), with
// that request alone sent to the endpoint whatever the router chose. What the
// configuration does with rows and outcomes it does not; its observer sees
// every run.
//
// Errors: as of Simulate; a request that is not sent.
func Fork(ctx context.Context, config WorldConfig, request int) (Forked, error) {
	if config.Router.Connections != PerRequest {
		return Forked{}, errors.New("a fork wants a choice for every request")
	}
	var f Forked
	config.Sink = func(Outcome) {}
	for i := range config.Engines {
		if config.Engines[i].JoinsAt > 0 {
			break
		}
		var row *feature.Row
		config.Rows = func(*feature.Row) {}
		w, stop, err := newWorld(config)
		if err != nil {
			return Forked{}, err
		}
		w.fork = &fork{request: uint64(request), endpoint: i}
		w.config.Rows = func(r *feature.Row) {
			if w.fork.ended && row == nil { // those after it are cut off
				row = r
			}
		}
		_, err = w.run(ctx)
		stop()
		if err != nil {
			return Forked{}, err
		}
		if row == nil {
			return Forked{}, fmt.Errorf("request %d to fork at was not sent: there were %d", request, w.sent)
		}
		f.Chosen, f.Rows = w.fork.chosen, append(f.Rows, *row)
	}
	return f, nil
}

// fork is the one request of a world that is sent elsewhere.
type fork struct {
	request  uint64 // number of the call
	endpoint int
	chosen   int  // by the router; -1: none
	ended    bool // the world ends with it
}

// force is the endpoint that a call must go to; below 0: as decided.
func (w *world) force(c *call) int {
	if w.fork != nil && w.fork.request == c.id {
		return w.fork.endpoint
	}
	return -1
}

// forked notes what became of the request of a fork.
func (w *world) forked(c *call) {
	if w.fork != nil && w.fork.request == c.id {
		w.fork.chosen, w.fork.ended = c.ticket.chosen, true
	}
}
