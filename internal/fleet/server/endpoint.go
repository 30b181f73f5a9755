package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Endpoint is one engine address. Behind it stands one life of an engine at a
// time, or none while it refuses connections.
type Endpoint struct {
	fleet    *Server
	index    int
	addr     string
	profile  physics.Profile
	overhead time.Duration
	fault    atomic.Pointer[Fault]
	failed   chan error

	mu    sync.Mutex
	ln    net.Listener    // bound, not served yet
	ctx   context.Context // of Run; nil before and after
	life  *life           // nil while none is running
	past  sync.WaitGroup  // lives that were stopped and of which something is left; Run waits for them
	lives uint64
}

// URL is the endpoint's base URL, without a path.
func (e *Endpoint) URL() string { return "http://" + e.addr }

func (e *Endpoint) newEngine() (*fleet.Engine, error) {
	stream := uint64(e.index)<<32 | e.lives
	return fleet.New(fleet.Config{
		Profile:   e.profile,
		MaxTokens: e.fleet.cfg.MaxTokens,
		Overhead:  e.overhead,
		Noise:     rand.New(rand.NewPCG(e.fleet.cfg.Seed, stream)),
	})
}

func (e *Endpoint) run(ctx context.Context) error {
	e.mu.Lock()
	e.ctx = ctx
	var err error
	if e.fault.Load().Kind != Refuse {
		err = e.begin()
	}
	e.mu.Unlock()
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-e.failed:
		}
	}
	e.mu.Lock()
	e.ctx = nil
	if e.ln != nil {
		e.ln.Close()
	}
	e.end()
	e.mu.Unlock() // handlers that are still running may want it
	e.past.Wait()
	return err
}

// end stops the present life, if any; e.mu is held.
func (e *Endpoint) end() {
	if e.life != nil {
		e.life.stop()
		e.past.Go(e.life.wait)
		e.life = nil
	}
}

// begin starts a new life; e.mu is held and e.ctx is set.
func (e *Endpoint) begin() error {
	ln := e.ln
	if ln == nil {
		var err error
		if ln, err = e.fleet.cfg.Listen(e.addr); err != nil {
			return fmt.Errorf("endpoint %d: %w", e.index, err)
		}
	}
	engine, err := e.newEngine()
	if err != nil {
		ln.Close()
		return err
	}
	e.ln = nil
	e.lives++
	e.life = startLife(e.ctx, e, ln, engine)
	return nil
}
