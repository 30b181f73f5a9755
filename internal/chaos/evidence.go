package main

import (
	"context"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/router/policy"
)

// phase is one act of the story.
type phase struct {
	Name     string   `json:"phase"`
	Seconds  float64  `json:"seconds"`
	Requests int      `json:"requests"`
	Picked   int      `json:"through_the_picker"` // of them
	Failed   int      `json:"failed"`             // of them
	States   []string `json:"states"`             // of its decisions, in order
	Fallback float64  `json:"by_fallback"`        // decisions that forecasts did not make
	Saw      string   `json:"saw,omitempty"`      // what is particular

	from, to         time.Time
	marks            map[string]time.Time // failed and mended, where there is such a moment
	counts           map[string]float64
	victim, newcomer string // endpoints
	left             *left  // in the router's ledger, in the calm before
}

// mark notes when what does it had returned.
func (p *phase) mark(name string, do func()) {
	do()
	p.marks[name] = time.Now()
}

// row is a stored decision with its outcome.
type row struct {
	ID       string
	At       time.Time
	Router   string
	Policy   string
	State    string
	Reason   string
	Chosen   string
	Proxied  bool // asked for by a proxy
	Forecast bool // a forecast of the chosen endpoint is there, decided by it or not

	Attempt  int // of the outcome; 0: there is none
	Status   string
	Finished time.Time
}

func (r *row) predicted() bool { return r.Policy == policy.Predicted }

// evidence is everything that was seen from outside.
type evidence struct {
	rows    []row // in order of time
	records []record
	counts  featurestore.Counts
}

// read reads the store when everything has been written.
func (w *world) read() (*evidence, error) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	e := &evidence{records: w.crowd.Records()}
	from, to := w.began.Add(-time.Minute), time.Now().Add(time.Minute)
	var err error
	if e.counts, err = w.store.Count(ctx, from, to); err != nil {
		return nil, err
	}
	told := map[string]bool{}
	for i := range e.records {
		told[e.records[i].Decision] = true
	}
	for j, err := range w.store.Joined(ctx, "", from, to) {
		if err != nil {
			return nil, err
		}
		e.rows = append(e.rows, row{
			ID: j.Decision.ID.String(), At: j.Decision.DecidedAt, Router: j.Decision.Router, Policy: j.Decision.Policy,
			Proxied: !told[j.Decision.ID.String()], State: j.Decision.State, Reason: j.Decision.Reason, Chosen: j.Decision.Chosen, Forecast: j.Corrected.Known(),
			Attempt: j.Outcome.Attempt, Status: string(j.Outcome.Status), Finished: j.Outcome.FinishedAt,
		})
	}
	slices.SortStableFunc(e.rows, func(a, b row) int { return a.At.Compare(b.At) })
	return e, nil
}

// decided is the decisions made in [from, to).
func (e *evidence) decided(from, to time.Time) []row {
	at := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(e.rows, t, func(r row, t time.Time) int { return r.At.Compare(t) })
		return i
	}
	i := at(from)
	return e.rows[i:max(i, at(to))]
}

// first is when the first decision in [from, to) was made that is so; false when
// none is.
func (e *evidence) first(from, to time.Time, so func(*row) bool) (time.Time, bool) {
	rows := e.decided(from, to)
	for i := range rows {
		if so(&rows[i]) {
			return rows[i].At, true
		}
	}
	return time.Time{}, false
}

// number is how many decisions in [from, to) are so.
func (e *evidence) number(from, to time.Time, so func(*row) bool) (n float64) {
	rows := e.decided(from, to)
	for i := range rows {
		if so(&rows[i]) {
			n++
		}
	}
	return n
}

// nth is when the nth of the decisions in [from, to) that are so had its outcome;
// false when there are fewer.
func (e *evidence) nth(n int, from, to time.Time, so func(*row) bool) (time.Time, bool) {
	var ends []time.Time
	rows := e.decided(from, to)
	for i := range rows {
		if so(&rows[i]) && rows[i].Attempt > 0 {
			ends = append(ends, rows[i].Finished)
		}
	}
	if len(ends) < n {
		return time.Time{}, false
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[n-1], true
}

func in(state string) func(*row) bool { return func(r *row) bool { return r.State == state } }
