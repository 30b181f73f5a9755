package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

// The fleet: engines of two speeds, none quite as its profile says.
const (
	engines    = 5
	slow       = 2
	slowFactor = 1.6
	llm        = "qwen3-32b"
	profile    = "qwen3-32b-h100-tp4-routing"
	clients    = 60
)

// world is everything that runs.
type world struct {
	o       options
	ctx     context.Context
	out     io.Writer
	began   time.Time
	cluster *pglocal.Cluster
	env     []string

	engines                                          []string // host:port
	front, picker, routerAdmin, shared               string
	predictorAdmin, trainerAdmin, watch              string
	fleet, predictor, trainer, router, load, watcher *child.Process
}

func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.out, "%5.1f s  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *world) prometheusAPI() api { return api{"http://" + w.watch} }

// raise starts everything, each when what it needs is there.
func (w *world) raise() (err error) {
	if w.cluster, err = pglocal.Start(w.ctx, pglocal.Config{DataDir: filepath.Join(w.o.dir, "postgres")}); err != nil {
		return err
	}
	w.env = []string{"DATABASE_URL=" + w.cluster.URL()}
	migrate, err := w.start("migrate", "store", "migrate")
	if err != nil {
		return err
	}
	select {
	case <-migrate.Done():
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	if migrate.Err() != nil {
		return migrate.Failure()
	}
	if err := w.startFleet(); err != nil {
		return err
	}
	if err := w.configure(); err != nil {
		return err
	}
	if w.watcher, err = child.Start(child.Command{Binary: w.o.prometheus, Dir: w.o.dir, Name: "prometheus", Args: []string{
		"--config.file=" + filepath.Join(w.o.dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(w.o.dir, "tsdb"),
		"--web.listen-address=" + w.watch, "--log.level=warn"}}); err != nil {
		return fmt.Errorf("%w; Debian's package prometheus has it", err)
	}
	for _, part := range []struct {
		process *(*child.Process)
		name    string
	}{{&w.predictor, "predictor"}, {&w.trainer, "trainer"}, {&w.router, "router"}} {
		if *part.process, err = w.start(part.name, part.name, "--config", filepath.Join(w.o.dir, "spillway.yaml")); err != nil {
			return err
		}
	}
	if err := w.router.Until(w.ctx, 30*time.Second, w.routerReady); err != nil {
		return err
	}
	if err := w.watcher.Until(w.ctx, 30*time.Second, func(ctx context.Context) error {
		_, err := child.Tell(ctx, w.watch, "/-/ready")
		return err
	}); err != nil {
		return err
	}
	if w.load, err = w.start("load", "load", "--url", "http://"+w.front, "--model", llm, "--workload", "interactive-chat",
		"--concurrency", strconv.Itoa(clients), "--rate", "20", "--seed", strconv.FormatUint(w.o.seed, 10)); err != nil {
		return err
	}
	w.say("%d engines, router, predictor, trainer, load and Prometheus run", engines)
	return nil
}

// start runs a verb.
func (w *world) start(name string, args ...string) (*child.Process, error) {
	return child.Start(child.Command{Binary: w.o.binary, Dir: w.o.dir, Name: name, Env: w.env, Args: args})
}

func (w *world) startFleet() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	seed := strconv.FormatUint(w.o.seed, 10)
	w.fleet, err = child.Start(child.Command{Binary: w.o.binary, Dir: w.o.dir, Name: "fleet", Out: write, Args: []string{"fleet", "--json", "--port", "0", "--model", llm,
		"--endpoints", strconv.Itoa(engines), "--slow", strconv.Itoa(slow), "--slow-factor", fmt.Sprint(slowFactor), "--profile", profile, "--perturb", seed, "--seed", seed}})
	write.Close()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(read).ReadBytes('\n')
	if err != nil {
		<-w.fleet.Done()
		return w.fleet.Failure()
	}
	var urls []string
	if err := json.Unmarshal(line, &urls); err != nil {
		return fmt.Errorf("read the fleet's URLs: %w", err)
	}
	for _, url := range urls {
		w.engines = append(w.engines, strings.TrimPrefix(url, "http://"))
	}
	return nil
}

func class(engine int) string {
	if engine >= engines-slow {
		return "slow"
	}
	return "fast"
}

// configure writes spillway.yaml, the file of endpoints and prometheus.yaml. Times
// are shorter than in production, and the forecast deadline longer: everything,
// engines included, shares one machine. The router's only peer is itself.
func (w *world) configure() error {
	ports, err := child.FreePorts(7)
	if err != nil {
		return err
	}
	for i, address := range []*string{&w.front, &w.picker, &w.routerAdmin, &w.shared, &w.predictorAdmin, &w.trainerAdmin, &w.watch} {
		*address = child.Local(ports[i])
	}
	var endpoints []byte
	jobs := map[string][]target{
		"spillway-router":    {{address: w.routerAdmin}},
		"spillway-predictor": {{address: w.predictorAdmin}},
		"spillway-trainer":   {{address: w.trainerAdmin}},
	}
	for i, e := range w.engines {
		endpoints = fmt.Appendf(endpoints, "- {url: %q, class: %s, llms: [%s]}\n", "http://"+e, class(i), llm)
		jobs["engines"] = append(jobs["engines"], target{e, map[string]string{"class": class(i)}})
	}
	scraping, err := pointed(w.o.deploy, jobs)
	if err != nil {
		return err
	}
	inDir := func(name string) string { return filepath.Join(w.o.dir, name) }
	socket := "unix://" + inDir("predictor.sock")
	if len(socket) > 100 { // a socket's path is bounded
		return fmt.Errorf("--dir: %s is too long for a socket; name a shorter one", w.o.dir)
	}
	config := fmt.Sprintf(`profile: %[1]s
classes: {fast: %[1]s, slow: %[1]s-x%[2]g}
store: {spool_dir: %[3]q}
router:
  name: watched
  listen: %[4]s
  admin: %[5]s
  extproc_listen: %[6]s
  extproc_tls: "off"
  share_listen: %[7]s
  share_salt_file: %[8]q
  peers: [%[7]q]
  forecast: {address: %[9]q, deadline: 150ms, return_hold: 1s}
  endpoints_file: %[10]q
predictor: {listen: %[9]q, admin: %[11]s, poll_interval: 1s}
trainer: {schedule: "@every 5s", admin: %[12]s, held_out_share: 0.4, min_new_rows: 40, half_life: 1m, seed: %[13]d}
`, profile, slowFactor, inDir("spool"), w.front, w.routerAdmin, w.picker, w.shared, inDir("salt"), socket, inDir("endpoints.yaml"), w.predictorAdmin, w.trainerAdmin, w.o.seed)
	for name, text := range map[string][]byte{
		"spillway.yaml":   []byte(config),
		"endpoints.yaml":  endpoints,
		"prometheus.yaml": scraping,
		"salt":            []byte("c2l4dGVlbiBieXRlcyBhdCBsZWFzdCwgYW5kIG1vcmU=\n"),
	} {
		if err := os.WriteFile(inDir(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) routerReady(ctx context.Context) error {
	_, err := w.tell(ctx, "/readyz")
	return err
}

// tell asks the router's second listener.
func (w *world) tell(ctx context.Context, path string) ([]byte, error) {
	return child.Tell(ctx, w.routerAdmin, path)
}

// is reports whether forecasts are in a state.
func (w *world) is(state string) func(context.Context) error {
	return func(ctx context.Context) error {
		body, err := w.tell(ctx, "/status.json")
		if err != nil {
			return err
		}
		var status struct {
			LLMs []struct{ LLM, State, Reason string }
		}
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		for _, l := range status.LLMs {
			if l.LLM == llm && l.State == state {
				return nil
			}
		}
		return fmt.Errorf("forecasts are not %s: %+v", state, status.LLMs)
	}
}

// story lets things happen that give every expression something to look at:
// forecasts are learned and decide, then their predictor dies.
func (w *world) story(j *judge) error {
	if err := w.router.Until(w.ctx, w.o.learning, w.is("live")); err != nil {
		return err
	}
	w.say("the first bundle decides")
	if err := w.pause(12 * time.Second); err != nil {
		return err
	}
	if err := j.well(w.ctx); err != nil {
		return err
	}
	w.say("the predictor is killed")
	w.predictor.Kill()
	if err := w.router.Until(w.ctx, 10*time.Second, w.is("down")); err != nil {
		return err
	}
	if err := w.watcher.Until(w.ctx, 20*time.Second, func(ctx context.Context) error {
		n, err := j.ask.now(ctx, `ALERTS{alertname="SpillwayPredictorDown", alertstate="pending"}`)
		if err == nil && len(n) != 1 {
			err = fmt.Errorf("SpillwayPredictorDown is pending %d times", len(n))
		}
		return err
	}); err != nil {
		return err
	}
	return w.pause(2 * time.Second) // what failed is scraped
}

// pause lets time go by, unless something ends that must not.
func (w *world) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	for _, p := range []*child.Process{w.fleet, w.trainer, w.router, w.load, w.watcher} {
		if p.Ended() {
			return p.Failure()
		}
	}
	return nil
}

// fall ends everything, in the order in which nothing complains.
func (w *world) fall() error {
	for _, p := range []*child.Process{w.load, w.router, w.trainer, w.predictor, w.fleet, w.watcher} {
		p.Stop(10 * time.Second)
	}
	if w.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 30*time.Second)
	defer cancel()
	return w.cluster.Stop(ctx)
}
