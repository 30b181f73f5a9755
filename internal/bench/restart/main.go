// Command restart restarts a router again and again under load, through both front
// doors, and counts what its clients and its store lost. Clients keep their
// connections and try nothing twice; the store is reached through PgBouncer in
// transaction mode. Every other time the next router is started while the last one
// runs, and every other time after that one was told to end.
//
//	make bench-restart
//	go run ./internal/bench/restart --binary bin/spillway --restarts 4
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spillway-llm/spillway/internal/bench"
)

type options struct {
	binary   string
	out      string
	restarts int
	seed     uint64
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/spillway", "the binary whose verbs are run")
	flag.StringVar(&o.out, "out", "", "folder for restart.json; empty: none")
	flag.IntVar(&o.restarts, "restarts", 20, "how often the router is restarted, at least 2")
	flag.Uint64Var(&o.seed, "seed", 1, "of the traffic and of the engines' imperfections")
	_ = flag.String("data", "", "unused: nothing here is measured by others")
	flag.Parse()
	bench.Main("bench-restart", func(ctx context.Context) error { return judge(ctx, os.Stdout, o) })
}

// judge restarts, prints what came of it, and fails where something was lost.
func judge(ctx context.Context, w io.Writer, o options) (err error) {
	if o.restarts < 2 {
		return fmt.Errorf("--restarts: %d; want at least 2, one of each kind", o.restarts)
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return fmt.Errorf("--binary: %w", err)
	}
	dir, err := os.MkdirTemp("", "spillway-restart-")
	if err != nil {
		return err
	}
	found, err := run(ctx, w, o, dir)
	if err != nil {
		return fmt.Errorf("%w; what the processes said is in %s", err, dir)
	}
	found.print(w)
	report := bench.Report{
		Name: "restart", Command: "make bench-restart", Origin: bench.Here(), Seeds: []uint64{o.seed},
		Sizes: map[string]int{"restarts": len(found.Restarts), "requests": found.Requests, "through_the_picker": found.Picked, "engines": engines},
		Bars:  found.bars(o.restarts), Data: found,
	}
	report.Print(w)
	if o.out != "" {
		err = report.Save(o.out)
	}
	if err = errors.Join(err, report.Err()); err == nil {
		return os.RemoveAll(dir)
	}
	return fmt.Errorf("%w; what the processes said is in %s", err, dir)
}
