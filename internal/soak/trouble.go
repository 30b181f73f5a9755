package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet/server"
)

// events is how often in a round something happens.
const events = 12

// trouble makes things go wrong until ctx ends, and then makes all well. away
// says that the store is to be away in the middle of the round.
func (w *world) trouble(ctx context.Context, o options, rng *rand.Rand, away bool) error {
	tick := time.NewTicker(o.round / (events + 1))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return w.heal()
		case <-tick.C:
		}
		switch {
		case away && i == events/3:
			w.wire.cut()
		case away && i == 2*events/3:
			w.wire.mend()
		default:
			if err := w.harm(o, rng); err != nil {
				return err
			}
		}
	}
}

// harm does something to one endpoint. The first is left alone, so that there is
// always one that can serve.
func (w *world) harm(o options, rng *rand.Rand) error {
	who := w.fleet.Endpoint(1 + rng.IntN(o.endpoints-1))
	if who.Fault().Kind != server.None {
		return who.SetFault(server.Fault{Kind: server.None})
	}
	switch rng.IntN(7) {
	case 0:
		return who.SetFault(server.Fault{Kind: server.Slow, Factor: 2 + 8*rng.Float64()})
	case 1:
		return who.SetFault(server.Fault{Kind: server.Error, Status: []int{500, 502, 503}[rng.IntN(3)]})
	case 2:
		return who.SetFault(server.Fault{Kind: server.Hang})
	case 3:
		return who.SetFault(server.Fault{Kind: server.Reset})
	case 4:
		return who.SetFault(server.Fault{Kind: server.Refuse}) // it restarts when that ends
	case 5:
		urls := w.fleet.URLs()
		out := 1 + rng.IntN(len(urls)-1)
		return w.list(append(urls[:out:out], urls[out+1:]...))
	}
	return w.list(w.fleet.URLs())
}

// heal ends all trouble.
func (w *world) heal() error {
	w.wire.mend()
	for i := range w.fleet.URLs() {
		if err := w.fleet.Endpoint(i).SetFault(server.Fault{Kind: server.None}); err != nil {
			return err
		}
	}
	return w.list(w.fleet.URLs())
}
