package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spillway-llm/spillway/internal/dashboards"
)

// window is what rates of panels are taken over in a run that is scraped each
// second.
const window = 10 * time.Second

// judge asks every expression of what is deployed.
type judge struct {
	deployed
	ask   api
	wrong []string
}

func (j *judge) say(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// well notes each critical alert that would fire, sooner or later, while nothing is
// wrong. The others may speak of a machine that does too much at once.
func (j *judge) well(ctx context.Context) error {
	for i := range j.rules {
		r := &j.rules[i]
		if r.Labels["severity"] != dashboards.Critical {
			continue
		}
		series, err := j.ask.now(ctx, r.Expr)
		if err != nil {
			return fmt.Errorf("alert %s: %w", r.Alert, err)
		}
		for _, s := range series {
			j.say("alert %s has something to say of a fleet that is well: %s", r.Alert, s)
		}
	}
	return nil
}

// report asks all that was between two moments, prints what is wrong, and fails if
// anything is.
func (j *judge) report(ctx context.Context, out io.Writer, from, to time.Time) error {
	panels, queries, err := j.panels(ctx, from, to)
	if err != nil {
		return err
	}
	selectors, err := j.selectors(ctx, from, to)
	if err != nil {
		return err
	}
	broken, err := j.ask.broken(ctx)
	if err != nil {
		return err
	}
	j.wrong = append(j.wrong, broken...)
	for _, sentence := range j.wrong {
		fmt.Fprintln(out, sentence)
	}
	fmt.Fprintf(out, "%d dashboards with %d panels and %d queries, %d rules with %d selectors; %d expected to be empty\n",
		len(j.boards), panels, queries, len(j.rules), selectors, len(j.expected.Queries)+len(j.expected.Selectors))
	if len(j.wrong) > 0 {
		return fmt.Errorf("%d things are wrong", len(j.wrong))
	}
	return nil
}

// panels asks every query of every panel.
func (j *judge) panels(ctx context.Context, from, to time.Time) (panels, queries int, err error) {
	reasons := map[dashboards.ExpectedQuery]bool{} // without the reason itself; true once met
	for _, q := range j.expected.Queries {
		q.Because = ""
		reasons[q] = false
	}
	for i := range j.boards {
		board := &j.boards[i]
		for _, p := range board.Panels {
			panels++
			for _, q := range p.Queries {
				queries++
				name := fmt.Sprintf("%s: %q, query %s", board.Name, p.Title, q.Ref)
				n, err := j.ask.span(ctx, board.Filled(q.Expr, window), from, to)
				if err != nil {
					j.say("%s: %v: %s", name, err, q.Expr)
					continue
				}
				key := dashboards.ExpectedQuery{Dashboard: board.Name, Panel: p.Title, Ref: q.Ref}
				_, expected := reasons[key]
				if expected {
					reasons[key] = true
				}
				switch {
				case n == 0 && !expected:
					j.say("%s found nothing: %s", name, q.Expr)
				case n > 0 && expected:
					j.say("%s found data and is expected to be empty", name)
				}
			}
		}
	}
	for _, q := range j.expected.Queries {
		q.Because = ""
		if !reasons[q] {
			j.say("expected to be empty, and not there: %s: %q, query %s", q.Dashboard, q.Panel, q.Ref)
		}
	}
	return panels, queries, ctx.Err()
}

// selectors asks for each series that rules are made from.
func (j *judge) selectors(ctx context.Context, from, to time.Time) (int, error) {
	reasons := map[string]bool{} // true once met
	for _, s := range j.expected.Selectors {
		reasons[s.Selector] = false
	}
	asked := map[string]bool{}
	for i := range j.rules {
		for _, s := range dashboards.Selectors(j.rules[i].Expr) {
			if asked[s] {
				continue
			}
			asked[s] = true
			n, err := j.ask.span(ctx, s, from, to)
			if err != nil {
				return 0, fmt.Errorf("rule %s: %w", j.rules[i].Name(), err)
			}
			_, expected := reasons[s]
			if expected {
				reasons[s] = true
			}
			switch {
			case n == 0 && !expected:
				j.say("rule %s looks at nothing: %s", j.rules[i].Name(), s)
			case n > 0 && expected:
				j.say("%s found data and is expected to be empty", s)
			}
		}
	}
	for _, s := range j.expected.Selectors {
		if !reasons[s.Selector] {
			j.say("expected to be empty, and in no rule: %s", s.Selector)
		}
	}
	return len(asked), nil
}
