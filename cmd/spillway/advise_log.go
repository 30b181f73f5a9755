package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/export"
)

// log makes logged decisions the traffic, and the fleet that is found in them the
// fleet.
func (a *advising) log(cmd *cobra.Command) error {
	used := new(advise.Usage)
	enough := errors.New("the reader wants no more")
	logged := 0
	rows := func(yield func(simulate.Logged, error) bool) {
		err := a.rows.each(cmd, func(r *export.Row) error {
			logged++
			if learned, ok := r.Learned(); ok {
				used.Add(&learned)
			}
			if !yield(simulate.Logged{Decision: r.Decision, Outcome: r.Outcome}, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(simulate.Logged{}, err)
		}
	}
	model, err := simulate.Fit(rows, simulate.Options{Most: a.requests, Seed: a.seed})
	switch {
	case errors.Is(err, simulate.ErrNoRows):
		return a.rows.none()
	case err != nil:
		return err
	}
	found := model.Log()
	a.model, a.study.Logged = model, used
	a.study.Endpoints, a.study.Profile = len(found.Endpoints), advise.Middling(model.Engines(-1))
	a.study.Plan = advise.Same(model.Plan())
	believed, asked := model.Router()
	a.study.Engines = func(seed uint64) advise.Fleet {
		return advise.Fleet{Engines: model.Engines(int(seed % 8)), Believed: believed, Asked: asked} // the model has 8 draws
	}
	a.subject.Traffic = fmt.Sprintf("%d logged requests", logged)
	if found.LLM != "" {
		a.subject.Traffic += " of " + found.LLM
	}
	if found.Requests < logged {
		a.subject.Traffic += fmt.Sprintf(", of which the first %d are simulated", found.Requests)
	}
	a.subject.Fleet = fmt.Sprintf("the %d endpoints that were found in the log", len(found.Endpoints))
	for _, note := range found.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", note)
	}
	return nil
}
