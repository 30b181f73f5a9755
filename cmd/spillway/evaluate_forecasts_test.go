package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// forecastRows are decisions on four endpoints, whose load rises and falls,
// with their outcomes: the prior is 40 % too short, the bundle 10 % too long
// on the first endpoint and right on the others, what was used is right. Of the
// first tenth there are no forecasts; every 50th request was aborted.
func forecastRows(llm string, rows int, begin time.Time) []export.Row {
	rng := rand.New(rand.NewPCG(11, 12))
	unknown := feature.Seconds(feature.Unknown)
	all := make([]export.Row, rows)
	for i := range all {
		load := max(0, math.Round(16+14*math.Sin(float64(i)/400)+3*rng.NormFloat64()))
		prompt := math.Exp(6.5 + rng.NormFloat64())
		endpoint := rng.IntN(4)
		ttft, tpot := 0.05+prompt/8000+0.01*load, 0.012+0.0006*load
		name := string(rune('a'+endpoint)) + ":8000"
		bias := 1.0
		if endpoint == 0 {
			bias = 1.1
		}
		forecast := func(bias float64) feature.Forecast {
			q := func(v float64) feature.Quantiles {
				return feature.Quantiles{P50: feature.Seconds(bias * v), P90: feature.Seconds(bias * v * math.Exp(1.2816*0.25))}
			}
			return feature.Forecast{TTFT: q(ttft), TPOT: q(tpot), Residual: feature.NoResidual, Support: 1}
		}
		r := &all[i]
		at := begin.Add(time.Duration(i) * 400 * time.Millisecond)
		r.Decision = featurestoretest.Decision(rng, at, llm, 1)
		d := &r.Decision
		d.Chosen, d.ChosenClass, d.Explored, d.Schema = name, "h100", rng.IntN(20) == 0, feature.Schema
		d.ChosenVector = feature.Of(feature.Request{PromptTokens: prompt, ExpectedOutputTokens: 100, Completions: 1},
			feature.Load{Ledger: feature.Ledger{Requests: load}},
			feature.Prior{TTFT: feature.Seconds(0.6 * ttft), TPOT: feature.Seconds(0.6 * tpot)})
		r.Forecast, r.Corrected = feature.NoForecast, feature.NoForecast
		if i >= rows/10 {
			r.Forecast, r.Corrected = forecast(bias), forecast(1)
		}
		d.Candidates[0] = feature.Candidate{Endpoint: name, Class: "h100", Vector: d.ChosenVector, Forecast: r.Forecast, Corrected: r.Corrected, Cost: 1, Probability: 1}
		noise := func() float64 { return math.Exp(0.25 * rng.NormFloat64()) }
		r.Outcome = feature.Outcome{
			Decision: d.ID, DecidedAt: d.DecidedAt, Attempt: 1, Status: feature.OK, HTTPStatus: 200, Endpoint: name,
			TTFT: feature.Seconds(ttft * noise()), TPOT: feature.Seconds(tpot * noise()), E2E: 9, OutputTokens: 100,
			CachedTokens: feature.Unknown, CensoredAt: unknown, FinishedAt: d.DecidedAt.Add(9 * time.Second),
		}
		if i%50 == 0 {
			r.Outcome.Status, r.Outcome.TTFT, r.Outcome.TPOT, r.Outcome.CensoredAt = feature.ClientAbort, unknown, unknown, feature.Seconds(3*ttft)
		}
	}
	return all
}

func writeExport(t *testing.T, name string, rows []export.Row) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var out io.Writer = f
	if strings.HasSuffix(name, ".gz") {
		z := gzip.NewWriter(f)
		defer f.Close()
		defer z.Close()
		out = z
	} else {
		defer f.Close()
	}
	var w exporter = export.NewParquet(out)
	if strings.Contains(name, ".csv") {
		if w, err = export.NewCSV(out); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// The same rows from the store, from Parquet and from CSV come to the same
// numbers, and those are what the rows were made to be.
func TestEvaluateForecasts(t *testing.T) {
	t.Parallel()
	const rows = 4000
	logged := forecastRows("qwen", rows, time.Now().Add(-50*time.Minute))
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	storeExported(t, database, logged)
	page := filepath.Join(t.TempDir(), "out.html")

	var first string
	for _, args := range [][]string{
		{"--window", "1h", "--report", page},
		{"--rows", writeExport(t, "rows.parquet", logged)},
		{"--rows", writeExport(t, "rows.csv.gz", logged)},
		{"--rows", writeExport(t, "a.csv", logged[:1500]), "--rows", writeExport(t, "b.parquet", logged[1500:])},
	} {
		out := must(t, database, append([]string{"evaluate", "forecasts", "--json"}, args...)...)
		var got struct {
			Reports json.RawMessage `json:"reports"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(got.Reports)
		}
		if string(got.Reports) != first {
			t.Errorf("%v came to other numbers:\n%s\n%s", args, got.Reports, first)
		}
	}
	var reports []struct {
		LLM     string
		Judged  int
		LeftOut []evaluate.Left `json:"left_out"`
		Series  []struct {
			Name string
			TTFT struct {
				All struct {
					Rows, Censored int
					Bias, MAPE     float64
					Coverage       struct{ Low, High float64 }
				}
				Concordance struct{ Mean, Low float64 }
				BiasSpread  struct{ Typical float64 } `json:"bias_spread"`
				ByLoad      []struct{ Rows int }      `json:"by_load"`
				ByEndpoint  []struct{ Name string }   `json:"by_endpoint"`
			}
		}
	}
	if err := json.Unmarshal([]byte(first), &reports); err != nil {
		t.Fatal(err)
	}
	r := reports[0]
	if r.LLM != "qwen" || r.Judged != rows*9/10 || len(r.LeftOut) != 1 || r.LeftOut[0].Rows != rows/10 || len(r.Series) != 3 {
		t.Fatalf("%+v", r)
	}
	prior, raw, corrected := r.Series[0].TTFT, r.Series[1].TTFT, r.Series[2].TTFT
	if prior.All.Bias < 0.58 || prior.All.Bias > 0.62 || corrected.All.Bias < 0.98 || corrected.All.Bias > 1.02 || corrected.All.MAPE > prior.All.MAPE {
		t.Errorf("%+v\n%+v", prior, corrected)
	}
	if raw.BiasSpread.Typical < 0.03 || corrected.BiasSpread.Typical > 0.02 {
		t.Errorf("bias spread: raw %v, corrected %v", raw.BiasSpread, corrected.BiasSpread)
	}
	// The aborted ones, all censored above their p90, count as missed.
	if c := corrected.All; c.Censored != rows*9/10/50 || !(c.Coverage.Low < 0.9*0.98 && 0.9*0.98 < c.Coverage.High) {
		t.Errorf("coverage %+v", c)
	}
	if !(corrected.Concordance.Low > 0.7) || len(corrected.ByLoad) != 10 || len(corrected.ByEndpoint) != 4 {
		t.Errorf("%+v", corrected)
	}

	html, err := os.ReadFile(page)
	if err != nil || strings.Count(string(html), "<svg") != 8 || !strings.Contains(string(html), "a:8000") {
		t.Errorf("%v: a page of %d bytes with %d charts", err, len(html), strings.Count(string(html), "<svg"))
	}
	table := must(t, database, "evaluate", "forecasts", "--window", "1h")
	for _, want := range []string{"qwen: 3600 of 4000 rows judged", "no forecast stood beside", "TTFT", "TPOT", "corrected", "by decile of inflight_requests", "a:8000"} {
		if !strings.Contains(table, want) {
			t.Errorf("want %q in:\n%s", want, table)
		}
	}
}

// A bundle that is fitted to the earlier rows is judged on the later ones, also
// where none was served, and beside it one that is fitted to random ones.
func TestEvaluateForecastsRefit(t *testing.T) {
	t.Parallel()
	cold := forecastRows("qwen", 2000, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	for i := range cold {
		cold[i].Forecast, cold[i].Corrected = feature.NoForecast, feature.NoForecast
	}
	file := writeExport(t, "cold.parquet", cold)
	page := filepath.Join(t.TempDir(), "out.html")
	out, said, code := run(t, "", "evaluate", "forecasts", "--rows", file, "--refit", "--json", "--report", page)
	var got struct {
		Reports []struct {
			LLM, Split string
			Judged     int
			Series     []struct {
				Name string
				TTFT struct{ All struct{ MAPE float64 } }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%v, exit code %d: %s", err, code, said)
	}
	if !strings.Contains(said, "40 rows left out: ended before the first token") {
		t.Errorf("said %q of the aborted ones", said)
	}
	for i, r := range got.Reports {
		if want := []string{evaluate.ByTime, evaluate.AtRandom}[i]; r.Split != want || r.LLM != "qwen" || r.Judged != 392 {
			t.Errorf("report %d: %+v", i, r)
		}
		if prior, frozen := r.Series[0].TTFT.All.MAPE, r.Series[1].TTFT.All.MAPE; frozen > 0.3 || prior < 0.35 {
			t.Errorf("%s: MAPE %v, of the prior %v", r.Split, frozen, prior)
		}
	}
	if html, err := os.ReadFile(page); err != nil || strings.Count(string(html), "<svg") != 16 {
		t.Errorf("%v: %d charts", err, strings.Count(string(html), "<svg"))
	}

	// A page of before outlives a judging that fails.
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if _, said, code := run(t, "", "evaluate", "forecasts", "--rows", file, "--report", page); code == 0 {
		t.Errorf("judged rows without forecasts and said %q", said)
	}
	if after, err := os.ReadFile(page); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a judging that failed left %d of %d bytes of the page, %v", len(after), len(before), err)
	}

	// One tree of two leaves learns less than the trainer's defaults do.
	poor := write(t, "poor.yaml", "trainer: {trees: 1, leaves: 2, half_life: 1h, seed: 5}\n")
	if other := must(t, "", "evaluate", "forecasts", "--rows", file, "--refit", "--json", "--config", poor); strings.Split(other, `"reports"`)[1] == strings.Split(out, `"reports"`)[1] {
		t.Error("the trainer section of --config changes nothing")
	}
	for _, m := range []mistake{
		{name: "bad settings", args: []string{"--rows", file, "--config", write(t, "bad.yaml", "trainer: {trees: 0}\n")}, says: []string{"bad.yaml", "trainer.trees", "at least 1"}},
		{name: "few", args: []string{"--rows", writeExport(t, "few.csv", cold[1:49])}, says: []string{"--refit", "want at least 200"}},
		{name: "no profile", args: []string{"--rows", write(t, "x.jsonl", "{}"), "--profile", "none"}, says: []string{"--profile", "none"}},
		{name: "broken lines", args: []string{"--rows", write(t, "x.jsonl", "{}\n{}\n")}, says: []string{"--rows", "no usable row: line 1"}},
		{name: "both kinds", args: []string{"--rows", write(t, "x.jsonl", "{}"), "--rows", file}, says: []string{"x.jsonl", "give them alone"}},
	} {
		m.args = append([]string{"evaluate", "forecasts", "--refit"}, m.args...)
		t.Run(m.name, m.check)
	}
}

// The measurements of others can be judged by as well.
func TestEvaluateMeasuredRows(t *testing.T) {
	t.Parallel()
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: the measurements stand there")
	}
	out := must(t, "", "evaluate", "forecasts", "--refit", "--profile", "qwen3-32b-h200-tp1-vllm", "--rows", filepath.Join(data, "measured-h200", "sharegpt-h200.jsonl"))
	for _, want := range []string{"sharegpt-h200.jsonl: 680 of 680 rows judged, fitted to the earlier rows", "drawn at random", "prequential"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
}

func storeExported(t *testing.T, database string, rows []export.Row) {
	t.Helper()
	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	for i := range rows {
		decisions, outcomes = append(decisions, rows[i].Decision), append(outcomes, rows[i].Outcome)
	}
	if err := store.WriteDecisions(t.Context(), decisions); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

func TestEvaluateForecastsMistakes(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	good := forecastRows("qwen", 50, begin)
	change := func(do func(i int, r *export.Row)) []export.Row {
		rows := append([]export.Row(nil), good...)
		for i := range rows {
			do(i, &rows[i])
		}
		return rows
	}
	file := func(name string, rows []export.Row) []string { return []string{"--rows", writeExport(t, name, rows)} }
	text := func(text string) []string { return []string{"--rows", write(t, "rows.csv", text)} }
	goodFile := file("good.parquet", good)
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	for _, m := range []mistake{
		{name: "no rows named", says: []string{"--window or --rows is needed"}},
		{name: "both", args: append([]string{"--window", "1h"}, goodFile...), says: []string{"--window", "--rows", "one of them"}},
		{name: "empty store", args: []string{"--window", "1h"}, says: []string{"holds no decisions"}},
		{name: "backwards", args: []string{"--window", "-1h"}, says: []string{"--window"}},
		{name: "no load", args: append([]string{"--load", "prompt_tokens"}, goodFile...), says: []string{"--load", "prompt_tokens", "inflight_requests"}},
		{name: "no such file", args: []string{"--rows", "/no/such.csv"}, says: []string{"--rows", "/no/such.csv", "no such file"}},
		{name: "empty file", args: text(""), says: []string{"--rows", "no header"}},
		{name: "another file", args: text("a,b\n1,2\n"), says: []string{"--rows", "no column decision", "store export"}},
		{name: "no rows", args: file("none.csv", nil), says: []string{"none.csv has no rows"}},
		{name: "broken Parquet", args: text("PAR1xxxx"), says: []string{"--rows", "not a Parquet file, or a broken one"}},
		{name: "measurements", args: text(`{"actual_ttft_ms": 1}`), says: []string{"--rows", "no forecast", "--refit"}},
		{name: "another LLM", args: append([]string{"--llm", "gpt"}, goodFile...), says: []string{"has no rows of gpt"}},
		{name: "two LLMs", args: file("two.csv", change(func(i int, r *export.Row) {
			if i > 20 {
				r.Decision.LLM = "gpt"
			}
		})), says: []string{"--llm is needed", "qwen", "gpt"}},
		{name: "mixed schemas", args: file("schemas.csv", change(func(i int, r *export.Row) {
			if i > 20 {
				r.Decision.Schema[0]++
			}
		})), says: []string{"schema", feature.Schema.String()}},
		{name: "no forecasts", args: file("cold.parquet", change(func(_ int, r *export.Row) {
			r.Forecast, r.Corrected = feature.NoForecast, feature.NoForecast
		})), says: []string{"50 of 50 rows have no forecast"}},
		{name: "all failed", args: file("failed.parquet", change(func(_ int, r *export.Row) {
			r.Outcome.Status, r.Outcome.CensoredAt = feature.UpstreamError, feature.Seconds(feature.Unknown)
		})), says: []string{"none of the 50 rows can be judged", "not served"}},
		{name: "files out of order", args: append(append([]string(nil), goodFile...), goodFile...), says: []string{"--rows", "order of time"}},
		{name: "no place for the page", args: append([]string{"--report", "/no/such/dir/x.html"}, goodFile...), says: []string{"--report"}},
	} {
		m.database, m.args = database, append([]string{"evaluate", "forecasts"}, m.args...)
		t.Run(m.name, m.check)
	}
}
