// Command verify evaluates every expression of the dashboards and rules in deploy
// against a Prometheus that scrapes a real, short run: simulated engines, router,
// predictor, trainer and load, each a process of its own. An expression that finds
// no data is an error, unless deploy/grafana/expected-empty.yaml says why; so is an
// entry there that does find some, and a critical alert that would fire while all is
// well.
//
//	make verify-dashboards
//	go run ./internal/dashboards/verify --binary bin/spillway --deploy deploy
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spillway-llm/spillway/internal/dashboards"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

type options struct {
	binary     string
	prometheus string
	deploy     string
	dir        string
	seed       uint64
	learning   time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/spillway", "the binary whose verbs are run")
	flag.StringVar(&o.prometheus, "prometheus", "prometheus", "the Prometheus server")
	flag.StringVar(&o.deploy, "deploy", "deploy", "folder of grafana and prometheus")
	flag.StringVar(&o.dir, "dir", "", "where logs, configurations and databases go, kept afterwards; empty: a temporary folder, kept only when something is wrong")
	flag.Uint64Var(&o.seed, "seed", 1, "of the traffic and of the engines' imperfections")
	flag.DurationVar(&o.learning, "learning", 2*time.Minute, "how long the first bundle may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := verify(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "verify-dashboards:", err)
		os.Exit(1)
	}
}

// deployed is what is verified.
type deployed struct {
	boards   []dashboards.Dashboard
	rules    []dashboards.Rule
	expected *dashboards.Expected
}

func read(deploy string) (d deployed, err error) {
	if d.boards, err = dashboards.Read(os.DirFS(filepath.Join(deploy, "grafana"))); err != nil {
		return d, fmt.Errorf("--deploy: %w", err)
	}
	rules, err := os.ReadFile(filepath.Join(deploy, "prometheus", "rules.yaml"))
	if err != nil {
		return d, fmt.Errorf("--deploy: %w", err)
	}
	if d.rules, err = dashboards.ReadRules(rules); err != nil {
		return d, err
	}
	empty, err := os.ReadFile(filepath.Join(deploy, "grafana", "expected-empty.yaml"))
	if err != nil {
		return d, fmt.Errorf("--deploy: %w", err)
	}
	d.expected, err = dashboards.ReadExpected(empty)
	return d, err
}

// verify runs everything, asks, and prints what is not as it must be.
func verify(ctx context.Context, out io.Writer, o options) (err error) {
	for _, path := range []*string{&o.binary, &o.deploy} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("--binary: %w; \"make build\" makes it", err)
	}
	what, err := read(o.deploy)
	if err != nil {
		return err
	}
	kept := o.dir != ""
	if o.dir, err = child.Folder(o.dir, "spillway-verify-"); err != nil {
		return err
	}
	defer func() {
		switch {
		case kept:
		case err == nil:
			err = os.RemoveAll(o.dir)
		default:
			fmt.Fprintf(out, "what the processes said is in %s\n", o.dir)
		}
	}()
	w := &world{o: o, ctx: ctx, out: out, began: time.Now()}
	defer func() { err = errors.Join(err, w.fall()) }()
	if err := w.raise(); err != nil {
		return err
	}
	j := &judge{deployed: what, ask: w.prometheusAPI()}
	if err := w.story(j); err != nil {
		return err
	}
	return j.report(ctx, out, w.began, time.Now())
}
