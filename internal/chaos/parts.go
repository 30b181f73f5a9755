package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/demo/child"
)

// The fleet: engines in processes of their own, one of them slower, none quite as
// its profile says.
const (
	engines    = 5
	llm        = "qwen3-32b"
	profile    = "qwen3-32b-h100-tp4-routing"
	slowFactor = 1.6
)

// engine is one simulated engine.
type engine struct {
	number  int
	port    int
	slow    bool
	process *child.Process
}

// id is what routers call it.
func (e *engine) id() string { return child.Local(e.port) }

func (e *engine) class() string {
	if e.slow {
		return "slow"
	}
	return "fast"
}

// start runs a new life of the engine at its address.
func (e *engine) start(w *world) (err error) {
	profile := profile
	if e.slow {
		profile = fmt.Sprintf("%s-x%g", profile, slowFactor)
	}
	seed := strconv.FormatUint(w.o.seed*100+uint64(e.number)+1, 10)
	name := fmt.Sprintf("engine-%d", e.number)
	e.process, err = child.Start(child.Command{Binary: w.o.binary, Dir: w.o.dir, Name: name, Args: []string{"fleet",
		"--endpoints", "1", "--port", strconv.Itoa(e.port), "--profile", profile, "--model", llm, "--perturb", seed, "--seed", seed}})
	if err != nil {
		return err
	}
	return e.process.Until(w.ctx, 30*time.Second, func(ctx context.Context) error { return child.Reachable(ctx, "tcp", e.id()) })
}

// router is one router process, or one to come.
type router struct {
	name                 string
	front, picker, admin string // host:port
	process              *child.Process
}

func (r *router) start(w *world) (err error) {
	r.process, err = w.run("router-"+r.name, "router", r.name+".yaml", r.ready)
	return err
}

// ready reports whether it wants requests, as a load balancer asks.
func (r *router) ready(ctx context.Context) error {
	_, err := r.tell(ctx, "/readyz")
	return err
}

// tell asks the second listener.
func (r *router) tell(ctx context.Context, path string) ([]byte, error) {
	return child.Tell(ctx, r.admin, path)
}

// status is the part of a router's status that is looked at.
type status struct {
	LLMs []struct {
		LLM    string `json:"llm"`
		State  string `json:"state"`
		Bundle int64  `json:"bundle"`
	} `json:"llms"`
	Endpoints []struct {
		ID            string  `json:"id"`
		InFlight      float64 `json:"in_flight"`
		PrefillTokens float64 `json:"prefill_tokens"`
	} `json:"endpoints"`
}

func (r *router) status(ctx context.Context) (s status, err error) {
	body, err := r.tell(ctx, "/status.json")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

// state is the forecast state, and the bundle that answered last.
func (s *status) state() (string, int64) {
	for _, l := range s.LLMs {
		if l.LLM == llm {
			return l.State, l.Bundle
		}
	}
	return "cold", 0
}

// inFlight is what the ledger holds of all endpoints.
func (s *status) inFlight() (requests, prefill float64) {
	for _, e := range s.Endpoints {
		requests += e.InFlight
		prefill += e.PrefillTokens
	}
	return requests, prefill
}

// counter reads a metric without labels.
func (r *router) counter(ctx context.Context, name string) (float64, error) {
	body, err := r.tell(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("router %s has no metric %s", r.name, name)
}

// Times, shorter than in production so that all of it happens within minutes, but
// for the deadline, which is longer: everything here, engines included, shares one
// machine.
const (
	returnHold   = 3 * time.Second
	deadline     = 150 * time.Millisecond
	refitEvery   = 5 * time.Second
	maxAge       = 45 * time.Second
	drainTimeout = 20 * time.Second
)

// configure writes the configuration of every process: first.yaml and second.yaml
// of the routers, the predictor's in both; trainer.yaml of a trainer that refits all
// the time, and keeper.yaml of one that keeps what is served fresh and refits
// nothing, so that no new bundle comes in the middle of a failure.
func (w *world) configure() error {
	common := fmt.Sprintf("profile: %[1]s\nclasses: {fast: %[1]s, slow: %[1]s-x%[2]g}\n", profile, slowFactor)
	for _, r := range w.routers {
		text := common + fmt.Sprintf(`store: {spool_dir: %q}
router:
  name: %s
  listen: %s
  admin: %s
  extproc_listen: %s
  extproc_tls: "off"
  forecast: {address: %q, deadline: %s, return_hold: %s}
  scrape: {interval: 500ms, timeout: 2s}
  endpoints_file: %q
  drain_delay: 1s
  drain_timeout: %s
predictor: {listen: %q, admin: "", poll_interval: 1s}
trainer: {schedule: "@every %s"}
`, filepath.Join(w.o.dir, "spool-"+r.name), r.name, r.front, r.admin, r.picker, w.address, deadline, returnHold, w.file, drainTimeout, w.address, refitEvery)
		if err := os.WriteFile(filepath.Join(w.o.dir, r.name+".yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, news := range map[string]int{"trainer": 40, "keeper": 1_000_000} {
		text := common + fmt.Sprintf(`predictor: {poll_interval: 1s}
trainer: {schedule: "@every %s", admin: "", held_out_share: 0.4, min_new_rows: %d, half_life: 1m, max_age: %s, drift_poll: 0s, seed: %d}
`, refitEvery, news, maxAge, w.o.seed)
		if err := os.WriteFile(filepath.Join(w.o.dir, name+".yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
