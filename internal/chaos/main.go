// Command chaos runs every part of Spillway as a process of its own, under load
// through both front doors, and makes them fail: a predictor that is killed, hangs
// or talks nonsense, a trainer that dies in the middle of a refit, a Postgres that
// restarts or crashes, an engine that is killed while it streams, endpoints that
// come and go, a router that is told to end. What it claims it sees from outside:
// in what clients got, in what the router says of itself, in the rows of the store.
//
// It is a program like the benchmarks, not a verb: it proves promises to those who
// change the code, and writes what it found where other results stand. Users see
// the one failure that matters most in "spillway demo".
//
//	make chaos
//	go run ./internal/chaos --binary bin/spillway --json chaos.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

type options struct {
	binary string
	dir    string
	out    string
	json   string
	seed   uint64
}

func main() {
	var o options
	var actor impostor
	flag.StringVar(&o.binary, "binary", "bin/spillway", "the binary whose verbs are run")
	flag.StringVar(&o.dir, "dir", "", "where logs, configurations and the database go, kept afterwards; empty: a temporary folder, kept only when something is not as claimed")
	flag.StringVar(&o.out, "out", "", "folder for chaos.json, with the bars as benchmarks write them")
	flag.StringVar(&o.json, "json", "", "file for the same")
	flag.Uint64Var(&o.seed, "seed", 1, "of the traffic and of the engines' imperfections")
	_ = flag.String("data", "", "unused: nothing here is measured by others")
	flag.StringVar(&actor.garbage, "impostor", "", "be a predictor that answers so, and nothing else: for this program itself")
	flag.StringVar(&actor.address, "address", "", "of the impostor")
	flag.Int64Var(&actor.bundle, "bundle", 0, "that the impostor says it answers from")
	flag.Parse()
	bench.Main("chaos", func(ctx context.Context) error {
		if actor.garbage != "" {
			return actor.run(ctx)
		}
		return judge(ctx, os.Stdout, o)
	})
}

// judge lets everything go wrong, prints what came of it, and fails where that is
// not what is claimed.
func judge(ctx context.Context, w io.Writer, o options) (err error) {
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return fmt.Errorf("--binary: %w", err)
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("--binary: %w; \"make build\" makes it", err)
	}
	kept := o.dir != ""
	if o.dir, err = child.Folder(o.dir, "spillway-chaos-"); err != nil {
		return err
	}
	defer func() {
		switch {
		case kept:
		case err == nil:
			err = os.RemoveAll(o.dir)
		default:
			fmt.Fprintf(w, "what the processes said is in %s\n", o.dir)
		}
	}()
	found, broken := wreak(ctx, w, o)
	if found == nil {
		return broken
	}
	found.print(w)
	report := bench.Report{
		Name: "chaos", Command: "make chaos", Origin: bench.Here(), Seeds: []uint64{o.seed},
		Sizes: map[string]int{"requests": found.Requests, "through_the_picker": found.Picked, "phases": len(found.Phases), "engines": engines},
		Bars:  found.bars, Data: found,
	}
	report.Print(w)
	if broken != nil { // half a story is no result
		return errors.Join(broken, report.Err())
	}
	if o.out != "" {
		err = report.Save(o.out)
	}
	if o.json != "" {
		text, unwritable := json.MarshalIndent(report, "", "  ")
		err = errors.Join(err, unwritable, bench.Write(o.json, append(text, '\n')))
	}
	return errors.Join(err, report.Err())
}
