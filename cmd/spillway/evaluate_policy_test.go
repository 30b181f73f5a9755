package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
)

// policyRows are whole decisions of predicted among four endpoints whose load is
// drawn, a fifth of them explored, with outcomes about the prior.
func policyRows(llm string, rows int, begin time.Time) []export.Row {
	rng := rand.New(rand.NewPCG(21, 22))
	unknown := feature.Seconds(feature.Unknown)
	all := make([]export.Row, rows)
	for i := range all {
		in := policy.Input{Policy: policy.Predicted, Fallback: policy.CombinedLoad, Forecasts: true, Settings: policy.Defaults(), Seed: rng.Uint64()}
		in.Settings.Exploration, in.Settings.ExplorationHarm = 0.2, 1e6
		in.Request = policy.Request{PromptTokens: 100 + math.Floor(3000*rng.Float64()), ExpectedOutputTokens: 100, MaxOutputTokens: feature.Unknown, Completions: 1, SLOTTFT: unknown, SLOTPOT: unknown}
		for k := range 4 {
			c := policy.Candidate{
				Endpoint: fmt.Sprintf("%c:8000", 'a'+k), Class: "h100", ColdAgo: unknown, HotTokens: feature.Unknown, SpeedSteps: 1000,
				Coefficients: physics.Coefficients{A: 0.014, B: 48e-6, C: 1.5e-9, D: 0.06e-3, E: 53e-9},
				Residual:     feature.Residual{TTFT: feature.LogQuantiles{P90: 0.4}, TPOT: feature.LogQuantiles{P90: 0.2}},
			}
			n := float64(rng.IntN(30))
			c.Load.Ledger = feature.Ledger{Requests: n, Decoding: n, ContextTokens: 900 * n, PrefillTokens: math.Floor(15000 * rng.Float64())}
			c.Load.Scraped = feature.Scraped{Running: n, KVUsed: n / 50, Age: 0.5}
			c.Load.Profile = feature.Profile{PeakPrefillThroughput: 20000, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, SpeedFactor: 1}
			in.Candidates = append(in.Candidates, c)
		}
		var out policy.Choice
		if err := policy.Decide(&in, &out); err != nil {
			panic(err)
		}
		chosen := &in.Candidates[out.Index]
		r := &all[i]
		r.Decision = featurestoretest.Decision(rng, begin.Add(time.Duration(i)*300*time.Millisecond), llm, 1)
		d := &r.Decision
		d.Mode, d.Policy, d.PolicyVersion, d.Schema, d.State, d.Bundle = "live", out.Policy, policy.Version, feature.Schema, "live", 3
		d.SLOTTFT, d.SLOTPOT, d.Priority, d.Complete, d.Rest, d.Seed, d.States = unknown, unknown, 0, true, 0, in.Seed, policy.Encode(nil, &in)
		d.RestCostMin, d.RestCostMax = feature.Unknown, feature.Unknown
		d.Chosen, d.ChosenClass, d.Propensity, d.Explored, d.ChosenVector = chosen.Endpoint, "h100", out.Probabilities[out.Index], out.Explored, chosen.Vector(&in.Request)
		d.Candidates = nil
		for k := range in.Candidates {
			d.Candidates = append(d.Candidates, feature.Candidate{
				Endpoint: in.Candidates[k].Endpoint, Class: "h100", Vector: in.Candidates[k].Vector(&in.Request),
				Forecast: out.Forecasts[k], Corrected: out.Forecasts[k], Cost: out.Costs[k], Probability: out.Probabilities[k],
			})
		}
		r.Forecast, r.Corrected = out.Forecasts[out.Index], out.Forecasts[out.Index]
		prior := chosen.Prior(&in.Request)
		r.Outcome = feature.Outcome{
			Decision: d.ID, DecidedAt: d.DecidedAt, Attempt: 1, Status: feature.OK, HTTPStatus: 200, Endpoint: d.Chosen,
			TTFT: prior.TTFT * feature.Seconds(math.Exp(0.3*rng.NormFloat64())), TPOT: prior.TPOT, E2E: 3, OutputTokens: 100,
			CachedTokens: feature.Unknown, CensoredAt: unknown, FinishedAt: d.DecidedAt.Add(3 * time.Second),
		}
		if i%100 == 0 {
			r.Outcome.Status, r.Outcome.TTFT, r.Outcome.TPOT, r.Outcome.CensoredAt = feature.ClientAbort, unknown, unknown, 2
		}
	}
	return all
}

// The same decisions from the store, from what it exports, and from files come
// to the same estimates.
func TestEvaluatePolicy(t *testing.T) {
	t.Parallel()
	const rows = 2000
	logged := policyRows("qwen", rows, time.Now().Add(-50*time.Minute))
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	storeExported(t, database, logged)
	exported := filepath.Join(t.TempDir(), "exported.parquet")
	must(t, database, "store", "export", "--candidates", "--out", exported)
	page := filepath.Join(t.TempDir(), "out.html")

	var first string
	for _, args := range [][]string{
		{"--window", "1h", "--report", page},
		{"--rows", exported},
		{"--rows", writeExport(t, "rows.csv.gz", logged)},
		{"--rows", writeExport(t, "a.csv", logged[:700]), "--rows", writeExport(t, "b.parquet", logged[700:])},
	} {
		out := must(t, database, append([]string{"evaluate", "policy", "--policy", "token-load", "--json"}, args...)...)
		var got struct {
			Report json.RawMessage `json:"report"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(got.Report)
		}
		if string(got.Report) != first {
			t.Errorf("%v came to other numbers:\n%s\n%s", args, got.Report, first)
		}
	}
	type reported struct {
		LLM, Target   string
		Judged        int
		Unlike        int
		Deterministic int
		LeftOut       []offpolicy.Left `json:"left_out"`
		Estimates     []struct {
			Name     string
			Withheld string
			Effect   struct{ Mean, Low, High float64 }
		}
		Sequence *offpolicy.Sequence
		Aborted  *struct{ Requests int }
	}
	var r reported
	if err := json.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	if r.LLM != "qwen" || r.Target != "token-load" || r.Judged != rows*99/100 || r.Unlike != 0 || r.Deterministic > rows/2 ||
		len(r.LeftOut) != 1 || r.LeftOut[0] != (offpolicy.Left{Why: offpolicy.Aborted, Decisions: rows / 100}) || r.Aborted == nil || r.Aborted.Requests != rows/100 || r.Sequence == nil {
		t.Fatalf("%+v", r)
	}
	if len(r.Estimates) != 6 {
		t.Fatalf("%+v", r.Estimates)
	}
	// Every endpoint is explored, so all see much the same: the forecasts are right.
	direct := r.Estimates[1].Effect
	for _, x := range r.Estimates {
		if x.Withheld != "" || x.Effect.High < direct.Low || x.Effect.Low > direct.High {
			t.Errorf("%+v beside the direct method's %v", x, direct)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil || strings.Count(string(html), "<svg") != 3 || !strings.Contains(string(html), "first-order") {
		t.Errorf("%v: a page of %d bytes with %d drawings", err, len(html), strings.Count(string(html), "<svg"))
	}
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--policy", "active-request", "--max-ttft-penalty", "2s"}, []string{"qwen: mean TTFT under active-request, max_ttft_penalty 2 instead of 18", "1980 of 2000 decisions judged", "first-order", "switch-DR"}},
		{[]string{"--bundle", "0", "--exploration", "0", "--set", "eviction_weight=0"}, []string{"forecasts of the prior alone", "exploration 0 instead of 0.2", "eviction_weight 0 instead of 3"}},
		{[]string{"--reward", "e2e", "--priced", "--longest", "30s", "--policy", "random"}, []string{"mean end-to-end latency", "takes from others"}},
		{[]string{"--reward", "slo", "--slo-ttft", "1s"}, []string{"met their objectives", "points"}},
	} {
		text := must(t, database, append([]string{"evaluate", "policy", "--rows", exported}, c.args...)...)
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%v: want %q in:\n%s", c.args, want, text)
			}
		}
	}
}

// Another bundle forecasts the logged vectors anew, those of its own LLM.
func TestEvaluatePolicyBundle(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lease, _, err := store.AcquireLease(t.Context(), "refit", "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	version, _, err := store.PublishBundle(t.Context(), lease, featurestore.Bundle{LLM: llm, Bytes: smallBundle(t), Accepted: true, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	args := []string{"evaluate", "policy", "--bundle", fmt.Sprint(version), "--rows"}
	text := must(t, database, append(args, writeExport(t, "own.parquet", policyRows(llm, 200, begin)))...)
	for _, want := range []string{"the configured policy, forecasts made anew", "198 of 200 decisions judged", "made again by predicted (200)"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
	mistake{database: database, args: append(args, writeExport(t, "others.parquet", policyRows("another", 20, begin))),
		says: []string{fmt.Sprintf("--bundle %d is of %s", version, llm), "another"}}.check(t)
}

func TestEvaluatePolicyMistakes(t *testing.T) {
	t.Parallel()
	good := policyRows("qwen", 60, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	change := func(do func(i int, r *export.Row)) []export.Row {
		rows := append([]export.Row(nil), good...)
		for i := range rows {
			rows[i].Decision.Candidates = append([]feature.Candidate(nil), rows[i].Decision.Candidates...)
			do(i, &rows[i])
		}
		return rows
	}
	// again writes what a decision was made from anew, changed.
	again := func(do func(*policy.Candidate)) []export.Row {
		return change(func(_ int, r *export.Row) {
			in, err := policy.Replay(&r.Decision)
			if err != nil {
				t.Fatal(err)
			}
			for i := range in.Candidates {
				do(&in.Candidates[i])
			}
			r.Decision.States = policy.Encode(nil, in)
		})
	}
	file := func(name string, rows []export.Row) []string { return []string{"--rows", writeExport(t, name, rows)} }
	goodFile := file("good.parquet", good)
	with := func(args ...string) []string { return append(args, goodFile...) }
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	for _, m := range []mistake{
		{name: "no decisions named", says: []string{"--window or --rows is needed"}},
		{name: "both", args: with("--window", "1h"), says: []string{"--window", "--rows", "one of them"}},
		{name: "empty store", args: []string{"--window", "1h"}, says: []string{"holds no decisions"}},
		{name: "no such file", args: []string{"--rows", "/no/such.parquet"}, says: []string{"--rows", "no such file"}},
		{name: "empty window", args: file("none.parquet", nil), says: []string{"none.parquet has no decisions"}},
		{name: "another LLM", args: with("--llm", "gpt"), says: []string{"no decisions of gpt"}},
		{name: "two LLMs", args: file("two.csv", change(func(i int, r *export.Row) {
			if i > 20 {
				r.Decision.LLM = "gpt"
			}
		})), says: []string{"--llm is needed", "qwen", "gpt"}},
		{name: "no candidates", args: file("small.parquet", change(func(_ int, r *export.Row) {
			r.Decision.Candidates, r.Decision.States = nil, nil
		})), says: []string{"none of the 60 decisions", "not all candidates", "--candidates", "router.complete_up_to"}},
		{name: "no propensities", args: file("blind.parquet", change(func(_ int, r *export.Row) {
			r.Decision.Propensity = feature.Unknown
			for i := range r.Decision.Candidates {
				r.Decision.Candidates[i].Probability = feature.Unknown
			}
		})), says: []string{"none of the 60 decisions", "probabilities", "propensities"}},
		{name: "mixed schemas", args: file("schemas.csv", change(func(i int, r *export.Row) {
			if i > 20 {
				r.Decision.Schema[0]++
			}
		})), says: []string{"schema", feature.Schema.String()}},
		{name: "older policies", args: file("old.parquet", change(func(_ int, r *export.Row) { r.Decision.PolicyVersion = 1 })), says: []string{"none of the 60 decisions", "another version"}},
		{name: "no outcomes", args: file("open.parquet", change(func(_ int, r *export.Row) {
			r.Outcome = feature.Outcome{Decision: r.Decision.ID, DecidedAt: r.Decision.DecidedAt}
		})), says: []string{"none of the 60 decisions", "no outcome"}},
		{name: "no forecasts", args: append(file("cold.parquet", again(func(c *policy.Candidate) { c.Residual = feature.NoResidual })), "--policy", "predicted"),
			says: []string{"policy predicted needs forecasts", "--bundle"}},
		{name: "no scrapes", args: append(file("blind.parquet", again(func(c *policy.Candidate) { c.Load.Scraped.KVUsed = feature.Unknown })), "--policy", "weighted-blend"),
			says: []string{"policy weighted-blend needs", "scraped", "60 decisions"}},
		{name: "clock back", args: file("back.parquet", change(func(i int, r *export.Row) {
			if i > 40 {
				r.Decision.DecidedAt = r.Decision.DecidedAt.Add(-time.Hour)
			}
		})), says: []string{"stands behind", "clock jumped"}},
		{name: "ended before it began", args: file("forward.parquet", change(func(i int, r *export.Row) {
			if i > 40 {
				r.Outcome.FinishedAt = r.Decision.DecidedAt.Add(-time.Hour)
			}
		})), says: []string{"19 of 60 decisions ended before they were made", "clock jumped"}},
		{name: "files out of order", args: with(goodFile...), says: []string{"order of time"}},
		{name: "no objective", args: with("--reward", "slo"), says: []string{"no objective", "--slo-ttft"}},
		{name: "no such policy", args: with("--policy", "luck"), says: []string{"--policy", `"luck"`, "token-load"}},
		{name: "no fallback", args: with("--fallback", "predicted"), says: []string{"--fallback", "token-load"}},
		{name: "no such reward", args: with("--reward", "joy"), says: []string{"--reward", `"joy"`, "ttft"}},
		{name: "price of a TPOT", args: with("--reward", "tpot", "--priced"), says: []string{"--priced", "tpot"}},
		{name: "longest of a share", args: with("--reward", "slo", "--longest", "1s"), says: []string{"--longest", "slo"}},
		{name: "objective of a latency", args: with("--slo-ttft", "1s"), says: []string{"--slo-ttft", "--reward slo"}},
		{name: "no time", args: with("--longest", "0s"), says: []string{"--longest", "above 0"}},
		{name: "no such key", args: with("--set", "luck=1"), says: []string{"--set", `"luck"`, "max_ttft_penalty"}},
		{name: "no number", args: with("--set", "exploration=much"), says: []string{"--set", `"much"`}},
		{name: "null", args: with("--set", "exploration=null"), says: []string{"--set", `"null"`}},
		{name: "no probability", args: with("--exploration", "2"), says: []string{"--exploration", "2"}},
		{name: "no such bundle", args: with("--bundle", "77"), says: []string{"--bundle 77"}},
		{name: "no place for the page", args: with("--report", "/no/such/dir/x.html"), says: []string{"--report"}},
	} {
		m.database, m.args = database, append([]string{"evaluate", "policy"}, m.args...)
		t.Run(m.name, m.check)
	}
}

// Requests that name no LLM are those of one LLM more.
func TestDecisionsOfOneLLM(t *testing.T) {
	for _, c := range []struct {
		given string
		llms  []string
		seen  int
		fails bool
	}{
		{"", []string{"a", "a"}, 2, false},
		{"", []string{"", ""}, 2, false},
		{"", []string{"", "a"}, 1, true},
		{"", []string{"a", ""}, 1, true},
		{"a", []string{"", "a", "b", "a"}, 2, false},
	} {
		l := wholeRows{own: ownRows{llm: c.given}, files: []string{"rows.csv"}}
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		err := l.eachOf(func(yield func(export.Row, error) bool) {
			for _, llm := range c.llms {
				if !yield(export.Row{Decision: feature.Decision{LLM: llm}}, nil) {
					return
				}
			}
		}, func(*export.Row) error { return nil })
		if (err != nil) != c.fails || l.seen != c.seen {
			t.Errorf("%q of %q: %d seen, %v", c.given, c.llms, l.seen, err)
		}
	}
}
