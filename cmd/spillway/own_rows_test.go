package main

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/loadgen"
)

// ownRow is a stored row of a request; the engine reports no cached tokens
// where they are unknown.
func ownRow(at time.Time, status feature.Status, prompt, believed, output, cached float64) feature.Row {
	unknown := feature.Seconds(feature.Unknown)
	return feature.Row{
		DecidedAt: at,
		Vector:    feature.Of(feature.Request{PromptTokens: prompt, CachedTokens: believed, ExpectedOutputTokens: 10, Completions: 1}, feature.Load{}, feature.Prior{}),
		Outcome:   feature.Outcome{Status: status, TTFT: 0.1, TPOT: unknown, E2E: 1, OutputTokens: output, CachedTokens: cached},
	}
}

// What the store holds can be simulated and sent anew.
func TestReplayOwnTraffic(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	rng := rand.New(rand.NewPCG(5, 6))
	begin := time.Now().Add(-30 * time.Minute)
	storeRows(t, rng, database, llm, "any", []feature.Row{
		ownRow(begin, feature.OK, 1000, 0, 7, 0),
		ownRow(begin.Add(500*time.Millisecond), feature.OK, 1000, 0, 8, 640),
		ownRow(begin.Add(time.Second), feature.UpstreamError, 1000, 0, 9, 0),
		ownRow(begin.Add(time.Second), feature.OK, 500, 320, 10, feature.Unknown),
		ownRow(begin.Add(time.Second), feature.OK, 500, 320, feature.Unknown, 0),
		ownRow(begin.Add(-2*time.Hour), feature.OK, 500, 0, 1000, 0),
	})
	args := []string{"simulate", "--window", "1h", "--endpoints", "1", "--policies", "token-load", "--load", "1", "--seeds", "1", "--json"}
	out, said, code := run(t, database, args...)
	var got struct {
		Workload, Unit string
		Runs           []struct {
			Summary struct {
				Requests int
				Output   int     `json:"output_tokens"`
				HitRate  float64 `json:"hit_rate"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%v, exit code %d: %s", err, code, said)
	}
	if !strings.Contains(said, "2 rows left out") || !strings.Contains(said, "3 used") {
		t.Errorf("said %q", said)
	}
	// The second leaves what the third finds.
	if s := got.Runs[0].Summary; got.Workload != "own traffic of "+llm || s.Requests != 3 || s.Output != 25 || s.HitRate != 320.0/2500 {
		t.Errorf("got %+v", got)
	}

	records := filepath.Join(t.TempDir(), "records.jsonl")
	must(t, database, "load", "--url", startFleet(t, 1)[0], "--window", "1h", "--out", records, "--json")
	sent := (&load{process: &process{t: t}, out: records}).records()
	if len(sent) != 3 {
		t.Fatalf("sent %+v", sent)
	}
	for _, r := range sent {
		if want := []loadgen.Count{7, 8, 10}[r.Index]; r.Status != loadgen.OK || r.OutputTokens != want || (r.CachedTokens > 0) != (r.Index == 2) {
			t.Errorf("request %d: %+v", r.Index, r)
		}
	}

	storeRows(t, rng, database, "another", "any", []feature.Row{ownRow(begin, feature.UpstreamError, 1, 0, 1, 0)})
	for _, verb := range []string{"simulate", "load"} {
		mistake{database: database, args: []string{verb, "--window", "1h"}, says: []string{"--llm is needed", "another, " + llm}}.check(t)
		mistake{database: database, args: []string{verb, "--window", "1h", "--llm", "x"}, says: []string{`--llm "x"`, "another, " + llm}}.check(t)
		mistake{database: database, args: []string{verb, "--window", "1h", "--llm", "another"}, says: []string{"--window 1h", "none of the 1 rows of another"}}.check(t)
		mistake{database: database, args: []string{verb, "--window", "1m", "--llm", llm}, says: []string{"--window 1m", "no rows of " + llm}}.check(t)
	}
}
