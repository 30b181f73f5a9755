package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small is a simulation that takes no time.
func small(more ...string) []string {
	return append([]string{"simulate", "--workload", "interactive-chat", "--duration", "20s", "--endpoints", "3",
		"--policies", "round-robin,predicted,random@client", "--load", "2,4", "--seeds", "2"}, more...)
}

// Equal flags give equal bytes on any number of processors.
func TestSimulateIsRepeatable(t *testing.T) {
	first := must(t, "", small("--json")...)
	t.Setenv("GOMAXPROCS", "1")
	if second := must(t, "", small("--json")...); second != first {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
	var got struct {
		Command string
		Seeds   []uint64
		Results []struct {
			Policy  string
			Load    float64
			Metrics map[string]struct {
				Mean *float64
				N    int
			}
		}
		Runs []struct{ Summary map[string]any }
	}
	if err := json.Unmarshal([]byte(first), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 6 || len(got.Runs) != 12 || len(got.Seeds) != 2 || !strings.HasPrefix(got.Command, "spillway simulate --workload") {
		t.Errorf("got %+v", got)
	}
	for _, r := range got.Results {
		if m := r.Metrics["ttft_p90_seconds"]; m.N != 2 || m.Mean == nil || *m.Mean <= 0 {
			t.Errorf("%s at %g: TTFT p90 is %+v", r.Policy, r.Load, m)
		}
		if m := r.Metrics["success"]; m.Mean == nil || *m.Mean != 1 {
			t.Errorf("%s at %g: success is %+v", r.Policy, r.Load, m)
		}
	}
}

func TestSimulateWritesFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	table, page := filepath.Join(folder, "out.csv"), filepath.Join(folder, "out.html")
	out := must(t, "", small("--csv", table, "--report", page)...)
	for _, want := range []string{"interactive-chat at 2 requests/s", "interactive-chat at 4 requests/s", "random@client", "TTFT p90 s", "herd index"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	file, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if lines, err := csv.NewReader(file).ReadAll(); err != nil || len(lines) < 100 {
		t.Errorf("%d lines of CSV, %v", len(lines), err)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(html), "<svg") < 8 || !strings.Contains(string(html), "3 endpoints of ") {
		t.Error("the page has no plots or no fleet")
	}
}

// The special fleets are those that their workloads want.
func TestSimulateFleets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"heterogeneous": "4 endpoints of qwen3-32b-h100-tp2-routing, 2 of them 2.5 times slower",
		"degraded":      "4 endpoints of qwen3-32b-h100-tp2-routing, 1 of them 3 times slower after 50 % of the run",
	} {
		out := must(t, "", "simulate", "--workload", name, "--duration", "10s", "--endpoints", "4", "--policies", "random", "--load", "1", "--seeds", "1", "--json")
		if !strings.Contains(out, want) {
			t.Errorf("%s is not simulated on %q", name, want)
		}
	}
}

func TestSimulateReplaysTraces(t *testing.T) {
	t.Parallel()
	trace := write(t, "trace.jsonl", `{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 500, "input_length": 700, "output_length": 7, "hash_ids": [1, 3]}
`)
	out := must(t, "", "simulate", "--trace", trace, "--endpoints", "2", "--policies", "token-load", "--load", "1,2", "--seeds", "1", "--json")
	var got struct {
		Unit string
		Runs []struct {
			Summary struct {
				Requests int
				Output   int `json:"output_tokens"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Runs) != 2 || got.Runs[0].Summary.Requests != 2 || got.Runs[0].Summary.Output != 12 || got.Unit != "x speed" {
		t.Errorf("got %+v", got)
	}
}

func TestWrongSimulation(t *testing.T) {
	t.Parallel()
	for _, m := range []mistake{
		{name: "nothing to simulate", args: []string{"simulate"}, says: []string{"--workload", "--trace", "mixed"}},
		{name: "both", args: []string{"simulate", "--workload", "mixed", "--trace", "x"}, says: []string{"--workload", "--trace", "exclude"}},
		{name: "workload and window", args: []string{"simulate", "--workload", "mixed", "--window", "1h"}, says: []string{"--workload", "--window", "exclude"}},
		{name: "window and trace", args: []string{"simulate", "--trace", "x", "--window", "1h"}, says: []string{"--trace", "--window", "exclude"}},
		{name: "window of the future", args: []string{"simulate", "--window", "-1h"}, says: []string{"--window", "-1h", "positive"}},
		{name: "LLM of a workload", args: []string{"simulate", "--workload", "mixed", "--llm", "x"}, says: []string{"--llm", "--window"}},
		{name: "window without a database", args: []string{"simulate", "--window", "1h"}, says: []string{"DATABASE_URL is empty"}},
		{name: "unknown workload", args: []string{"simulate", "--workload", "mxied"}, says: []string{"--workload", `"mxied"`, "mixed"}},
		{name: "no such trace", args: []string{"simulate", "--trace", "/nowhere/trace.csv"}, says: []string{"--trace", "/nowhere/trace.csv"}},
		{name: "unknown profile", args: []string{"simulate", "--workload", "mixed", "--profile", "abacus"}, says: []string{"--profile", `"abacus"`}},
		{name: "no such profile", args: []string{"simulate", "--workload", "mixed", "--profile", "/nowhere/p.json"}, says: []string{"--profile", "/nowhere/p.json"}},
		{name: "unknown policy", args: []string{"simulate", "--workload", "mixed", "--policies", "random,best"}, says: []string{"--policies", `"best"`, "token-load"}},
		{name: "unknown connection", args: []string{"simulate", "--workload", "mixed", "--policies", "random@pod"}, says: []string{"--policies", "@pod", "@client"}},
		{name: "policy twice", args: []string{"simulate", "--workload", "mixed", "--policies", "random,random"}, says: []string{"--policies", "random", "twice"}},
		{name: "no policy", args: []string{"simulate", "--workload", "mixed", "--policies", ""}, says: []string{"--policies"}},
		{name: "word for a load", args: []string{"simulate", "--workload", "mixed", "--load", "much"}, says: []string{"--load", `"much"`, "default"}},
		{name: "no load", args: []string{"simulate", "--workload", "mixed", "--load", "0"}, says: []string{"--load", "0", "requests/s"}},
		{name: "half a client", args: []string{"simulate", "--workload", "reasoning", "--load", "1.5"}, says: []string{"--load", "1.5", "clients"}},
		{name: "load twice", args: []string{"simulate", "--workload", "mixed", "--load", "1,1.0"}, says: []string{"--load", "twice"}},
		{name: "no seeds", args: []string{"simulate", "--workload", "mixed", "--seeds", "0"}, says: []string{"--seeds", "0"}},
		{name: "no endpoints", args: []string{"simulate", "--workload", "mixed", "--endpoints", "0"}, says: []string{"--endpoints", "0"}},
		{name: "duration of a closed loop", args: []string{"simulate", "--workload", "reasoning", "--duration", "1m"}, says: []string{"--duration", "reasoning"}},
		{name: "no room for the table", args: small("--csv", "/nowhere/out.csv"), says: []string{"--csv", "/nowhere/out.csv"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.check(t)
		})
	}
}
