package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

// triedRows are decisions of a switchback whose second arm takes half as long, and
// some before it.
func triedRows(plan design.Switchback, from time.Time) []export.Row {
	rng := rand.New(rand.NewPCG(31, 32))
	unknown := feature.Seconds(feature.Unknown)
	var all []export.Row
	for at := from; at.Before(plan.End()); at = at.Add(500 * time.Millisecond) {
		var r export.Row
		r.Decision = featurestoretest.Decision(rng, at, "qwen", 1)
		d := &r.Decision
		d.Mode, d.Experiment, d.Arm, d.SLOTTFT, d.SLOTPOT = "switchback", "", "", unknown, unknown
		took := feature.Seconds(1 + rng.Float64())
		if place, ok := plan.At(at); ok {
			d.Experiment, d.Arm = plan.String(), plan.Arms[place.Arm]
			if place.Arm == 1 {
				took /= 2
			}
		}
		r.Forecast, r.Corrected = d.Candidates[0].Forecast, d.Candidates[0].Corrected
		r.Outcome = feature.Outcome{
			Decision: d.ID, DecidedAt: d.DecidedAt, Attempt: 1, Status: feature.OK, HTTPStatus: 200, Endpoint: d.Chosen,
			TTFT: took, TPOT: 0.02, E2E: took + 1, OutputTokens: 51, CachedTokens: feature.Unknown, CensoredAt: unknown, FinishedAt: d.DecidedAt.Add(4 * time.Second),
		}
		all = append(all, r)
	}
	return all
}

// The same rows from the store, from what it exports, and from files come to the
// same numbers.
func TestEvaluateExperiment(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-20 * time.Minute).Truncate(time.Second).UTC()
	plan := design.Switchback{Name: "spring", Start: began, Block: time.Minute, BurnIn: 20 * time.Second, Pairs: 8, Seed: 1, Arms: [2]string{"token-load", "predicted"}}
	logged := triedRows(plan, began.Add(-10*time.Second))
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	storeExported(t, database, logged)
	exported := filepath.Join(t.TempDir(), "exported.parquet")
	must(t, database, "store", "export", "--out", exported)
	page := filepath.Join(t.TempDir(), "out.html")
	var first string
	for _, args := range [][]string{
		{"--window", "1h", "--report", page},
		{"--rows", exported, "--experiment", "spring"},
		{"--rows", writeExport(t, "rows.csv.gz", logged)},
	} {
		out := must(t, database, append([]string{"evaluate", "experiment", "--json", "--slo-ttft", "1s"}, args...)...)
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
	var r experiment.Report
	if err := json.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	ttft := r.Switchback.Effects[0]
	if r.LLM != "qwen" || r.Outside != 20 || r.Requests != 16*120 || r.Judged != 16*80 || ttft.Pairs != 8 || ttft.Relative.Low > -0.5 || ttft.Relative.High < -0.5 || ttft.P > 0.01 {
		t.Errorf("%+v\n%+v", r, ttft)
	}
	html, err := os.ReadFile(page)
	if err != nil || strings.Count(string(html), "<svg") != 4 {
		t.Errorf("%v: a page of %d bytes with %d drawings", err, len(html), strings.Count(string(html), "<svg"))
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "--window or --rows is needed"},
		{[]string{"--rows", exported, "--experiment", "autumn"}, `no decision is part of experiment "autumn": those of this window are ["spring"]`},
		{[]string{"--rows", writeExport(t, "some.csv", logged[:600])}, `experiment "spring" is unfinished: 2 of 8 pairs`},
		{[]string{"--rows", exported, "--detect", "0"}, "--detect: 0 is no relative effect"},
	} {
		_, out, code := run(t, database, append([]string{"evaluate", "experiment"}, c.args...)...)
		if code != 1 || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, want %q in %s", c.args, code, c.says, out)
		}
	}
}
