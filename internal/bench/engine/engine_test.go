package main

import (
	"io"
	"math"
	"os"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
)

// An engine with room for one sequence: prompts of 100 tokens take 1 s and each
// further token 0.1 s.
func TestReplaySplitsWaitFromPrefill(t *testing.T) {
	p := physics.Profile{
		Name: "one", Coefficients: physics.Coefficients{B: 0.01, D: 0.1}, MaxBatchedTokens: 1000, MaxNumSeqs: 1,
		KVCapacityTokens: 10_000, BlockTokens: 16, PeakPrefillThroughput: 100,
	}
	request := func(at float64) measured.Served {
		return measured.Served{PromptTokens: 100, OutputTokens: 11, Queued: feature.Seconds(1000 + at)}
	}
	got, err := replay(fleet.Config{Profile: p}, 1, []measured.Served{request(0), request(0.5), request(10)})
	if err != nil {
		t.Fatal(err)
	}
	near := func(a time.Duration, b float64) bool { return math.Abs(a.Seconds()-b) < 1e-6 }
	for i, want := range [][3]float64{{0, 1, 2}, {1.5, 2.5, 3.5}, {0, 1, 2}} {
		if g := got[i]; !near(g.wait, want[0]) || !near(g.first, want[1]) || !near(g.last, want[2]) {
			t.Errorf("request %d: %+v, want %v", i, g, want)
		}
	}
	// With two ranks the second request finds an idle one.
	got, err = replay(fleet.Config{Profile: p}, 2, []measured.Served{request(0), request(0.5)})
	if err != nil {
		t.Fatal(err)
	}
	if got[1].wait != 0 || !near(got[1].first, 1) {
		t.Errorf("on two ranks: %+v", got[1])
	}
}

// The bars hold on the measured runs.
func TestMeasuredRuns(t *testing.T) {
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: there are no measured runs")
	}
	if err := run(io.Discard, data, "", "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507"); err != nil {
		t.Error(err)
	}
}

func TestRunNamesWhatIsMissing(t *testing.T) {
	if err := run(io.Discard, "", "", ""); err == nil {
		t.Error("no data is no error")
	}
	if err := run(io.Discard, t.TempDir(), "", ""); err == nil {
		t.Error("an empty folder is no error")
	}
}
