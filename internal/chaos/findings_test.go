package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

var start = time.UnixMilli(1_800_000_000_000)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// seen makes evidence of a decision every 50 ms from 0 to 60 s, alternately for a
// client and for a proxy, each answered within 0.4 s by one of two endpoints, all in
// live but for the states that are given from some second on.
func seen(states map[float64]string) *evidence {
	e := &evidence{}
	state := "live"
	for i := range 1200 {
		now := float64(i) / 20
		if s, ok := states[now]; ok {
			state = s
		}
		r := row{ID: fmt.Sprint("id ", i), At: at(now), Policy: policy.Predicted, State: state, Chosen: []string{"a", "b"}[i/2%2],
			Proxied: i%2 == 1, Forecast: state == "live" || state == "wrong", Attempt: 1, Status: "ok", Finished: at(now + 0.4)}
		if state != "live" {
			r.Policy = policy.TokenLoad
		}
		rec := record{Proxied: r.Proxied, Sent: at(now), First: at(now + 0.1), End: at(now + 0.4), Picked: true, Endpoint: r.Chosen}
		if !r.Proxied {
			rec.Decision, rec.Policy = r.ID, r.Policy
		}
		e.rows, e.records = append(e.rows, r), append(e.records, rec)
	}
	e.counts = featurestore.Counts{Decisions: 1200, Outcomes: 1200, Joined: 1200}
	return e
}

func act(name string, failed, mended float64) *phase {
	return &phase{Name: name, from: at(0), to: at(60), marks: map[string]time.Time{"failed": at(failed), "mended": at(mended)},
		counts: map[string]float64{}, victim: "a", newcomer: "b"}
}

// short is the bars that do not hold.
func short(f *findings) (names []string) {
	for _, b := range f.bars {
		if !b.Holds() {
			names = append(names, b.Name)
		}
	}
	return names
}

func TestFindings(t *testing.T) {
	healed := map[float64]string{10: "down", 18: "live"} // mended at 14
	for _, c := range []struct {
		name   string
		states map[float64]string
		phase  *phase
		spoil  func(*evidence)
		want   []string
	}{
		{"all is well", nil, act("begin", 0, 0), nil, nil},
		{"killed", healed, act("predictor killed", 10, 14), nil, nil},
		{"killed, and a forecast decides", healed, act("predictor killed", 10, 14), func(e *evidence) { e.rows[201].Policy = policy.Predicted },
			[]string{"predictor_killed_forecasts_decided_after"}},
		{"killed, and back too early", map[float64]string{10: "down", 16: "live"}, act("predictor killed", 10, 14), nil, []string{"predictor_killed_live_again_seconds_min"}},
		{"killed, and back too late", map[float64]string{10: "down", 26: "live"}, act("predictor killed", 10, 14), nil, []string{"predictor_killed_live_again_seconds_max"}},
		{"killed for good", map[float64]string{10: "down"}, act("predictor killed", 10, 14), nil,
			[]string{"predictor_killed_live_again_seconds_min", "predictor_killed_live_again_seconds_max"}},
		{"hung", map[float64]string{10.15: "slow", 18: "live"}, act("predictor hung", 10, 14), nil, nil},
		{"hung, and the breaker sleeps", map[float64]string{11.25: "slow", 18: "live"}, act("predictor hung", 10, 14), nil,
			[]string{"predictor_hung_breaker_seconds", "predictor_hung_forecasts_decided_after"}},
		{"mute", healed, act("predictor hung from its start", 10, 14), nil, nil},
		{"mute, and requests wait", map[float64]string{10: "slow", 18: "live"}, act("predictor hung from its start", 10, 14), nil,
			[]string{"predictor_hung_start_decisions_not_in_down"}},
		{"wrong after 200 outcomes", map[float64]string{20: "wrong", 40: "live"}, act("forecasts constant", 10, 25), nil, nil},
		{"wrong after too many", map[float64]string{24: "wrong", 40: "live"}, act("forecasts constant", 10, 25), nil, []string{"forecasts_constant_wrong_after_outcome_200_seconds"}},
		{"never wrong", nil, act("forecasts constant", 10, 25), nil,
			[]string{"forecasts_constant_wrong_after_outcome_200_seconds", "forecasts_constant_live_again_seconds_min"}},
		{"impossible", map[float64]string{10: "wrong", 18: "live"}, act("forecasts not a number", 10, 14), nil, nil},
		{"impossible, and decides", map[float64]string{10.1: "wrong", 18: "live"}, act("forecasts not a number", 10, 14), nil,
			[]string{"forecasts_not_a_number_decided", "forecasts_not_a_number_wrong_after_seconds"}},
		{"an engine is killed", nil, act("engine killed", 10.01, 14), cutAt(10.01), nil},
		{"an engine is killed, and another's answer is cut", nil, act("engine killed", 10.01, 14), func(e *evidence) {
			cutAt(10.01)(e)
			e.records[300].Fault = "cut"
		}, []string{"engine_killed_failed_without_excuse", "requests_failed_without_excuse"}},
		{"an engine is killed, and its answers are whole", nil, act("engine killed", 10.01, 14), nil,
			[]string{"engine_killed_clients_cut", "engine_killed_proxies_cut", "engine_killed_whole_answers_of_the_dead"}},
		{"stale", map[float64]string{10: "stale", 18: "live"}, act("bundle stale", 10, 14), nil, nil},
		{"stale, and decides", map[float64]string{10.2: "stale", 18: "live"}, act("bundle stale", 10, 14), nil, []string{"stale_bundle_decided"}},
		{"a row is lost", nil, act("begin", 0, 0), func(e *evidence) { e.rows = slices.Delete(e.rows, 4, 5) }, []string{"decisions_lost"}},
		{"a row is there twice", nil, act("begin", 0, 0), func(e *evidence) { e.rows = append(e.rows, e.rows[1199]) }, []string{"decisions_twice"}},
		{"a row too many", nil, act("begin", 0, 0), func(e *evidence) { e.counts.Decisions++ }, []string{"decisions_unlike_requests"}},
		{"an outcome is missing", nil, act("begin", 0, 0), func(e *evidence) { e.rows[7].Attempt = 0 }, []string{"decisions_without_outcome"}},
		{"an outcome too many", nil, act("begin", 0, 0), func(e *evidence) { e.counts.Outcomes++ }, []string{"outcomes_unlike_decisions"}},
		{"a header lies", nil, act("begin", 0, 0), func(e *evidence) { e.records[2].Policy = "random" }, []string{"decisions_unlike_headers"}},
		{"a request fails", nil, act("begin", 0, 0), func(e *evidence) { e.records[2].Fault = "status 502" }, []string{"requests_failed_without_excuse"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := seen(c.states)
			if c.spoil != nil {
				c.spoil(e)
			}
			got := short(e.find([]*phase{c.phase}, left{}))
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("short: %v, want %v", got, c.want)
			}
		})
	}
	if got := short(seen(nil).find(nil, left{requests: 1, prefill: 2})); len(got) != 2 {
		t.Errorf("something is left in the ledger: %v", got)
	}
}

// cutAt cuts what endpoint a streams.
func cutAt(seconds float64) func(*evidence) {
	return func(e *evidence) {
		for i := range e.records {
			r := &e.records[i]
			if r.Endpoint != "a" || !r.First.Before(at(seconds)) || !r.End.After(at(seconds)) {
				continue
			}
			r.Fault, r.End = "unexpected EOF", at(seconds+0.01)
			e.rows[i].Finished = r.End
			if !r.Proxied {
				e.rows[i].Status = "upstream_error"
			}
		}
	}
}

func TestImpostors(t *testing.T) {
	vectors := make([]feature.Vector, 2)
	for i, prior := range []feature.Prior{{TTFT: 0.1, TPOT: 0.01}, {TTFT: 0.4, TPOT: 0.02}} {
		vectors[i] = feature.Of(feature.Request{PromptTokens: 10}, feature.Load{}, prior)
	}
	for kind, holds := range map[string]func(a, b feature.Seconds) bool{
		timesTen:  func(a, b feature.Seconds) bool { return math.Abs(float64(a)-1) < 1e-6 && math.Abs(float64(b)-4) < 1e-6 },
		constant:  func(a, b feature.Seconds) bool { return a == b && a > 0 },
		reversed:  func(a, b feature.Seconds) bool { return a > b && b > 0 },
		notNumber: func(a, b feature.Seconds) bool { return a != a && b != b },
	} {
		i := impostor{garbage: kind, bundle: 5}
		a := i.answer(garbage[kind], vectors, start)
		if !holds(a.Forecasts[0].TTFT.P50, a.Forecasts[1].TTFT.P50) || a.Bundle != 5 || !a.Validated.Equal(start) {
			t.Errorf("%s: %+v", kind, a)
		}
	}
	if err := (&impostor{garbage: "nothing"}).run(t.Context()); err == nil {
		t.Error("nothing is a kind of garbage")
	}
}

func TestNoBinary(t *testing.T) {
	if err := judge(t.Context(), nil, options{binary: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no binary: %v", err)
	}
}
