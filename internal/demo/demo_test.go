package demo

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/loadgen"
)

func TestPhasesInOrder(t *testing.T) {
	want := []string{"cold", "live", "down", "live"}
	for _, c := range []struct {
		got   string
		holds bool
	}{
		{"cold live down live", true},
		{"cold live slow live down stale live", true},
		{"cold live down", false},
		{"live cold down live", false},
		{"", false},
	} {
		if got := inOrder(strings.Fields(c.got), want); got != c.holds {
			t.Errorf("inOrder(%q) = %v", c.got, got)
		}
	}
}

func TestToleranceKnowsItsBounds(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		a, b  float64
		agree bool
	}{{1, 1.06, true}, {1, 1.08, false}, {0.01, 0.024, true}, {0.01, 0.03, false}, {nan, nan, true}, {nan, 1, false}, {1, nan, false}} {
		if got := middle.agree(c.a, c.b); got != c.agree {
			t.Errorf("agree(%v, %v) = %v", c.a, c.b, got)
		}
	}
}

// A phase whose latencies differ between database and load is told.
func TestAgreementFindsAPhaseThatDiffers(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	var records []loadgen.Record
	decided := map[string]time.Time{}
	for i := range 40 {
		id := feature.ID{15: byte(i)}.String()
		decided[id] = at.Add(time.Duration(i) * time.Second)
		e2e := loadgen.Measure(1)
		if i == 19 { // the last of the first phase: it must not count for the second
			e2e = 1000
		}
		records = append(records, loadgen.Record{Decision: id, Status: loadgen.OK, TTFT: 0.1, TPOT: 0.02, E2E: e2e})
	}
	phase := func(from int, ttft, e2e feature.Seconds) featurestore.Phase {
		return featurestore.Phase{State: "live", From: at.Add(time.Duration(from) * time.Second), Requests: 20, TTFTP50: ttft, TTFTP90: ttft, TPOTP50: 0.02, E2EMean: e2e}
	}
	for _, c := range []struct {
		second feature.Seconds
		holds  bool
	}{{0.1, true}, {0.3, false}} {
		check := &checks{run: &run{}, report: &Report{}, records: records, decided: decided}
		check.agreement([]featurestore.Phase{phase(0, 0.1, 50.95), phase(20, c.second, 1)})
		if got := check.report.Claims[0]; got.Holds != c.holds {
			t.Errorf("a second phase with TTFT %v s: %+v", c.second, got)
		}
	}
}

func TestAForeignDirectoryIsNotEmptied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := emptied(dir); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptied(dir); err != nil {
		t.Fatalf("an earlier demo's directory: %v", err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("an earlier demo's data is still there")
	}
	foreign := t.TempDir()
	precious := filepath.Join(foreign, "thesis.tex")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := emptied(foreign); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("a foreign directory: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("a foreign file is gone: %v", err)
	}
}

func TestBundleLines(t *testing.T) {
	b := &featurestore.Bundle{Version: 3, Accepted: true, Verdict: []byte(`{"held_out_rows": 120, "ttft_median_ape": 0.05}`)}
	if got := bundleLine(b); !strings.Contains(got, "bundle 3 accepted: judged on 120 later rows, median APE of TTFT 5.0 %") {
		t.Error(got)
	}
	b.Accepted, b.Verdict = false, []byte(`{"reasons": ["does not beat the prior"]}`)
	if got := bundleLine(b); got != "bundle 3 refused: [does not beat the prior]" {
		t.Error(got)
	}
	b.Verdict = []byte("x")
	if got := bundleLine(b); !strings.Contains(got, "read the verdict of bundle 3") {
		t.Error(got)
	}
}

func TestFailureNamesWhatDoesNotHold(t *testing.T) {
	r := &Report{Claims: []Claim{{"a", true, "x"}, {"b", false, "y"}, {"c", false, "z"}}}
	if err := r.failure(); err == nil || err.Error() != "not so: b (y); c (z)" {
		t.Error(err)
	}
	r.Claims = r.Claims[:1]
	if err := r.failure(); err != nil {
		t.Error(err)
	}
}
