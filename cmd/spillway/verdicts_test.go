package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/trainer"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// Every number that decided is shown, and why a candidate was refused.
func TestTrainerVerdicts(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	if out := must(t, database, "trainer", "verdicts"); !strings.Contains(out, "no verdicts") {
		t.Errorf("without verdicts it prints %q", out)
	}
	if out := must(t, database, "trainer", "verdicts", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("without verdicts it prints %q", out)
	}
	_, publishBundle := publisher(t, database)
	i := evaluate.Interval{Mean: 0.1234, Low: 0.1, High: 0.15}
	full := trainer.Verdict{
		Reasons: []string{"loses to the served bundle"}, Grounds: []trainer.Ground{trainer.WorseThanServed},
		LearnRows: 300, HeldOut: 100, VersusPrior: i, VersusCART: i, VersusLevel: i, VersusServed: &i,
		Heads: []trainer.HeadVerdict{{Head: "ttft_p50", Rows: 100, Distinct: 77, Candidate: i, Prior: i, CART: i, Served: &i, Below: 0.51,
			GoesBy: []learn.Importance{{Feature: "waiting", Gain: 0.6, Rise: 0.02}, {Feature: "kv_used", Gain: 0.2, Rise: 0.01}, {Feature: "running", Gain: 0.1, Rise: -0.001}, {Feature: "scrape_age", Gain: 0.1, Rise: -0.002}}}},
		Order:    []trainer.OrderVerdict{{Latency: "ttft", Candidate: i, Prior: i, CART: i, Served: &i, OverPrior: i, OverCART: i, OverServed: &i, Spread: evaluate.BiasSpread{Typical: 0.043}}},
		Coverage: []trainer.CoverageVerdict{{Head: "ttft_p90", Band: "q3", Rows: 2500, Effective: 1234, Share: i, Judged: true}},
		Cost:     trainer.Cost{Bytes: 54321, Forecast: 0.00012}, Pairs: 4000, Falls: 3, TTFTMedianAPE: 0.056,
		Beside: &trainer.Beside{Version: 9, Good: true}, Flawed: map[trainer.Flaw]int{trainer.FlawTimes: 8},
	}
	publish := func(llm string, v trainer.Verdict) {
		t.Helper()
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		publishBundle(featurestore.Bundle{LLM: llm, Verdict: text, Accepted: v.Accepted})
	}
	publish("other", trainer.Verdict{Accepted: true})
	publish(llm, trainer.Verdict{Reasons: []string{"20 rows are no measurements (20 times)"}, Flawed: map[trainer.Flaw]int{trainer.FlawTimes: 20}})
	publish(llm, full)
	out := must(t, database, "trainer", "verdicts", llm, "--limit", "1")
	for _, part := range []string{
		llm + ", bundle 3, ", ": refused", "because it loses to the served bundle", "learned from 300 rows, judged on 100", "ttft_p50", "0.1234 [0.1000, 0.1500]",
		"77", "51.0 %", "one number for all", "4.3 %", "q3", "1234", "yes", "5.6 %", "54321 bytes", "0.12 ms", "3 of 4000 pairs", "bundle 9, served then, was found good",
		"ttft_p50 goes by waiting (+0.0200), kv_used (+0.0100), running (-0.0010)\n", "8 rows left out: times",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	if strings.Contains(out, "bundle 2,") {
		t.Errorf("it shows more than --limit:\n%s", out)
	}
	all := must(t, database, "trainer", "verdicts")
	if strings.Count(all, "bundle 1, ") != 1 || !strings.Contains(all, ": accepted") || !strings.Contains(all, "20 rows left out: times") {
		t.Errorf("of all it shows\n%s", all)
	}
	var list []storedVerdict
	if err := json.Unmarshal([]byte(must(t, database, "trainer", "verdicts", llm, "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Version != 3 || list[0].Accepted || !strings.Contains(string(list[0].Verdict), "versus_level") || !strings.Contains(string(list[0].Verdict), "scrape_age") {
		t.Errorf("as JSON %+v", list)
	}
}
