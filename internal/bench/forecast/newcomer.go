package main

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

const (
	// classHalf runs at half the speed that the router takes it to have: it is
	// given the profile of the others, as an endpoint that nobody calibrated is.
	classHalf = "uncalibrated"
	halfSpeed = 2
	// joinsAfter is how long after the split the newcomers join.
	joinsAfter = time.Minute

	newcomerBy       = time.Minute // since it joined, when its error is to be what it will stay
	newcomerRequests = 200         // or after so many requests
	newcomerWindow   = time.Minute // that is looked at then
	newcomerRatio    = 1.2         // of its final error
)

// newcomer is a fleet that is joined by endpoints of a class that nobody has
// seen.
var newcomer = scenario{
	name: "newcomer", workload: "rag", engines: 4, newcomers: 1, knee: kneeRetrieval, learned: dailyLoads,
	judged: []float64{0.7, 0.7, 0.7, 0.7, 0.7, 0.7}, each: 2 * time.Minute,
}

// settling is the errors of newcomers, |forecast/actual-1| of TTFT, in parts of
// their life.
type settling struct {
	first []float64 // of the first minute
	soon  []float64 // of the minute after it
	later []float64 // of the hundred requests after the first 200
	final []float64 // of the last two fifths of the requests
}

// add adds the requests of one run.
func (s *settling) add(l *logged) {
	own := map[string][]feature.Row{}
	for _, r := range l.judged {
		if r.Class == classHalf && r.Outcome.TTFT > 0 {
			own[r.Endpoint] = append(own[r.Endpoint], r)
		}
	}
	for _, rows := range own {
		joined := rows[0].DecidedAt
		for i, r := range rows {
			ape := math.Abs(float64(r.Corrected.TTFT.P50/r.Outcome.TTFT) - 1)
			switch age := r.DecidedAt.Sub(joined); {
			case age < newcomerBy:
				s.first = append(s.first, ape)
			case age < newcomerBy+newcomerWindow:
				s.soon = append(s.soon, ape)
			}
			if i >= newcomerRequests && i < newcomerRequests+100 {
				s.later = append(s.later, ape)
			}
			if i >= len(rows)*3/5 {
				s.final = append(s.final, ape)
			}
		}
	}
}

// newcomers judges how soon the forecasts of an unseen class are as good as they
// get.
func newcomers(ctx context.Context, seeds []uint64, report *bench.Report) (settlingTable, error) {
	var s settling
	for _, seed := range seeds {
		l, err := newcomer.run(ctx, seed)
		if err != nil {
			return settlingTable{}, err
		}
		s.add(&l)
	}
	t := settlingTable{Title: "endpoints of an unseen class at half speed, joining: median |error| of TTFT"}
	median := func(name string, errors []float64) float64 {
		slices.Sort(errors)
		m := evaluate.Quantile(errors, 0.5)
		t.Rows = append(t.Rows, settlingRow{name, len(errors), feature.Number(m)})
		return m
	}
	median("its first minute", s.first)
	soon, later := median("the minute after it", s.soon), median("100 requests after the first 200", s.later)
	final := median("the last two fifths of its requests", s.final)
	report.Bars = append(report.Bars, bench.Bar{Name: "newcomer_error_over_final", Value: min(soon, later) / final, Relation: bench.AtMost, Bound: newcomerRatio})
	return t, nil
}
