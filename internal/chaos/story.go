package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spillway-llm/spillway/internal/demo/child"
)

// wreak lets everything happen, and finds out what came of it. Where something did
// not go on as it must, the error says so, and what was found is of the phases
// before.
func wreak(ctx context.Context, out io.Writer, o options) (found *findings, err error) {
	w := &world{o: o, ctx: ctx, out: out, began: time.Now()}
	defer func() { err = errors.Join(err, w.fall()) }()
	if err := w.raise(); err != nil {
		return nil, err
	}
	w.say("everything runs in %s: %d engines, %d clients of the router and %d behind a proxy", o.dir, engines, direct, proxied)
	w.crowd = newClients(w.routers[0])
	asking, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		w.crowd.Run(asking, o.seed)
	}()
	phases, told := w.story()
	leave()
	<-left
	r := w.crowd.door.Load()
	last, err := w.rest(r)
	if err != nil {
		return nil, errors.Join(told, err)
	}
	r.process.Stop(drainTimeout + 10*time.Second)
	e, err := w.read()
	if err != nil {
		return nil, errors.Join(told, err)
	}
	return e.find(phases, last), told
}

// left is what a router's ledger holds when no client has a request under way.
type left struct{ requests, prefill float64 }

// rest gives a router a moment to come to rest.
func (w *world) rest(r *router) (l left, err error) {
	for began := time.Now(); ; {
		s, err := r.status(w.ctx)
		if err != nil {
			return l, err
		}
		if l.requests, l.prefill = s.inFlight(); l == (left{}) || time.Since(began) > 2*time.Second {
			return l, nil
		}
	}
}

// story is all that happens, in order.
func (w *world) story() (phases []*phase, err error) {
	for _, act := range []struct {
		name string
		live bool // forecasts must decide when it begins
		do   func(*phase) error
	}{
		{"begin", false, w.begin},
		{"predictor killed", true, w.killPredictor},
		{"predictor hung", true, w.hangPredictor},
		{"predictor hung from its start", true, w.startHung},
		{"forecasts times ten", true, w.garbage(timesTen)},
		{"forecasts constant", true, w.garbage(constant)},
		{"forecasts reversed", true, w.garbage(reversed)},
		{"forecasts not a number", true, w.garbage(notNumber)},
		{"trainer killed in a refit", true, w.killTrainer},
		{"Postgres restarted", false, w.restartPostgres},
		{"Postgres killed", false, w.killPostgres},
		{"engine killed", false, w.killEngine},
		{"endpoints come and go", false, w.churn},
		{"bundle stale", false, w.stale},
		{"router told to end", false, w.endRouter},
	} {
		if act.live {
			// A busy machine makes forecasts late by itself.
			if err := w.await("live", time.Minute); err != nil {
				return phases, fmt.Errorf("before %s: %w", act.name, err)
			}
		}
		p := &phase{Name: act.name, from: time.Now(), marks: map[string]time.Time{}, counts: map[string]float64{}}
		if err := act.do(p); err != nil {
			return phases, fmt.Errorf("%s: %w", act.name, err)
		}
		p.to = time.Now()
		phases = append(phases, p)
		w.say("%s: done", act.name)
	}
	return phases, nil
}

// await waits for a forecast state.
func (w *world) await(state string, within time.Duration) error {
	return w.until("the state "+state, within, func() (bool, error) {
		s, err := w.crowd.door.Load().status(w.ctx)
		is, _ := s.state()
		return is == state, err
	})
}

// settle is how long a phase goes on when it is over, so that what it leaves
// behind is its own.
const settle = 1500 * time.Millisecond

// live waits for forecasts to decide again.
func (w *world) live(within time.Duration) error {
	if err := w.await("live", within); err != nil {
		return err
	}
	return w.pause(settle)
}

// begin waits for the first bundle, and for forecasts to decide for a while.
func (w *world) begin(*phase) error {
	if err := w.live(2 * time.Minute); err != nil {
		return err
	}
	w.trainer.Stop(10 * time.Second)
	if err := w.startTrainer("keeper"); err != nil {
		return err
	}
	// The judge of forecasts looks at the last 200 outcomes: from here on they are
	// those of one bundle.
	if err := w.pause(6 * time.Second); err != nil {
		return err
	}
	return w.live(30 * time.Second)
}

func (w *world) killPredictor(p *phase) error {
	p.mark("failed", w.predictor.Kill)
	if err := w.pause(4 * time.Second); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	if err := w.startPredictor(); err != nil {
		return err
	}
	return w.live(30 * time.Second)
}

func (w *world) hangPredictor(p *phase) error {
	if err := w.predictor.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	p.marks["failed"] = time.Now()
	if err := w.pause(5 * time.Second); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	if err := w.predictor.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return w.live(30 * time.Second)
}

// startHung kills the predictor, and lets the next one hang before it has said a
// word to anybody.
func (w *world) startHung(p *phase) error {
	p.mark("failed", w.predictor.Kill)
	if err := w.startPredictor(); err != nil {
		return err
	}
	if err := w.predictor.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := w.pause(4 * time.Second); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	if err := w.predictor.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return w.live(30 * time.Second)
}

// garbage lets another predictor take the place of the good one and answer so, in
// the name of the same bundle. Traffic is held up while one goes and the other
// comes: who asked in between would find nobody there, which is another failure.
func (w *world) garbage(kind string) func(*phase) error {
	return func(p *phase) error {
		s, err := w.crowd.door.Load().status(w.ctx)
		if err != nil {
			return err
		}
		_, bundle := s.state()
		w.crowd.Gate.Lock()
		err = w.replacePredictor(kind, bundle)
		p.mark("failed", w.crowd.Gate.Unlock)
		if err != nil {
			return err
		}
		if err := w.await("wrong", 60*time.Second); err != nil {
			return err
		}
		if err := w.pause(2 * time.Second); err != nil {
			return err
		}
		w.fake.Kill()
		p.marks["mended"] = time.Now()
		if err := w.startPredictor(); err != nil {
			return err
		}
		return w.live(60 * time.Second)
	}
}

// foundWithin is how long a router takes at most to find a predictor that is there: it
// looks every 0.5 s, and then needs a moment to see what this one speaks.
const foundWithin = 1200 * time.Millisecond

func (w *world) replacePredictor(kind string, bundle int64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.predictor.Kill()
	if err := os.Remove(socket(w.address)); err != nil {
		return err
	}
	w.fake, err = child.Start(child.Command{Binary: self, Dir: w.o.dir, Name: "impostor",
		Args: []string{"--impostor", kind, "--address", w.address, "--bundle", fmt.Sprint(bundle)}})
	if err != nil {
		return err
	}
	if err := w.fake.Until(w.ctx, 10*time.Second, w.listening); err != nil {
		return err
	}
	return w.pause(foundWithin)
}

// refitLease is the lease that a trainer holds while it refits.
const refitLease = "refit"

// refitting reports whether somebody holds the lease.
func (w *world) refitting() (bool, error) {
	lease, free, err := w.store.AcquireLease(w.ctx, refitLease, "chaos", 5*time.Second)
	if err != nil || !free {
		return !free, err
	}
	return false, w.store.ReleaseLease(w.ctx, lease)
}

// killTrainer kills one that refits, while it does. The lease of the dead keeps
// others from the work for a minute.
func (w *world) killTrainer(p *phase) error {
	w.trainer.Stop(10 * time.Second)
	for range 3 { // it may have ended the refit in the instant before
		if err := w.startTrainer("trainer"); err != nil {
			return err
		}
		if err := w.until("a refit", time.Minute, w.refitting); err != nil {
			return err
		}
		p.mark("failed", w.trainer.Kill)
		held, err := w.refitting()
		if err != nil {
			return err
		}
		if held {
			p.counts["held"] = 1
			break
		}
	}
	return w.startTrainer("keeper")
}

func (w *world) restartPostgres(p *phase) error {
	p.marks["failed"] = time.Now()
	if err := w.cluster.Stop(w.ctx); err != nil {
		return err
	}
	if err := w.pause(2 * time.Second); err != nil {
		return err
	}
	if err := w.cluster.Start(w.ctx); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	return w.pause(settle)
}

func (w *world) killPostgres(p *phase) error {
	p.mark("failed", w.cluster.Kill)
	if err := w.pause(2 * time.Second); err != nil {
		return err
	}
	if err := w.cluster.Start(w.ctx); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	return w.pause(settle)
}

// stale waits until what is served was validated too long ago, and until the
// trainer, free to work again, has validated it.
func (w *world) stale(p *phase) error {
	served, err := w.store.ServedPointer(w.ctx, llm)
	if err != nil {
		return err
	}
	p.marks["failed"] = served.ValidatedAt.Add(served.MaxAge)
	if err := w.await("stale", maxAge+10*time.Second); err != nil {
		return err
	}
	if err := w.until("a validation", 90*time.Second, func() (bool, error) {
		now, err := w.store.ServedPointer(w.ctx, llm)
		p.marks["mended"] = now.ValidatedAt
		return now.ValidatedAt.After(served.ValidatedAt), err
	}); err != nil {
		return err
	}
	return w.live(30 * time.Second)
}

// endRouter tells the first router to end, while the second is there to take
// over. Clients go there once the first says that it wants no more, as a load
// balancer makes them.
func (w *world) endRouter(p *phase) error {
	first, second := w.routers[0], w.routers[1]
	w.crowd.Gate.Lock()
	calm, err := w.rest(first)
	w.crowd.Gate.Unlock()
	if err != nil {
		return err
	}
	p.left = &calm
	if err := second.start(w); err != nil {
		return err
	}
	p.marks["failed"] = time.Now()
	if err := first.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := w.until("the farewell", 5*time.Second, func() (bool, error) { return first.ready(w.ctx) != nil, nil }); err != nil {
		return err
	}
	w.crowd.door.Store(second)
	if err := w.until("the end of the router", drainTimeout+10*time.Second, func() (bool, error) { return first.process.Ended(), nil }); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	if err := first.process.Err(); err != nil {
		return first.process.Failure()
	}
	return w.live(60 * time.Second)
}
