package main

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/trace"
)

// ownRows says which rows of the store a verb works on: those of one LLM's
// requests that were decided lately.
type ownRows struct {
	window time.Duration // how far back; 0: none were asked for
	llm    string        // "": the only one there is
}

// register adds the flags; use says what the rows are for.
func (o *ownRows) register(cmd *cobra.Command, use string) {
	cmd.Flags().DurationVar(&o.window, "window", 0, use)
	cmd.Flags().StringVar(&o.llm, "llm", "", "LLM whose rows of --window to use (default: the only one)")
}

// check finds mistakes in the flags alone.
func (o *ownRows) check() error {
	switch {
	case o.window < 0:
		return fmt.Errorf("--window: %v is no time back from now: want a positive duration, such as 1h", o.window)
	case o.window == 0 && o.llm != "":
		return errors.New("--llm chooses among the stored rows of --window, which is not given")
	}
	return nil
}

// open reads the rows, in order of time, each with its last attempt; limit
// keeps the newest, 0 all. It fills in o.llm. The caller calls done at the end.
func (o *ownRows) open(cmd *cobra.Command, limit int) (rows iter.Seq2[feature.Row, error], done func(), err error) {
	store, err := askStore(cmd)
	if err != nil {
		return nil, nil, err
	}
	llms, err := store.LLMs(cmd.Context())
	if err == nil {
		o.llm, err = theOne("--llm", o.llm, llms)
	}
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	now := time.Now()
	return store.Window(cmd.Context(), o.llm, now.Add(-o.window), now, limit), store.Close, nil
}

// none is the error of a window without a row to use.
func (o *ownRows) none(seen int) error {
	if seen > 0 {
		return fmt.Errorf("--window %v: none of the %d rows of %s is of a request that was served", o.window, seen, o.llm)
	}
	return fmt.Errorf("--window %v: no rows of %s are that young", o.window, o.llm)
}

// theOne is the wanted one of the names, or the only one when none is wanted.
func theOne(flag, wanted string, names []string) (string, error) {
	switch {
	case len(names) == 0:
		return "", errors.New("--window: the store at DATABASE_URL holds no decisions")
	case wanted == "" && len(names) == 1:
		return names[0], nil
	case wanted == "":
		return "", fmt.Errorf("%s is needed: the rows are of %s", flag, strings.Join(names, ", "))
	case !slices.Contains(names, wanted):
		return "", fmt.Errorf("%s %q: the rows are of %s", flag, wanted, strings.Join(names, ", "))
	}
	return wanted, nil
}

// items is the traffic that the rows tell of, as a trace. What is left out is
// told on standard error.
func (o *ownRows) items(cmd *cobra.Command) ([]trace.Item, error) {
	rows, done, err := o.open(cmd, 0)
	if err != nil {
		return nil, err
	}
	defer done()
	var served []trace.Row
	seen := 0
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		seen++
		if r.Schema != feature.Schema || r.Outcome.Status != feature.OK {
			continue
		}
		cached := r.Outcome.CachedTokens // as the engine says, else as the router believed
		if feature.IsUnknown(cached) {
			cached = float64(r.Vector[feature.ColumnCachedTokens])
		}
		served = append(served, trace.Row{
			At: r.DecidedAt, PromptTokens: float64(r.Vector[feature.ColumnPromptTokens]),
			OutputTokens: r.Outcome.OutputTokens, CachedTokens: cached,
		})
	}
	items, _ := trace.FromRows(served)
	if len(items) == 0 {
		return nil, o.none(seen)
	}
	if leftOut := seen - len(items); leftOut > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "--window %v: %d rows left out that are not of a served request with known lengths, %d used\n", o.window, leftOut, len(items))
	}
	return items, nil
}

// windowUse is what the flag --window says where rows are replayed.
const windowUse = "replay the served requests of the last so long from the store at DATABASE_URL, such as 1h; " +
	"prompts are not stored, so what the engines had cached of each becomes the beginning of one shared text: " +
	"an approximation, for it no longer matters which endpoint held what"
