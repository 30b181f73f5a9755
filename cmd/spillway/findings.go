package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// findings is how a verb that judges gives what it found: as a table or as JSON, and
// on a page with plots beside either.
type findings[R any] struct {
	judge func(*cobra.Command) (R, error)
	table func(io.Writer, *R) error
	page  func(w io.Writer, r *R, command string) error
	json  func(*R) any

	path   string
	asJSON bool
}

func (a *findings[R]) register(f *pflag.FlagSet) {
	f.BoolVar(&a.asJSON, "json", false, "print JSON instead of the table")
	f.StringVar(&a.path, "report", "", "write a page with plots to this file")
}

// give judges and writes. The page's file is begun before, for nobody should wait
// minutes to hear that it can't be.
func (a *findings[R]) give(cmd *cobra.Command) (found R, err error) {
	file, err := draftOf(a.path)
	if err != nil {
		return found, fmt.Errorf("--report: %w", err)
	}
	found, err = a.judge(cmd)
	if err == nil && file != nil {
		if err = a.page(file, &found, commandLine()); err != nil {
			err = fmt.Errorf("--report %s: %w", a.path, err)
		}
	}
	if err = file.end(err); err != nil {
		return found, err
	}
	if a.asJSON {
		return found, json.NewEncoder(cmd.OutOrStdout()).Encode(a.json(&found))
	}
	return found, a.table(cmd.OutOrStdout(), &found)
}

// reported is a report as JSON, with the command that made it.
type reported[R any] struct {
	Command string `json:"command"`
	Report  *R     `json:"report"`
}

func reportedBy[R any](r *R) any { return reported[R]{commandLine(), r} }
