package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/feature"
)

// policyReport is one with everything that a report may have.
func policyReport() offpolicy.Report {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	e := offpolicy.NewEstimators(10)
	for i := range 400 {
		s := offpolicy.Sample{At: at.Add(time.Duration(i) * time.Second), Chosen: i % 2, Value: 1 + float64(i%3),
			Actions: []offpolicy.Action{{Logged: 0.5, Target: 0.9, Model: 1.5}, {Logged: 0.5, Target: 0.1, Model: 2}}}
		if err := e.Add(&s); err != nil {
			panic(err)
		}
	}
	low, high, _ := e.Sequence()
	r := offpolicy.Report{
		LLM: "a<b", Target: "token-load, max_ttft_penalty 5 instead of 18", Quantity: offpolicy.TTFT, Unit: "s", Longest: 60, From: at, To: at.Add(time.Hour),
		Decisions: 500, Judged: 400, Deterministic: 10, LeftOut: []offpolicy.Left{{Why: offpolicy.Aborted, Decisions: 100}}, Failed: 3, Cut: 2, TurnedAway: 1,
		LoggedBy: []offpolicy.Decided{{Policy: "predicted", Decisions: 400}}, TargetBy: []offpolicy.Decided{{Policy: "token-load", Decisions: 400}},
		Logged: e.Logged(1), Estimates: e.Estimates(1), Switch: feature.Number(e.Switch()), Overlap: e.Overlap(),
		Sequence: &offpolicy.Sequence{Low: low, High: high}, Warnings: []string{"Beware of & <this>."},
	}
	dr := r.Estimates[4].Effect
	r.Aborted = &offpolicy.Aborts{Requests: 100, Least: dr, Most: dr}
	return r
}

var svgs = regexp.MustCompile(`(?s)<svg.*?</svg>`)

// The table and the page tell all of a report, also where there is next to
// nothing to tell, and the drawings are well-formed.
func TestPolicyReport(t *testing.T) {
	full := policyReport()
	bare := full
	none := feature.Number(math.NaN())
	unknown := evaluate.Interval{Mean: none, Low: none, High: none}
	bare.Deterministic, bare.Sequence, bare.Aborted, bare.Warnings = bare.Judged, nil, nil, nil
	bare.Estimates = []offpolicy.Estimate{{Name: offpolicy.IPS, Target: unknown, Effect: unknown, Relative: unknown, Logged: none, Withheld: "no decision was left to chance"}}
	share := full
	share.Quantity, share.Unit, share.Longest = offpolicy.Attained, "", 1
	for name, c := range map[string]struct {
		report offpolicy.Report
		says   []string
		charts int
	}{
		"full": {full, []string{"mean TTFT", "max_ttft_penalty 5", "left out: 100", "3 got no answer", "as 60.0 s", "turned away", "switch-DR", "DM, all", "relative",
			"confidence sequence", "given up", "Beware", "first-order", "holds which prefix"}, 3},
		"bare":  {bare, []string{"no decision was left to chance", "400 of them left nothing to chance"}, 1},
		"share": {share, []string{"more is better", "points", "count as misses"}, 3},
	} {
		var text, page bytes.Buffer
		if err := report.WritePolicyTable(&text, &c.report); err != nil {
			t.Fatal(err)
		}
		if err := report.WritePolicyPage(&page, &c.report, "spillway evaluate policy"); err != nil {
			t.Fatal(err)
		}
		plain := strings.Join(strings.Fields(text.String()), " ")
		for _, want := range c.says {
			if !strings.Contains(plain, want) || name == "full" && !strings.Contains(page.String(), want) {
				t.Errorf("%s: want %q in both of:\n%s\n%s", name, want, text.String(), page.String())
			}
		}
		if strings.Contains(text.String(), "NaN") || strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "a<b") {
			t.Errorf("%s: a number that is none, or a name that is no text:\n%s", name, page.String())
		}
		charts := svgs.FindAllString(page.String(), -1)
		if len(charts) != c.charts {
			t.Errorf("%s: %d drawings, want %d", name, len(charts), c.charts)
		}
		for _, svg := range charts {
			for d := xml.NewDecoder(strings.NewReader(svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v in %s", name, err, svg)
				}
			}
		}
	}
}
