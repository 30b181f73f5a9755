package main

import (
	"context"
	"iter"

	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
)

// replays is how often each setting is simulated on the fleet that was fitted to a log.
const replays = 5

// model is a fleet fitted to a log, and what it makes of the log itself.
type model struct {
	fitted *simulate.Model
	base   []simulate.Result
	check  *simulate.Check
	seeds  []uint64
	asked  int // requests
}

// fit fits a fleet to a log. b is the bundle that the log was made with; nil: none.
func fit(ctx context.Context, rows []row, b simulate.Forecaster, seed uint64) (*model, error) {
	m := &model{asked: len(rows)}
	var err error
	if m.fitted, err = simulate.Fit(logged(rows), simulate.Options{Forecaster: b, Seed: seed}); err != nil {
		return nil, err
	}
	for i := range replays {
		m.seeds = append(m.seeds, seed+uint64(i))
	}
	if m.base, err = m.fitted.Run(ctx, simulate.Setting{}, m.seeds); err != nil {
		return nil, err
	}
	m.check = m.fitted.Against(m.base)
	return m, nil
}

func logged(rows []row) iter.Seq2[simulate.Logged, error] {
	return func(yield func(simulate.Logged, error) bool) {
		for i := range rows {
			if !yield(simulate.Logged{Decision: *rows[i].decision, Outcome: *rows[i].outcome}, nil) {
				return
			}
		}
	}
}

// simulated are the quantities as package simulate names them.
var simulated = [quantities]string{"TTFT mean", "E2E mean"}

// ask asks the fitted fleet.
func (m *model) ask(ctx context.Context, s simulate.Setting, out *estimates) error {
	after, err := m.fitted.Run(ctx, s, m.seeds)
	if err != nil {
		return err
	}
	for _, e := range simulate.Compare(m.base, after, m.check) {
		for q, name := range simulated {
			if e.Metric != name {
				continue
			}
			out[anyway][q] = said(e.Change, m.asked)
			out[simulator][q] = out[anyway][q]
			if !m.check.Trusted {
				out[simulator][q] = refused(m.check.Why())
			}
		}
	}
	return nil
}
