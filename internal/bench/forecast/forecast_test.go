package main

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/learn"
)

func TestWithoutData(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, options{}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("no folder: %v", err)
	}
	if err := run(t.Context(), &out, options{data: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "sharegpt-h200") {
		t.Errorf("an empty folder: %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("it printed %q", out.String())
	}
}

// row is one of the format.
const row = `{"kv_cache_percentage":0.1,"input_token_length":800,"num_request_waiting":2,"num_request_running":7,"actual_ttft_ms":250,"actual_tpot_ms":0,"prefill_tokens_in_flight":1200}`

func profile(t *testing.T) physics.Profile {
	t.Helper()
	p, err := physics.Named(routerProfile)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAVectorHoldsWhatTheFileTells(t *testing.T) {
	folder := t.TempDir()
	if err := bench.Write(filepath.Join(folder, "measured-h200", "some.jsonl"), []byte(row+"\n")); err != nil {
		t.Fatal(err)
	}
	tr, err := read(folder, "some", "some*.jsonl", profile(t))
	if err != nil {
		t.Fatal(err)
	}
	v := tr.samples[0].Vector
	known := map[string]float32{
		"prompt_tokens": 800, "cached_tokens": 0, "uncached_tokens": 800, "waiting": 2, "kv_used": 0.1,
		"inflight_requests": 7, "inflight_prefill_tokens": 1200, "prior_admission": 0, "prior_interference": 0,
	}
	for i, name := range feature.Names() {
		switch want, ok := known[name]; {
		case !ok && strings.HasPrefix(name, "prior_"):
			if !(v[i] > 0) {
				t.Errorf("%s is %v, want seconds", name, v[i])
			}
		case ok && v[i] != want:
			t.Errorf("%s is %v, want %v", name, v[i], want)
		case !ok && v[i] == v[i]:
			t.Errorf("%s is %v, want it unknown", name, v[i])
		}
	}
	if actual := latencies(&tr.samples[0]); math.Abs(actual[0]-0.25) > 1e-6 || actual[1] == actual[1] {
		t.Errorf("latencies %v, want 0.25 s and none", actual)
	}
}

func TestSplitsPartTheRows(t *testing.T) {
	tr := trace{samples: make([]learn.Sample, 100), states: make([]state, 100)}
	for i := range tr.samples {
		tr.samples[i].TTFT = float64(i)
	}
	learned, rest := tr.split("time", 1)
	if len(learned.samples) != 80 || learned.samples[79].TTFT != 79 || rest.samples[0].TTFT != 80 {
		t.Errorf("by time: %d learned", len(learned.samples))
	}
	learned, rest = tr.split("random", 1)
	_, other := tr.split("random", 2)
	seen, same := map[float64]bool{}, true
	for i, s := range rest.samples {
		same = same && s.TTFT == other.samples[i].TTFT
		seen[s.TTFT] = true
		if i > 0 && s.TTFT < rest.samples[i-1].TTFT {
			t.Error("a drawn part is not in the order of the file")
		}
	}
	for _, s := range learned.samples {
		seen[s.TTFT] = true
	}
	if len(seen) != 100 || len(rest.samples) != 20 || same {
		t.Errorf("at random: %d of 100 rows, %d judge, the same for two seeds: %v", len(seen), len(rest.samples), same)
	}
}

// TestScoresOfKnownForecasts judges forecasts with a known error and a p90 that
// is too high: both errors stay, and only what is moved covers nine in ten.
func TestScoresOfKnownForecasts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	samples, forecasts := make([]learn.Sample, 4000), make([]feature.Forecast, 4000)
	for i := range samples {
		samples[i].Vector[feature.ColumnPriorTTFT], samples[i].Vector[feature.ColumnPriorTPOT] = 1, 1
		samples[i].TTFT, samples[i].TPOT = 0.1*rng.NormFloat64(), math.NaN()
		forecasts[i] = feature.Forecast{TTFT: quantiles(2*math.Exp(samples[i].TTFT), 3), TPOT: quantiles(1, 1)}
	}
	var all tally
	all.add(samples, forecasts)
	s := all.scores()[0]
	if s.Rows != 4000 || math.Abs(s.MAPE-1) > 1e-6 || math.Abs(s.Median-1) > 1e-6 || math.Abs(s.WAPE-1) > 1e-6 {
		t.Errorf("scores %+v, want every error to be 100 %%", s)
	}
	if s.Frozen.Share != 1 {
		t.Errorf("frozen coverage %v, want all", s.Frozen)
	}
	if all.scores()[1].Rows != 0 {
		t.Error("a latency that no row has was judged")
	}
}

// TestForecastsOfMeasuredRows judges the later rows of one file by the bounds.
func TestForecastsOfMeasuredRows(t *testing.T) {
	data := os.Getenv("SPILLWAY_DATA")
	if data == "" {
		t.Skip("SPILLWAY_DATA is not set: the public measurements are not here")
	}
	p := profile(t)
	tr, err := read(data, "bimodal", "bimodal-h200*.jsonl", p)
	if err != nil {
		t.Fatal(err)
	}
	report := bench.Report{Sizes: map[string]int{}}
	lines, err := tr.judge(context.Background(), "bimodal", splits[0], p, 1, &report)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 8 || len(report.Bars) != 8 {
		t.Errorf("%d lines and %d bars, want 8 and 8", len(lines), len(report.Bars))
	}
	for _, b := range report.Bars {
		if !b.Holds() {
			t.Error(b)
		}
	}
	if n := report.Sizes["pairs across the edge, bimodal time"]; n < pairs/2 {
		t.Errorf("%d pairs lie across the edge, want half of %d", n, pairs)
	}
}
