package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

// tried is a report of n requests a second apart, some of which failed.
func tried(t *testing.T, n int, o experiment.Options, part func(i int, at time.Time) (design, arm string)) experiment.Report {
	t.Helper()
	a, err := experiment.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	unknown := feature.Seconds(feature.Unknown)
	start := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for i := range n {
		at := start.Add(time.Duration(i) * time.Second)
		text, arm := part(i, at)
		ttft := feature.Seconds(rng.ExpFloat64() + float64(len(arm))/10)
		d := feature.Decision{DecidedAt: at, LLM: "a<b", Experiment: text, Arm: arm, Policy: "predicted", Chosen: "e", PromptTokens: 100, SLOTTFT: unknown, SLOTPOT: unknown}
		out := feature.Outcome{Attempt: 1, Status: feature.OK, TTFT: ttft, TPOT: 0.02, E2E: ttft + 1, OutputTokens: 50, CensoredAt: unknown, FinishedAt: at.Add(time.Minute)}
		if i%50 == 0 {
			out.Status, out.TTFT, out.TPOT, out.E2E = feature.UpstreamError, unknown, unknown, unknown
		}
		if err := a.Add(&d, &out); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Report(1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExperimentReport(t *testing.T) {
	start := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	plan := design.Switchback{Name: "spring", Start: start, Block: time.Minute, BurnIn: 20 * time.Second, Pairs: 7, Seed: 1, Arms: [2]string{"token-load", "predicted"}}
	back := tried(t, 15*60, experiment.Options{SLO: experiment.SLO{TTFT: 2}}, func(_ int, at time.Time) (string, string) {
		if place, ok := plan.At(at); ok {
			return plan.String(), plan.Arms[place.Arm]
		}
		return "", ""
	})
	back.Warnings = append(back.Warnings, "Beware of & <this>.")
	canary := design.Canary(0.5, "predicted")
	split := tried(t, 800, experiment.Options{}, func(i int, _ time.Time) (string, string) { return canary.String(), canary.Arms[i%7&1] })
	bare := back
	bare.LLM = ""
	s := *back.Switchback
	s.HalfLife, s.Blocks = feature.Number(math.NaN()), s.Blocks[:1]
	bare.Switchback = &s
	for name, c := range map[string]struct {
		report experiment.Report
		says   []string
		charts int
	}{
		"switchback": {back, []string{"a<b: experiment spring, predicted instead of token-load", "7 of 7 pairs of blocks of 1m0s", "mean TTFT", "TTFT p90", "met their objectives",
			"goodput", "failed or shed", "requests sent", "in the burn-in", "60 decisions were no part of it", "carry-over", "for 5 %", "Beware of & <this>."}, 4},
		"split":       {split, []string{"canary, predicted instead of fallback", "naive difference", "difference in Q", "check: prompts", "biased", "a share of 50 % by design"}, 3},
		"next to nil": {bare, []string{"one LLM: experiment spring"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var text, page bytes.Buffer
			if err := report.WriteExperimentTable(&text, &c.report); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the table lacks %q:\n%s", want, &text)
				}
			}
			if strings.Contains(text.String(), "NaN") {
				t.Errorf("the table shows NaN:\n%s", &text)
			}
			if err := report.WriteExperimentPage(&page, &c.report, "spillway evaluate <experiment>"); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(page.Bytes(), []byte("a<b")) || bytes.Contains(page.Bytes(), []byte("<experiment>")) || bytes.Contains(page.Bytes(), []byte("NaN")) {
				t.Error("the page has unescaped text or NaN")
			}
			drawn := svgs.FindAll(page.Bytes(), -1)
			if len(drawn) != c.charts {
				t.Errorf("%d charts, want %d", len(drawn), c.charts)
			}
			for _, svg := range drawn {
				d := xml.NewDecoder(bytes.NewReader(svg))
				for {
					if _, err := d.Token(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatalf("%v in %s", err, svg)
					}
				}
			}
		})
	}
}
