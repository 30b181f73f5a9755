package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/advise/report"
	"github.com/spillway-llm/spillway/router/policy"
)

func example() *advise.Advice {
	unknown := math.NaN()
	a := &advise.Advice{
		Requests: 1200, Seeds: []uint64{1, 2}, Matched: policy.ActiveRequest, Recommended: policy.Predicted, Every: 30,
		Why:   []string{"time for decoding binds 60 % of the time <&>."},
		Valve: advise.Valve{Penalty: 4, Predicted: 4, Throughput: 16_000, Tokens: 64_000, Says: "opens at 64000 uncached tokens"},
	}
	a.Class.Share[advise.Decode], a.Class.Share[advise.Prefill] = 0.6, 0.4
	for i, binds := range []advise.Resource{advise.Prefill, advise.Prefill, advise.KV, advise.Nothing} {
		a.Moments = append(a.Moments, advise.Moment{At: time.Duration(i) * 30 * time.Second, Prefill: 0.3, Decode: 0.2, Slots: unknown, KV: float64(i) / 3, Binds: binds})
	}
	for i, name := range advise.Policies {
		change := advise.Change{Mean: 0.1 - 0.1*float64(i), Low: -0.05 * float64(i+1), High: 0.2}
		r := advise.Result{Policy: name, E2E: advise.Estimate{Mean: 12.5, Low: 12, High: 13}, E2EChange: change, TTFTP90Change: advise.Change{Mean: 20, Low: 3, High: 90}, TPOTP90Change: advise.Change{Mean: unknown, Low: unknown, High: unknown}}
		r.Parts = []advise.Change{change, change}
		a.Results = append(a.Results, r)
	}
	return a
}

var subject = report.Subject{Traffic: "mixed at 3 requests/s", Fleet: "10 endpoints", Command: "spillway advise --workload mixed --load 3"}

func TestTableSaysWhatToDo(t *testing.T) {
	var out strings.Builder
	if err := report.WriteTable(&out, subject, example()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mixed at 3 requests/s on 10 endpoints", "recommended: predicted (of the matched configurations: active-request)",
		"Time for decoding binds", "over time: ppk. (", "2 paired seeds of 1200 requests", "12.5 ±0.5", "+10.0 [-5.0, +20.0]", "compared",
		"policy: predicted\n  fallback: active-request", "max_ttft_penalty: 4\n", "default_peak_prefill_throughput: 16000",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// TestPageIsWellFormed: every drawing is XML, text is escaped, and nothing that is
// not known is drawn as a number.
func TestPageIsWellFormed(t *testing.T) {
	var out strings.Builder
	if err := report.WritePage(&out, subject, example()); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if strings.Contains(page, "NaN") || strings.Contains(page, "<&>") {
		t.Error("the page shows NaN, or text that is not escaped")
	}
	drawings := 0
	for rest := page; ; drawings++ {
		from := strings.Index(rest, "<svg")
		if from < 0 {
			break
		}
		to := strings.Index(rest, "</svg>") + len("</svg>")
		decoder := xml.NewDecoder(strings.NewReader(rest[from:to]))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("drawing %d: %v", drawings, err)
			}
		}
		rest = rest[to:]
	}
	if drawings != 3 {
		t.Errorf("%d drawings, want use, bars and parts", drawings)
	}
	for _, binds := range []string{"prefill binds", "kv binds", "nothing binds"} {
		if !strings.Contains(page, "<title>"+binds) {
			t.Errorf("the strip does not show %q", binds)
		}
	}
}
