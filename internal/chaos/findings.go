package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
)

// findings are what came of it all.
type findings struct {
	Requests int      `json:"requests"`
	Picked   int      `json:"through_the_picker"`
	Failed   int      `json:"failed"`
	Faults   []string `json:"faults,omitempty"` // of those that had no excuse, some of them
	Stored   int64    `json:"decisions_stored"`
	Outcomes int64    `json:"outcomes_stored"`
	Phases   []*phase `json:"phases"`

	bars []bench.Bar
}

func (f *findings) bar(name string, value float64, relation bench.Relation, bound float64) {
	f.bars = append(f.bars, bench.Bar{Name: name, Value: value, Relation: relation, Bound: bound})
}

// none claims that something did not happen once.
func (f *findings) none(name string, n float64) { f.bar(name, n, bench.AtMost, 0) }

// find judges each phase, and then the whole. last is what the last router's
// ledger held when all clients had left.
func (e *evidence) find(phases []*phase, last left) *findings {
	f := &findings{Requests: len(e.records), Phases: phases, Stored: e.counts.Decisions, Outcomes: e.counts.Outcomes}
	excused := map[int]bool{}
	for _, p := range phases {
		e.describe(p)
		switch p.Name {
		case "predictor killed":
			e.killed(f, p)
		case "predictor hung":
			e.hung(f, p)
		case "predictor hung from its start":
			e.mute(f, p)
		case "forecasts times ten", "forecasts constant", "forecasts reversed":
			e.wrong(f, p)
		case "forecasts not a number":
			e.impossible(f, p)
		case "trainer killed in a refit":
			f.bar("trainer_was_refitting", p.counts["held"], bench.AtLeast, 1)
		case "engine killed":
			excused = e.cut(f, p)
		case "endpoints come and go":
			e.churned(f, p)
		case "bundle stale":
			e.stale(f, p)
		case "router told to end":
			e.drained(f, p)
		}
	}
	e.whole(f, excused, last)
	return f
}

// describe counts what a phase had.
func (e *evidence) describe(p *phase) {
	p.Seconds = p.to.Sub(p.from).Seconds()
	for i := range e.records {
		r := &e.records[i]
		if p.contains(r.Sent) {
			p.Requests++
			if r.Proxied {
				p.Picked++
			}
		}
		if r.Fault != "" && p.contains(r.End) {
			p.Failed++
		}
	}
	for _, r := range e.decided(p.from, p.to) {
		if len(p.States) == 0 || p.States[len(p.States)-1] != r.State {
			p.States = append(p.States, r.State)
		}
	}
	p.Fallback = e.number(p.from, p.to, func(r *row) bool { return !r.predicted() })
}

func (p *phase) contains(t time.Time) bool { return !t.Before(p.from) && t.Before(p.to) }

// back claims that forecasts decide again once all is well: not before the hold
// has passed since, and not longer than late after it.
func (e *evidence) back(f *findings, name string, p *phase, since time.Time, late time.Duration) {
	at, ok := e.first(since, p.to, in("live"))
	took := math.NaN()
	if ok {
		took = at.Sub(since).Seconds()
	}
	p.tell("live again after %.1f s", took)
	// The first answer and the last second are the router's clock, since is ours.
	f.bars = append(f.bars, bench.Within(name+"_live_again_seconds", took, returnHold.Seconds(), (returnHold+late).Seconds())...)
}

func (p *phase) tell(format string, args ...any) {
	if p.Saw != "" {
		p.Saw += ", "
	}
	p.Saw += fmt.Sprintf(format, args...)
}

// starting is how long a predictor may take to start, to load its bundle and to be
// found, on a machine that has other things to do.
const starting = 4 * time.Second

func (e *evidence) killed(f *findings, p *phase) {
	failed, mended := p.marks["failed"], p.marks["mended"]
	f.none("predictor_killed_forecasts_decided_after", e.number(failed, mended, (*row).predicted))
	e.bothDoors(f, "predictor_killed", failed, mended)
	e.back(f, "predictor_killed", p, mended, starting)
}

// bothDoors claims that decisions were made for both kinds of clients while
// something was gone.
func (e *evidence) bothDoors(f *findings, name string, from, to time.Time) {
	f.bar(name+"_decisions_for_clients", e.number(from, to, func(r *row) bool { return !r.Proxied }), bench.AtLeast, 10)
	f.bar(name+"_decisions_for_proxies", e.number(from, to, func(r *row) bool { return r.Proxied }), bench.AtLeast, 10)
}

// mute judges a predictor that was hung before it had said anything: it is down,
// and no request waits for it.
func (e *evidence) mute(f *findings, p *phase) {
	failed, mended := p.marks["failed"], p.marks["mended"]
	f.none("predictor_hung_start_forecasts_decided_after", e.number(failed, mended, (*row).predicted))
	f.none("predictor_hung_start_decisions_not_in_down", e.number(failed, mended, func(r *row) bool { return r.State != "down" }))
	e.back(f, "predictor_hung_start", p, mended, starting)
}

// slowWindow is how long a late forecast counts: until it is over, one that was
// hung is still slow.
const slowWindow = 10 * time.Second

// breaker is how long the state may take to leave live after a predictor hung: the
// deadline, and the few requests that must miss it.
const breaker = time.Second

func (e *evidence) hung(f *findings, p *phase) {
	failed, mended := p.marks["failed"], p.marks["mended"]
	f.none("predictor_hung_forecasts_decided_after", e.number(failed.Add(deadline), mended, (*row).predicted))
	at, ok := e.first(failed, mended, func(r *row) bool { return r.State == "slow" || r.State == "down" })
	took := math.NaN()
	if ok {
		took = at.Sub(failed).Seconds()
	}
	waited := e.number(failed, mended, func(r *row) bool { return r.State == "live" && !r.predicted() })
	p.tell("out of live after %.2f s, %g requests waited for the deadline", took, waited)
	e.bothDoors(f, "predictor_hung", failed, mended)
	f.bar("predictor_hung_breaker_seconds", took, bench.AtMost, breaker.Seconds())
	f.bar("predictor_hung_requests_that_waited", waited, bench.AtMost, direct+proxied)
	e.back(f, "predictor_hung", p, mended, slowWindow+starting)
}

// badOutcomes is how many outcomes the last of which must have shown that forecasts
// are wrong, and wrongWithin how long that may take from there.
const (
	badOutcomes = 200
	wrongWithin = 2 * time.Second
)

func (e *evidence) wrong(f *findings, p *phase) {
	name := strings.ReplaceAll(p.Name, " ", "_")
	failed, mended := p.marks["failed"], p.marks["mended"]
	at, ok := e.first(failed, mended, in("wrong"))
	late := math.NaN()
	if ok {
		late = 0
		if bad, many := e.nth(badOutcomes, failed, mended, (*row).predicted); many {
			late = max(0, at.Sub(bad).Seconds())
		}
		seen := 0.0
		for n := 1; ; n++ {
			if end, more := e.nth(n, failed, mended, (*row).predicted); !more || end.After(at) {
				break
			}
			seen++
		}
		p.tell("wrong after %.1f s and %g outcomes", at.Sub(failed).Seconds(), seen)
		f.none(name+"_decided_after_wrong", e.number(at, mended, (*row).predicted))
	}
	f.bar(name+"_wrong_after_outcome_200_seconds", late, bench.AtMost, wrongWithin.Seconds())
	e.relearned(f, name, p)
}

func (e *evidence) impossible(f *findings, p *phase) {
	failed, mended := p.marks["failed"], p.marks["mended"]
	f.none("forecasts_not_a_number_decided", e.number(failed, mended, (*row).predicted))
	at, ok := e.first(failed, mended, in("wrong"))
	first, any := e.first(failed, mended, func(*row) bool { return true })
	took := math.NaN()
	if ok && any {
		took = at.Sub(first).Seconds()
	}
	p.tell("wrong %.3f s after the first decision", took)
	f.bar("forecasts_not_a_number_wrong_after_seconds", took, bench.AtMost, 0.05)
	e.relearned(f, "forecasts_not_a_number", p)
}

// relearned claims that forecasts decide again when they were right for as many
// outcomes as the router looks at, and the hold has passed.
func (e *evidence) relearned(f *findings, name string, p *phase) {
	mended := p.marks["mended"]
	right, ok := e.nth(badOutcomes, mended, p.to, func(r *row) bool { return r.Forecast })
	if !ok {
		right = p.to
	}
	e.back(f, name, p, mended, max(0, right.Sub(mended))+starting)
}

// cut judges what the death of an engine did, and returns which requests may have
// failed for it: those of which a part had come from it.
func (e *evidence) cut(f *findings, p *phase) map[int]bool {
	failed := p.marks["failed"]
	excused := map[int]bool{}
	var cut, picked, others, spared, slow float64
	for i := range e.records {
		r := &e.records[i]
		open := r.Endpoint == p.victim && !r.First.IsZero() && r.First.Before(failed) && r.End.After(failed.Add(-killing))
		switch {
		case open && r.Fault != "":
			excused[i] = true
			cut++
			if r.Proxied {
				picked++
			}
			if r.End.Sub(failed) > time.Second {
				slow++
			}
		case open && r.End.After(failed.Add(killing)):
			spared++
		case r.Fault != "" && p.contains(r.End):
			others++
		}
	}
	moved := e.number(p.from.Add(-patience), p.to, func(r *row) bool { return r.Attempt > 1 && r.Status == "ok" && p.contains(r.Finished) })
	known := e.number(p.from.Add(-patience), p.to, func(r *row) bool { return r.Status == "upstream_error" && near(r.Finished, failed) })
	p.tell("%g answers cut (%g behind the proxy), %g moved to another engine", cut, picked, moved)
	f.bar("engine_killed_clients_cut", cut-picked, bench.AtLeast, 1)
	f.bar("engine_killed_proxies_cut", picked, bench.AtLeast, 1)
	f.none("engine_killed_failed_without_excuse", others)
	f.none("engine_killed_whole_answers_of_the_dead", spared)
	f.none("engine_killed_told_late", slow)
	// A proxy's client that is cut off is no error of the engine's to the picker.
	f.bars = append(f.bars, bench.Within("engine_killed_rows_that_say_so", known, cut-picked, cut-picked)...)
	return excused
}

// killing is how long a death may take to be seen on its connections.
const killing = 100 * time.Millisecond

func near(t, failed time.Time) bool { return t.Sub(failed).Abs() < time.Second }

func (e *evidence) churned(f *findings, p *phase) {
	failed, mended := p.marks["failed"], p.marks["mended"]
	to := func(id string) func(*row) bool { return func(r *row) bool { return r.Chosen == id } }
	since := func(from time.Time, id string) float64 {
		if at, ok := e.first(from, p.to, to(id)); ok {
			return at.Sub(from).Seconds()
		}
		return math.NaN()
	}
	joined, returned := since(failed, p.newcomer), since(mended, p.victim)
	p.tell("the new one serves after %.1f s, the returned one after %.1f s", joined, returned)
	f.none("churn_decisions_for_one_that_left", e.number(failed.Add(reading), mended, to(p.victim)))
	f.bar("churn_new_endpoint_serves_seconds", joined, bench.AtMost, 4)
	f.bar("churn_returned_endpoint_serves_seconds", returned, bench.AtMost, 4)
	f.bars = append(f.bars, bench.Within("churn_new_incarnations", p.counts["restarts"], 1, 1)...)
	f.bars = append(f.bars, bench.Within("churn_bad_lines_rejected", p.counts["rejected"], 1, 1)...)
}

// reading is how long a change of the endpoints file may take to be in force.
const reading = time.Second

func (e *evidence) stale(f *findings, p *phase) {
	expired, mended := p.marks["failed"], p.marks["mended"]
	f.none("stale_bundle_decided", e.number(expired, mended, (*row).predicted))
	at, ok := e.first(expired, mended, in("stale"))
	took := math.NaN()
	if ok {
		took = at.Sub(expired).Seconds()
	}
	p.tell("stale after %.3f s", took)
	f.bar("stale_bundle_seconds", took, bench.AtMost, 0.5)
	e.back(f, "stale_bundle", p, mended, starting)
}

func (e *evidence) drained(f *findings, p *phase) {
	took := p.marks["mended"].Sub(p.marks["failed"]).Seconds()
	inside := 0.0
	for i := range e.records {
		if r := &e.records[i]; r.Sent.Before(p.marks["failed"]) && r.End.After(p.marks["failed"]) {
			inside++
		}
	}
	p.tell("%g requests under way, ended after %.1f s", inside, took)
	f.bar("router_end_seconds", took, bench.AtMost, drainTimeout.Seconds())
	f.bar("router_end_requests_under_way", inside, bench.AtLeast, 1)
	f.none("ledger_left_requests", p.left.requests)
	f.none("ledger_left_tokens", p.left.prefill)
}

// whole judges what holds of everything: nobody failed, no row is lost, none is
// there twice, nothing is left.
func (e *evidence) whole(f *findings, excused map[int]bool, last left) {
	stored, policies := map[string]float64{}, map[string]string{}
	for i := range e.rows {
		stored[e.rows[i].ID]++
		policies[e.rows[i].ID] = e.rows[i].Policy
	}
	var unexcused, picked, missing, twice, unended, unlike float64
	for i := range e.records {
		r := &e.records[i]
		if r.Proxied {
			f.Picked++
		}
		if r.Fault != "" {
			f.Failed++
			if !excused[i] {
				unexcused++
				if len(f.Faults) < 20 {
					f.Faults = append(f.Faults, fmt.Sprintf("%s of %s: %s", r.Sent.Format("15:04:05.000"), r.Endpoint, r.Fault))
				}
			}
		}
		if r.Picked {
			picked++
		}
		if r.Decision != "" && stored[r.Decision] == 0 {
			missing++
		}
		if policy, ok := policies[r.Decision]; ok && policy != r.Policy {
			unlike++
		}
	}
	for i := range e.rows {
		if stored[e.rows[i].ID] > 1 {
			twice++
		}
		if e.rows[i].Attempt == 0 {
			unended++
		}
	}
	f.none("requests_failed_without_excuse", unexcused)
	f.none("decisions_lost", missing)
	f.none("decisions_unlike_requests", math.Abs(picked-float64(e.counts.Decisions)))
	f.none("decisions_twice", twice)
	f.none("decisions_unlike_headers", unlike)
	f.none("decisions_without_outcome", unended)
	f.none("outcomes_unlike_decisions", math.Abs(float64(e.counts.Outcomes-e.counts.Joined)))
	f.none("last_ledger_left_requests", last.requests)
	f.none("last_ledger_left_tokens", last.prefill)
}

// print writes the table for people.
func (f *findings) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d requests, %d of them through the picker, %d failed; %d decisions and %d outcomes stored\n\n",
		f.Requests, f.Picked, f.Failed, f.Stored, f.Outcomes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "phase\tseconds\trequests\tpicker\tfailed\tby fallback\tstates\twhat was seen")
	for _, p := range f.Phases {
		fmt.Fprintf(t, "%s\t%.1f\t%d\t%d\t%d\t%g\t%s\t%s\n", p.Name, p.Seconds, p.Requests, p.Picked, p.Failed, p.Fallback, strings.Join(p.States, " "), p.Saw)
	}
	t.Flush()
	for _, fault := range f.Faults {
		fmt.Fprintln(w, "failed:", fault)
	}
	fmt.Fprintln(w)
}
