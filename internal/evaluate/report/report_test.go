package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/feature"
)

// made is a report of n rows, none of which has a TPOT, on e endpoints.
func made(n, e int) evaluate.Report {
	rng := rand.New(rand.NewPCG(1, 2))
	unknown := feature.Seconds(feature.Unknown)
	f := evaluate.NewForecasts(evaluate.Options{Series: evaluate.Logged(), Split: evaluate.AsLogged, Load: "inflight_requests"})
	f.Skip(evaluate.Failed)
	for i := range n {
		raw := feature.Forecast{TTFT: feature.Quantiles{P50: 0.5, P90: 0.7}, TPOT: feature.Quantiles{P50: unknown, P90: unknown}}
		prior := raw
		prior.TTFT.P90 = unknown
		f.Add(&evaluate.Case{
			At: time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC), LLM: "<qwen>", Endpoint: "pod-" + string(rune('a'+rng.IntN(e))),
			PromptTokens: 100, Load: float64(rng.IntN(5)), TTFT: feature.Seconds(0.4 + 0.3*rng.Float64()), TPOT: unknown, CensoredAt: unknown,
			Forecasts: []feature.Forecast{prior, raw, raw},
		})
	}
	return f.Report(1)
}

// The table tells what there is, aligned, and says what there is not.
func TestTable(t *testing.T) {
	var text strings.Builder
	if err := report.WriteTable(&text, []evaluate.Report{made(500, 24)}); err != nil {
		t.Fatal(err)
	}
	got := text.String()
	for _, want := range []string{
		"<qwen>: 500 of 501 rows judged, 2026-01-02 03:04:00 to 2026-01-02 03:12:19 UTC, forecasts as they were logged\n",
		"left out: 1, not served", "\nTTFT\n", "prior: the analytic prior alone", "4 more\n", "TPOT: no row has one", "1.40x",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
		t.Errorf("not for people:\n%s", got)
	}
}

// The page is well-formed whatever was judged, and escapes names.
func TestPage(t *testing.T) {
	for name, reports := range map[string][]evaluate.Report{
		"usual": {made(500, 3)}, "one row": {made(1, 1)}, "nothing": {made(0, 1)}, "two": {made(100, 2), made(50, 1)}, "none": nil,
	} {
		var page strings.Builder
		if err := report.WritePage(&page, reports, `spillway evaluate --rows "<x>"`); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), "<qwen>") || strings.Contains(page.String(), "NaN") {
			t.Errorf("%s:\n%s", name, page.String())
		}
		body := page.String()
		for body != "" {
			from := strings.Index(body, "<svg")
			if from < 0 {
				break
			}
			to := strings.Index(body, "</svg>") + len("</svg>")
			for dec := xml.NewDecoder(strings.NewReader(body[from:to])); ; {
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			body = body[to:]
		}
	}
}
