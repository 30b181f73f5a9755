package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A trace, a log and a workload are advised; what is printed can be pasted into a
// configuration that loads.
func TestAdvise(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	page := filepath.Join(folder, "out.html")
	text := must(t, "", "advise", "--workload", "rag", "--load", "20", "--duration", "20s", "--endpoints", "2", "--seeds", "2", "--max-ttft-penalty", "3s", "--report", page)
	for _, want := range []string{"rag at 20 requests/s on 2 endpoints of qwen3", "recommended: token-load", "Time for prefill binds", "2 paired seeds", "3 s at"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	_, settings, found := strings.Cut(text, "\nrouter:\n")
	if !found {
		t.Fatalf("no settings in:\n%s", text)
	}
	c, err := parseConfig([]byte("router:\n" + settings))
	if err != nil {
		t.Fatalf("the settings do not load: %v\n%s", err, settings)
	}
	if c.Router.Policy != "token-load" || c.Router.Fallback != "token-load" || c.Router.Settings.MaxTTFTPenalty != 3 || c.Router.Settings.PredictedPenalty != 3 {
		t.Errorf("loaded as %+v", c.Router)
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "spillway advise --workload rag") {
		t.Errorf("the page: %v", err)
	}
}

func TestAdviseOnATrace(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 400 {
		lines.WriteString(`{"timestamp": ` + jsonOf(t, 250*i) + `, "input_length": 2000, "output_length": 3, "hash_ids": [1, ` + jsonOf(t, i+2) + `, ` + jsonOf(t, 1000+i) + `, ` + jsonOf(t, 2000+i) + "]}\n")
	}
	name := write(t, "trace.jsonl", lines.String())
	var got struct {
		Traffic, Command, Matched, Recommended string
		Seeds                                  []uint64
		Class                                  struct {
			Share map[string]float64 `json:"share_of_time"`
		}
		Results []struct {
			Policy string
			E2E    struct{ Mean, Low, High *float64 } `json:"e2e_mean_seconds"`
		}
	}
	args := []string{"advise", "--trace", name, "--endpoints", "2", "--speed", "4", "--requests", "200", "--seeds", "2", "--json"}
	out := must(t, "", args...)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Traffic != "trace.jsonl, 200 of 400 requests in four stretches, 4 times as fast" || got.Matched != "token-load" || len(got.Seeds) != 2 || len(got.Results) != 3 {
		t.Errorf("got %+v", got)
	}
	if got.Class.Share["prefill"] < 0.3 || got.Class.Share["decode"] > 0 || got.Results[0].E2E.Mean == nil || got.Results[0].E2E.Low == nil {
		t.Errorf("got %+v", got)
	}
	if again := must(t, "", args...); again != out {
		t.Error("equal flags give other advice")
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAdviseOnALog: the log of a simulated router is advised on the fleet that is
// found in it.
func TestAdviseOnALog(t *testing.T) {
	t.Parallel()
	rows := filepath.Join(t.TempDir(), "rows.parquet")
	must(t, "", "simulate", "--workload", "interactive-chat", "--load", "20", "--duration", "60s", "--endpoints", "3", "--policies", "combined-load", "--seeds", "1", "--rows", rows)
	text := must(t, "", "advise", "--rows", rows, "--seeds", "2")
	for _, want := range []string{"logged requests of simulated on the 3 endpoints", "by the requests that were served", "Time for decoding binds", "fallback: active-request"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	const some = "of which the first 300 are simulated"
	if text = must(t, "", "advise", "--rows", rows, "--seeds", "1", "--requests", "300"); !strings.Contains(text, some) {
		t.Errorf("the table lacks %q:\n%s", some, text)
	}
}

func TestAdviseMistakes(t *testing.T) {
	t.Parallel()
	short, long := filepath.Join(t.TempDir(), "short.jsonl"), filepath.Join(t.TempDir(), "long.jsonl")
	const line = `{"timestamp": %d, "input_length": 500, "output_length": 10, "hash_ids": [%d]}` + "\n"
	var all strings.Builder
	for i := range 200 {
		fmt.Fprintf(&all, line, int64(i)*1e8, i) // milliseconds: a day and more apart
	}
	for name, text := range map[string]string{short: fmt.Sprintf(line, 0, 0), long: all.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []mistake{
		{args: nil, says: []string{"--trace", "--workload", "--window", "--rows", "mixed"}},
		{args: []string{"--workload", "mixed", "--load", "3", "--trace", "x"}, says: []string{"exclude each other"}},
		{args: []string{"--workload", "mixed"}, says: []string{"--load", "requests/s", "10"}},
		{args: []string{"--workload", "reasoning", "--load", "1.5"}, says: []string{"--load", "clients"}},
		{args: []string{"--workload", "reasoning", "--load", "5", "--duration", "1m"}, says: []string{"--duration", "length of its own"}},
		{args: []string{"--workload", "nothing", "--load", "5"}, says: []string{"--workload", `"nothing"`}},
		{args: []string{"--workload", "mixed", "--load", "3", "--speed", "2"}, says: []string{"--speed"}},
		{args: []string{"--workload", "mixed", "--load", "3", "--profile", "abacus"}, says: []string{"--profile", "abacus"}},
		{args: []string{"--workload", "mixed", "--load", "3", "--llm", "x"}, says: []string{"--llm", "--window"}},
		{args: []string{"--workload", "mixed", "--load", "3", "--max-ttft-penalty", "-1s"}, says: []string{"--max-ttft-penalty"}},
		{args: []string{"--trace", "no/such/file"}, says: []string{"--trace", "no/such/file"}},
		{args: []string{"--trace", short}, says: []string{"--trace", "1 requests", "100"}},
		{args: []string{"--trace", long}, says: []string{"--trace", "60", "--speed"}},
		{args: []string{"--trace", "x", "--speed", "0"}, says: []string{"--speed"}},
		{args: []string{"--trace", "x", "--load", "3"}, says: []string{"--load", "--workload"}},
		{args: []string{"--trace", "x", "--requests", "3"}, says: []string{"--requests", "100"}},
		{args: []string{"--rows", "x", "--endpoints", "3"}, says: []string{"--endpoints", "log"}},
		{args: []string{"--rows", "no/such/file"}, says: []string{"--rows", "no/such/file"}},
		{args: []string{"--window", "1h", "--rows", "x"}, says: []string{"--window", "--rows", "one of them"}},
		{args: []string{"--trace", "x", "--endpoints", "0"}, says: []string{"--endpoints"}},
		{args: []string{"--trace", "x", "--seeds", "-1"}, says: []string{"--seeds"}},
	} {
		m.args = append([]string{"advise"}, m.args...)
		m.check(t)
	}
}
