package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// outcomeRows is how many rows of the store a fit reads, the newest: far more
// than ten numbers need, and no more than memory holds easily.
const outcomeRows = 200_000

// classRows is what the store's rows tell of one class of endpoints.
type classRows struct {
	answers []fit.Answer
	limits  fit.Limits // as the newest row knew them; 0: not known
}

// fitOutcomes fits what the router itself recorded.
func fitOutcomes(cmd *cobra.Command, o *fitOptions) (*fitResult, error) {
	if o.own.window == 0 {
		return nil, errors.New("--window is needed: how far back the rows of outcomes go, such as 24h")
	}
	classes, seen, err := readClasses(cmd, &o.own)
	if err != nil {
		return nil, err
	}
	if len(classes) == 0 {
		return nil, o.own.none(seen)
	}
	class, err := theOne("--class", o.class, slices.Sorted(maps.Keys(classes)))
	if err != nil {
		return nil, err
	}
	rows := classes[class]
	var warnings []string
	if seen == outcomeRows {
		warnings = append(warnings, fmt.Sprintf("--window %v: only the newest %d rows are used", o.own.window, outcomeRows))
	}
	engine, err := o.engine(rows.limits, "the rows do not tell what the cache holds")
	if err != nil {
		return nil, err
	}
	a, err := fit.Answers(rows.answers, engine)
	var held fit.Errors
	if err == nil {
		held, err = fit.CrossAnswers(rows.answers, engine)
	}
	if err != nil {
		return nil, fmt.Errorf("--window %v: rows of %s on %s: %w", o.own.window, o.own.llm, class, err)
	}
	r := &fitResult{
		Rows: a.Rows, what: o.own.llm + " on " + class, warnings: warnings, coeff: a.Coefficients, overhead: a.Overhead, limits: rows.limits,
		Beside: []fitNumber{{"rows that only stood beside others", float64(len(rows.answers) - a.Rows), "rows"}},
	}
	return r.judged(&held), nil
}

// readClasses reads the store's rows by class. Rows of a retry are left out:
// their vector is of the endpoint that failed, and when they were sent is not
// known.
func readClasses(cmd *cobra.Command, own *ownRows) (classes map[string]*classRows, seen int, err error) {
	rows, done, err := own.open(cmd, outcomeRows)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	classes = map[string]*classRows{}
	var origin time.Time
	for r, err := range rows {
		if err != nil {
			return nil, 0, err
		}
		seen++
		if seen == 1 {
			origin = r.DecidedAt
		}
		a, ok := fit.AnswerOf(&r, origin)
		if !ok || r.Schema != feature.Schema || r.Outcome.Attempt != 1 || r.Outcome.Endpoint != r.Endpoint {
			continue
		}
		c := classes[r.Class]
		if c == nil {
			c = &classRows{}
			classes[r.Class] = c
		}
		c.answers = append(c.answers, a)
		c.learn(&r.Vector)
	}
	return classes, seen, nil
}

var (
	columnBudget    = feature.Index("max_batched_tokens")
	columnSequences = feature.Index("max_num_seqs")
	columnCache     = feature.Index("kv_capacity_tokens")
)

// learn keeps the limits that a vector knows.
func (c *classRows) learn(v *feature.Vector) {
	newest := func(limit *int, column int) {
		if v[column] >= 1 { // false where it is not known
			*limit = int(v[column])
		}
	}
	newest(&c.limits.MaxBatchedTokens, columnBudget)
	newest(&c.limits.MaxNumSeqs, columnSequences)
	newest(&c.limits.KVCapacityTokens, columnCache)
}
