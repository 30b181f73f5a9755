package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

// world is everything that runs, and what makes it fail.
type world struct {
	o       options
	ctx     context.Context
	out     io.Writer
	began   time.Time
	cluster *pglocal.Cluster
	store   *featurestore.Store
	env     []string

	engines   []*engine // the last is not listed in the beginning
	file      string    // of endpoints
	address   string    // of the predictor
	predictor *child.Process
	trainer   *child.Process
	fake      *child.Process // that stands in for the predictor
	routers   [2]*router     // the second takes over from the first
	crowd     *clients
}

// say prints one line of the timeline.
func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.out, "%5.1f s  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// raise starts everything but the clients.
func (w *world) raise() (err error) {
	if w.cluster, err = pglocal.Start(w.ctx, pglocal.Config{DataDir: filepath.Join(w.o.dir, "postgres")}); err != nil {
		return err
	}
	w.env = []string{"DATABASE_URL=" + w.cluster.URL()}
	if w.store, err = featurestore.Open(w.ctx, w.cluster.URL(), featurestore.Options{MaxConns: 2}); err != nil {
		return err
	}
	if err := w.store.Migrate(w.ctx); err != nil {
		return err
	}
	if _, err := w.store.Maintain(w.ctx, time.Now(), 48*time.Hour, 0); err != nil {
		return err
	}
	if err := w.plan(); err != nil {
		return err
	}
	for _, e := range w.engines[:engines] {
		if err := e.start(w); err != nil {
			return err
		}
	}
	if err := w.list(w.engines[:engines], ""); err != nil {
		return err
	}
	if err := w.startPredictor(); err != nil {
		return err
	}
	if err := w.startTrainer("trainer"); err != nil {
		return err
	}
	return w.routers[0].start(w)
}

// plan gives everything its place.
func (w *world) plan() error {
	ports, err := child.FreePorts(engines + 1 + 6)
	if err != nil {
		return err
	}
	for i, port := range ports[:engines+1] {
		w.engines = append(w.engines, &engine{number: i, port: port, slow: i == 0})
	}
	w.address = "unix://" + filepath.Join(w.o.dir, "predictor.sock")
	if len(w.address) > 100 { // a socket's path is bounded
		return fmt.Errorf("--dir: %s is too long for a socket; name a shorter one", w.o.dir)
	}
	w.file = filepath.Join(w.o.dir, "endpoints.yaml")
	for i, name := range []string{"first", "second"} {
		at := ports[engines+1+3*i:]
		w.routers[i] = &router{name: name, front: child.Local(at[0]), picker: child.Local(at[1]), admin: child.Local(at[2])}
	}
	return w.configure()
}

// run starts a verb and waits until it is ready.
func (w *world) run(name, verb, config string, ready func(context.Context) error) (*child.Process, error) {
	p, err := child.Start(child.Command{Binary: w.o.binary, Dir: w.o.dir, Name: name, Env: w.env,
		Args: []string{verb, "--config", filepath.Join(w.o.dir, config)}})
	if err != nil || ready == nil {
		return p, err
	}
	return p, p.Until(w.ctx, 30*time.Second, ready)
}

// startPredictor starts the predictor and waits until its socket is there.
func (w *world) startPredictor() (err error) {
	w.predictor, err = w.run("predictor", "predictor", "first.yaml", w.listening)
	return err
}

func (w *world) listening(ctx context.Context) error {
	return child.Reachable(ctx, "unix", socket(w.address))
}

// startTrainer starts a trainer with the configuration of that name.
func (w *world) startTrainer(config string) (err error) {
	w.trainer, err = w.run("trainer", "trainer", config+".yaml", nil)
	return err
}

// fall ends everything, in the order in which nothing is lost.
func (w *world) fall() error {
	for _, r := range w.routers {
		if r != nil {
			r.process.Stop(30 * time.Second)
		}
	}
	w.trainer.Stop(5 * time.Second)
	w.predictor.Stop(5 * time.Second)
	w.fake.Stop(5 * time.Second)
	for _, e := range w.engines {
		e.process.Stop(5 * time.Second)
	}
	if w.store != nil {
		w.store.Close()
	}
	if w.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 30*time.Second)
	defer cancel()
	return w.cluster.Stop(ctx)
}

// list writes the endpoints file: these engines, and a line of another kind.
func (w *world) list(listed []*engine, more string) error {
	var text []byte
	for _, e := range listed {
		text = fmt.Appendf(text, "- {url: %q, class: %s, llms: [%s]}\n", "http://"+e.id(), e.class(), llm)
	}
	text = append(text, more...)
	next := w.file + ".next"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, w.file)
}

// pause lets time go by.
func (w *world) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return w.well()
	case <-w.ctx.Done():
		return errInterrupted
	}
}

var errInterrupted = errors.New("interrupted")

// well reports a router that ended by itself.
func (w *world) well() error {
	if r := w.crowd.door.Load(); r.process.Ended() {
		return r.process.Failure()
	}
	return nil
}

// until looks every 20 ms until what is so, for as long as it may take.
func (w *world) until(what string, within time.Duration, so func() (bool, error)) error {
	for began := time.Now(); ; {
		ok, err := so()
		if ok {
			return nil
		}
		if time.Since(began) > within {
			return errors.Join(fmt.Errorf("%s did not come within %v", what, within), err)
		}
		if err := w.pause(20 * time.Millisecond); err != nil {
			return err
		}
	}
}
