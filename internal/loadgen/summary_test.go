package loadgen_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spillway-llm/spillway/internal/loadgen"
)

func TestSummarize(t *testing.T) {
	nan := loadgen.Measure(math.NaN())
	var records []loadgen.Record
	for i := range 100 {
		records = append(records, loadgen.Record{
			Status: loadgen.OK, TTFT: loadgen.Measure(i + 1), TPOT: nan, E2E: loadgen.Measure(100 - i), Late: 0.5,
			PromptTokens: 10, CachedTokens: loadgen.Count(i%2*10 - 1), OutputTokens: -1,
		})
	}
	records = append(records,
		loadgen.Record{Status: loadgen.Reset, TTFT: 1e6}, loadgen.Record{Status: loadgen.Canceled}, loadgen.Record{Status: loadgen.Overrun})
	s := loadgen.Summarize(slices.Values(records), 50*time.Second)
	if s.Sent != 102 || s.OK != 100 || s.Failed != 2 || s.Canceled != 1 {
		t.Errorf("%+v", s)
	}
	// Latencies count from the intended time, half a second earlier.
	if d := cmp.Diff(loadgen.Quantiles{N: 100, Mean: 51, P50: 50.5, P90: 90.5, P99: 99.5}, s.TTFT); d != "" {
		t.Error(d)
	}
	if s.TPOT.N != 0 || s.PromptRate != 20 || s.HitRate != 0.9 {
		t.Errorf("%+v", s)
	}
	b, err := json.Marshal(s)
	if err != nil || !strings.HasPrefix(string(b), `{"schema_version":1,`) ||
		!strings.Contains(string(b), `"tpot":{"n":0,"mean":null,"p50":null,"p90":null,"p99":null}`) ||
		!strings.Contains(string(b), `"failed_by":{"overrun":1,"reset":1}`) {
		t.Errorf("%s %v", b, err)
	}
	const table = `102 sent, 100 ok, 2 failed (overrun 1, reset 1), 1 canceled in 50.0 s

               p50    p90    p99   mean     n
    TTFT, s   50.5   90.5   99.5   51.0   100
   TPOT, ms      -      -      -      -     0
     E2E, s   50.5   90.5   99.5   51.0   100
   late, ms    500    500    500    500   100

20.0 prompt tokens/s, 0.000 output tokens/s, prefix hit rate 90.0 %
`
	if d := cmp.Diff(table, s.String()); d != "" {
		t.Error(d)
	}
}

func TestSummaryOfNothing(t *testing.T) {
	s := loadgen.Summarize(slices.Values([]loadgen.Record(nil)), 0)
	if _, err := json.Marshal(s); err != nil || !math.IsNaN(float64(s.HitRate)) || !strings.HasPrefix(s.String(), "0 sent") {
		t.Errorf("%+v %v", s, err)
	}
}

func TestUnknownIsNull(t *testing.T) {
	r := loadgen.Record{TTFT: loadgen.Measure(math.NaN()), CachedTokens: -1, HTTPStatus: 200, E2E: 1.5}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"ttft":null`, `"cached_tokens":null`, `"http_status":200`, `"e2e":1.5`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %s", b, want)
		}
	}
	var back loadgen.Record
	if err := json.Unmarshal(b, &back); err != nil || !math.IsNaN(float64(back.TTFT)) || back.CachedTokens != -1 {
		t.Errorf("%+v %v", back, err)
	}
}
