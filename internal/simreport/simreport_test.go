package simreport_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/simreport"
)

// results has two arms, two loads and four seeds. The second arm's TTFT p90 is
// twice the first's; what a seed adds is the same for both.
func results() simreport.Results {
	r := simreport.Results{
		Workload: "trial", Command: "spillway simulate --workload trial", Fleet: "2 endpoints", Unit: "requests/s",
		Arms: []string{"slow", "fast"}, Loads: []float64{1, 2}, Seeds: []uint64{7, 8, 9, 10},
	}
	for _, seed := range r.Seeds {
		for _, load := range r.Loads {
			for i, arm := range r.Arms {
				base := load * (1 + float64(seed-7))
				s := fleet.Summary{Requests: 10, Success: 1, GoodShare: 0.5}
				s.TTFT.P90 = feature.Seconds(base / float64(1+i))
				s.TPOT.P90 = feature.Seconds(feature.Unknown)
				s.HitRate = 0.25
				run := simreport.Run{Arm: arm, Load: load, Seed: seed, Summary: s, Judged: 5 * time.Second}
				if seed == 7 {
					run.Series = &simreport.Series{Every: time.Second, InFlight: [][]float64{{0, 1}, {2, 3}, {1, 0}}}
				}
				r.Runs = append(r.Runs, run)
			}
		}
	}
	return r
}

func TestTable(t *testing.T) {
	var text strings.Builder
	if err := results().WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	// Mean of 1..4 is 2.5, its standard deviation 1.291, t(3) 3.182: half of the
	// interval is 2.054. The arms overlap, the paired change does not.
	for _, want := range []string{"trial at 1 requests/s", "2.5 ±2.05", "1.25 ±1.03*", "goodput requests/s", "1 ±0", "25 ±0", "on 4 paired seeds"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "NaN") {
		t.Errorf("shows NaN:\n%s", text.String())
	}
}

func TestCSV(t *testing.T) {
	var text bytes.Buffer
	if err := results().WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 2*2*len(simreport.Metrics()); len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	for _, line := range lines {
		switch {
		case line[1] == "fast" && line[2] == "2" && line[3] == "ttft_p90_seconds":
			if line[4] != "2.5" || line[7] != "4" || line[8] != "-0.5" || line[9] != "-0.5" {
				t.Errorf("got %v", line)
			}
		case line[3] == "tpot_p90_seconds":
			if line[4] != "" || line[7] != "0" {
				t.Errorf("unknown became %v", line)
			}
		}
	}
}

func TestJSON(t *testing.T) {
	var text bytes.Buffer
	if err := results().WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Results []struct {
			Policy           string
			Load             float64
			Metrics, Changes map[string]struct{ Mean, Low, High *float64 }
		}
		Runs []struct {
			Seed    uint64
			Summary map[string]any
		}
	}
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 4 || len(got.Runs) != 16 {
		t.Fatalf("%d results, %d runs", len(got.Results), len(got.Runs))
	}
	fast := got.Results[2]
	if fast.Policy != "fast" || *fast.Changes["ttft_p90_seconds"].Mean != -0.5 || fast.Metrics["tpot_p90_seconds"].Mean != nil {
		t.Errorf("got %+v", fast)
	}
}

func TestHTML(t *testing.T) {
	r := results()
	r.Workload = `<script>alert("x")</script>`
	var first, second strings.Builder
	if err := r.WriteHTML(&first); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteHTML(&second); err != nil {
		t.Fatal(err)
	}
	page := first.String()
	if page != second.String() {
		t.Error("the same results gave other bytes")
	}
	if strings.Contains(page, "<script") {
		t.Error("text of the caller became markup")
	}
	if got := strings.Count(page, "<svg"); got != 7+2 {
		t.Errorf("%d plots, want 7 against load and one of the endpoints for each arm", got)
	}
	for _, want := range []string{"at 2 requests/s", `<td class="differs">1.25 ±1.03</td>`, "4 paired seeds (7 to 10)"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestOneSeedHasNoInterval(t *testing.T) {
	r := results()
	r.Seeds = r.Seeds[:1]
	r.Runs = slices.DeleteFunc(r.Runs, func(run simreport.Run) bool { return run.Seed != r.Seeds[0] })
	var text strings.Builder
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "±*") {
		t.Errorf("shows an interval:\n%s", text.String())
	}
}

// A metric is a name that a column can have, and no two share one.
func TestMetricsAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range simreport.Metrics() {
		if m.Name == "" || m.Says == "" || strings.Trim(m.Name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || seen[m.Name] {
			t.Errorf("metric %+v", m)
		}
		seen[m.Name] = true
		if v := m.Of(&simreport.Run{Judged: time.Second}); math.IsInf(v, 0) {
			t.Errorf("%s of nothing is %v", m.Name, v)
		}
	}
}
