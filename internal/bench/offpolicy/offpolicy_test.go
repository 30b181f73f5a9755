package main

import (
	"path/filepath"
	"testing"

	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/router/policy"
)

// A simulated log is one that can be judged: every decision is made again as it
// was, with outcomes, in order, and the small log is its beginning.
func TestSimulatedLog(t *testing.T) {
	dir := t.TempDir()
	logs, err := logsIn(t.Context(), &question{data: dir, seed: 1001, decisions: 600})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{600, 60} {
		s := setting{Log: logs[i], Target: policy.TokenLoad}
		c, report, err := s.judge()
		if err != nil {
			t.Fatal(err)
		}
		if c.Decisions != want || c.Judged != want || report.Unlike != 0 || report.Deterministic == report.Judged || len(report.LeftOut) > 0 {
			t.Errorf("%s: %+v, %d unlike, left out %v", filepath.Base(logs[i]), c, report.Unlike, report.LeftOut)
		}
	}
	// What is there is judged as it is.
	if again, err := logsIn(t.Context(), &question{data: dir, seed: 1, decisions: 1}); err != nil || again[0] != logs[0] {
		t.Errorf("%v, %v", again, err)
	}
}

// The bars of coverage are of intervals around the truth.
func TestCoverage(t *testing.T) {
	worlds := cover(1001, 12)
	if len(worlds) != len(bandits) {
		t.Fatalf("%d bandits", len(worlds))
	}
	for _, w := range worlds {
		for _, e := range w.Estimators {
			if e.Coverage < 0.5 || e.Bias*e.Bias > e.RMSE*e.RMSE || e.RMSE > 0.3 {
				t.Errorf("%s: %+v", w.Name, e)
			}
		}
		if direct := w.Estimators[0].Name == offpolicy.Direct; direct != (w.Name != "wrong_forecasts") {
			t.Errorf("%s: the first is %s", w.Name, w.Estimators[0].Name)
		}
	}
}
