package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/crowd"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

// How many clients there are of each front door, and how long they wait for an
// answer.
const (
	direct   = 12
	proxied  = 4
	patience = 30 * time.Second
)

const (
	engines  = 3
	llm      = "qwen3-32b"
	profile  = "qwen3-32b-h100-tp4-routing"
	sessions = 4 // of PgBouncer at Postgres, for all processes

	startWithin = 30 * time.Second
	endWithin   = 40 * time.Second
	between     = 1500 * time.Millisecond // two restarts
)

// world is everything that runs.
type world struct {
	o      options
	ctx    context.Context
	out    io.Writer
	began  time.Time
	dir    string
	env    []string
	store  *featurestore.Store // past the pooler
	admin  string
	routed *child.Process // the router that serves
	number int            // of routers started
	fallen []func()
}

// run does everything.
func run(ctx context.Context, out io.Writer, o options, dir string) (*findings, error) {
	w := &world{o: o, ctx: ctx, out: out, began: time.Now(), dir: dir}
	defer func() {
		for i := len(w.fallen) - 1; i >= 0; i-- {
			w.fallen[i]()
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the database's user enters it
		return nil, err
	}
	if err := w.database(); err != nil {
		return nil, err
	}
	c, err := w.fleet()
	if err != nil {
		return nil, err
	}
	if w.routed, err = w.start(); err != nil {
		return nil, err
	}
	if err := w.ready(w.routed); err != nil {
		return nil, err
	}
	asking, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.Run(asking, o.seed)
	}()
	found := &findings{}
	for i := range o.restarts {
		if err := w.pause(between); err != nil {
			return nil, err
		}
		r, err := w.restart(i%2 == 1)
		if err != nil {
			return nil, fmt.Errorf("restart %d: %w", i+1, err)
		}
		found.Restarts = append(found.Restarts, r)
		fmt.Fprintf(out, "%5.1f s  restart %d: %.2f s until the next serves alone, %.2f s until the last has ended\n",
			time.Since(w.began).Seconds(), i+1, r.Serving, r.Ended)
	}
	if err := w.pause(between); err != nil {
		return nil, err
	}
	leave()
	<-left
	w.routed.Stop(endWithin)
	if err := w.routed.Err(); err != nil {
		return nil, w.routed.Failure()
	}
	return found, found.read(ctx, w.store, w.began, c.Records())
}

func (w *world) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.routed.Done():
		return w.routed.Failure()
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// database starts Postgres and the pooler before it.
func (w *world) database() error {
	cluster, err := pglocal.Start(w.ctx, pglocal.Config{DataDir: filepath.Join(w.dir, "postgres")})
	if err != nil {
		return err
	}
	w.fallen = append(w.fallen, func() {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		_ = cluster.Stop(ctx)
	})
	pooler, err := pglocal.StartPooler(w.ctx, cluster, sessions)
	if err != nil {
		return err
	}
	w.fallen = append(w.fallen, pooler.Stop)
	through, err := pooler.Through(cluster.URL())
	if err != nil {
		return err
	}
	w.env = []string{"DATABASE_URL=" + through}
	if w.store, err = featurestore.Open(w.ctx, cluster.URL(), featurestore.Options{MaxConns: 2}); err != nil {
		return err
	}
	w.fallen = append(w.fallen, w.store.Close)
	return nil
}

// fleet starts the engines and writes the routers' configuration.
func (w *world) fleet() (*crowd.Crowd, error) {
	ports, err := child.FreePorts(engines + 3)
	if err != nil {
		return nil, err
	}
	list := ""
	for i, port := range ports[:engines] {
		seed := strconv.FormatUint(w.o.seed*100+uint64(i)+1, 10)
		p, err := child.Start(child.Command{Binary: w.o.binary, Dir: w.dir, Name: fmt.Sprintf("engine-%d", i), Args: []string{"fleet",
			"--endpoints", "1", "--port", strconv.Itoa(port), "--profile", profile, "--model", llm, "--perturb", seed, "--seed", seed}})
		if err != nil {
			return nil, err
		}
		w.fallen = append(w.fallen, func() { p.Stop(endWithin) })
		if err := p.Until(w.ctx, startWithin, func(ctx context.Context) error {
			return child.Reachable(ctx, "tcp", child.Local(port))
		}); err != nil {
			return nil, err
		}
		list += fmt.Sprintf("    - {url: \"http://%s\", class: fast, llms: [%s]}\n", child.Local(port), llm)
	}
	front, picker := child.Local(ports[engines]), child.Local(ports[engines+1])
	w.admin = child.Local(ports[engines+2])
	text := fmt.Sprintf(`profile: %[1]s
classes: {fast: %[1]s}
predictor: in-process
store: {spool_dir: %[2]q}
router:
  name: restarted
  listen: %[3]s
  admin: %[4]s
  extproc_listen: %[5]s
  extproc_tls: "off"
  handover: %[6]q
  drain_delay: 10s # for the next router to start
  endpoints:
%[7]s`, profile, filepath.Join(w.dir, "spool"), front, w.admin, picker, filepath.Join(w.dir, "handover.sock"), list)
	if err := os.WriteFile(w.config(), []byte(text), 0o644); err != nil {
		return nil, err
	}
	return crowd.New(crowd.Config{LLM: llm, Direct: direct, Proxied: proxied, Thinking: 100 * time.Millisecond, Patience: patience,
		Shared: 50, Own: 100, Once: true, Door: func() crowd.Door { return crowd.Door{Front: front, Picker: picker} }}), nil
}

func (w *world) config() string { return filepath.Join(w.dir, "spillway.yaml") }

// start starts the next router.
func (w *world) start() (*child.Process, error) {
	w.number++
	p, err := child.Start(child.Command{Binary: w.o.binary, Dir: w.dir, Name: fmt.Sprintf("router-%d", w.number), Env: w.env,
		Args: []string{"router", "--config", w.config()}})
	if err == nil {
		w.fallen = append(w.fallen, func() { p.Stop(endWithin) })
	}
	return p, err
}

// ready waits for the first router.
func (w *world) ready(p *child.Process) error {
	return p.Until(w.ctx, startWithin, func(ctx context.Context) error {
		_, err := child.Tell(ctx, w.admin, "/readyz")
		return err
	})
}

// restart lets the next router take the place of the one that serves: while that one
// knows of nothing, or after it was told to end.
func (w *world) restart(told bool) (r restart, err error) {
	last := w.routed
	r.Told, r.from = told, time.Now()
	if told {
		if err := last.Signal(syscall.SIGTERM); err != nil {
			return r, err
		}
	}
	if w.routed, err = w.start(); err != nil {
		return r, err
	}
	err = w.routed.Until(w.ctx, endWithin, func(context.Context) error {
		if r.Serving == 0 && takenOver(last) {
			r.Serving = time.Since(r.from).Seconds()
		}
		if !last.Ended() {
			return fmt.Errorf("the last router still runs: %s", last.Log())
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	if err := last.Err(); err != nil {
		return r, last.Failure()
	}
	r.to = time.Now()
	r.Ended = r.to.Sub(r.from).Seconds()
	return r, nil
}
