package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/export"
)

// A log is replayed and others are ranked, as a table, as JSON and as a page.
func TestEvaluateSimulate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows, page := filepath.Join(dir, "rows.parquet"), filepath.Join(dir, "out.html")
	must(t, "", "simulate", "--workload", "interactive-chat", "--policies", "predicted", "--load", "8", "--seeds", "1", "--duration", "30s", "--endpoints", "2", "--rows", rows)
	ask := []string{"evaluate", "simulate", "--rows", rows, "--seeds", "2"}
	text := must(t, "", append(ask, "--policy", "round-robin,token-load", "--report", page)...)
	for _, want := range []string{"decided by predicted", "The logged policy, replayed", "round-robin", "token-load", "TTFT p90", "hit rate", "engine-00001", "can't see"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "round-robin", "Engines as fitted", "evaluate simulate --rows"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	var out struct{ Report simulate.Report }
	if err := json.Unmarshal([]byte(must(t, "", append(ask, "--set", "exploration=0.2", "--fallback", "active-request", "--json")...)), &out); err != nil {
		t.Fatal(err)
	}
	if r := out.Report; !r.Check.Trusted || len(r.Settings) != 1 || r.Settings[0].Name != "exploration=0.2, fallback active-request" || len(r.Settings[0].Effects) != 8 {
		t.Errorf("JSON: %+v", r.Settings)
	}
	empty := filepath.Join(dir, "empty.csv")
	var header bytes.Buffer
	w, err := export.NewCSV(&header)
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(empty, header.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []mistake{
		{name: "no rows", args: []string{"--policy", "random"}, says: []string{"--window or --rows"}},
		{name: "an unknown policy", args: []string{"--rows", rows, "--policy", "random,luck"}, says: []string{"--policy", `"luck"`}},
		{name: "an unknown fallback", args: []string{"--rows", rows, "--fallback", "luck"}, says: []string{"--fallback", "luck"}},
		{name: "an unknown key", args: []string{"--rows", rows, "--set", "luck=1"}, says: []string{"--set", `"luck"`}},
		{name: "one seed", args: []string{"--rows", rows, "--seeds", "1"}, says: []string{"--seeds 1"}},
		{name: "endless seeds", args: []string{"--rows", rows, "--seeds", "100000000"}, says: []string{"--seeds 100000000", "1000"}},
		{name: "no probability", args: []string{"--rows", rows, "--exploration", "2"}, says: []string{"--exploration", "2"}},
		{name: "a negative valve", args: []string{"--rows", rows, "--max-ttft-penalty", "-5s"}, says: []string{"--max-ttft-penalty", "-5s"}},
		{name: "no bundle", args: []string{"--rows", rows, "--bundle", "-1"}, says: []string{"--bundle"}},
		{name: "nothing to replay", args: []string{"--rows", rows, "--most", "0"}, says: []string{"--most"}},
		{name: "too few", args: []string{"--rows", rows, "--most", "50"}, says: []string{"want at least 200"}},
		{name: "an empty file", args: []string{"--rows", empty}, says: []string{"has no decisions"}},
	} {
		m.args = append([]string{"evaluate", "simulate"}, m.args...)
		t.Run(m.name, m.check)
	}
}
