package refit_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/refit"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/learn"
)

var column = feature.Index("inflight_requests")

// logged are rows whose actual TTFT is twice the prior, and more so where many
// are in flight, which a prior cannot know and a fit can.
func logged(n int) []feature.Row {
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([]feature.Row, n)
	for i := range rows {
		inflight, prompt := float64(rng.IntN(30)), 100+float64(rng.IntN(4000))
		prior := feature.Prior{TTFT: feature.Seconds(0.03 + prompt/10000), TPOT: 0.02}
		at := time.Unix(1e9, 0).UTC().Add(time.Duration(i) * time.Second)
		rows[i] = feature.Row{
			DecidedAt: at, LLM: "qwen", Endpoint: string(rune('a' + i%3)), Class: "h100", Schema: feature.Schema,
			Vector: feature.Of(feature.Request{PromptTokens: prompt, Completions: 1}, feature.Load{Ledger: feature.Ledger{Requests: inflight}}, prior),
			Outcome: feature.Outcome{Attempt: 1, Status: feature.OK, Endpoint: string(rune('a' + i%3)), FinishedAt: at.Add(3 * time.Second),
				TTFT: prior.TTFT * feature.Seconds((2+inflight/10)*math.Exp(0.1*rng.NormFloat64())), TPOT: feature.Seconds(feature.Unknown)},
		}
	}
	return rows
}

func options() refit.Options {
	return refit.Options{LLM: "qwen", At: time.Unix(2e9, 0), Load: "inflight_requests", Seed: 1, Settings: learn.Defaults()}
}

// What is fitted to the earlier rows is better than the prior on the later
// ones, and so is what is fitted to random ones; the same seed gives the same.
func TestJudge(t *testing.T) {
	var rows []refit.Row
	for _, r := range logged(1500) {
		row, why := refit.RowOf(&r, column)
		if why != "" {
			t.Fatal(why)
		}
		rows = append(rows, row)
	}
	reports, err := refit.Judge(t.Context(), rows, options())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range reports {
		prior, frozen, prequential := r.Series[0].TTFT, r.Series[1].TTFT, r.Series[2].TTFT
		if r.Split != []string{evaluate.ByTime, evaluate.AtRandom}[i] || r.Judged != 300 || r.LLM != "qwen" {
			t.Errorf("report %d: %s, %d rows of %s", i, r.Split, r.Judged, r.LLM)
		}
		if prior.All.MAPE < 0.5 || frozen.All.MAPE > 0.15 || prequential.All.MAPE > 0.15 {
			t.Errorf("%s: MAPE of the prior %v, frozen %v, prequential %v", r.Split, prior.All.MAPE, frozen.All.MAPE, prequential.All.MAPE)
		}
		if c := prequential.All.Coverage; c.Low > 0.93 || c.High < 0.87 {
			t.Errorf("%s: coverage %+v", r.Split, c)
		}
		if r.Series[1].TPOT.All.Rows != 0 {
			t.Errorf("%s: a TPOT from nowhere", r.Split)
		}
	}
	if from := reports[0].From; !from.Equal(rows[1200].Case.At) {
		t.Errorf("the later rows begin at %v, want %v", from, rows[1200].Case.At)
	}
	again, err := refit.Judge(t.Context(), rows, options())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reports, again, cmp.Comparer(func(a, b feature.Number) bool { return a == b || a != a && b != b })); diff != "" {
		t.Errorf("another time (-first +second):\n%s", diff)
	}
}

func TestTooFewRows(t *testing.T) {
	if _, err := refit.Judge(t.Context(), nil, options()); err == nil || !strings.Contains(err.Error(), "0 rows to learn from") {
		t.Errorf("no rows: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var rows []refit.Row
	for _, r := range logged(400) {
		row, _ := refit.RowOf(&r, column)
		rows = append(rows, row)
	}
	if _, err := refit.Judge(ctx, rows, options()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Measurements become rows with what they tell, and nothing else.
func TestMeasured(t *testing.T) {
	p, err := physics.Named("qwen3-32b-h200-tp1-vllm")
	if err != nil {
		t.Fatal(err)
	}
	unknown := feature.Seconds(feature.Unknown)
	rows := refit.Measured([]measured.Dispatch{
		{PromptTokens: 500, UncachedTokens: 500, OutputTokens: feature.Unknown, InFlight: 7, Waiting: 2, PrefillTokens: 900, KVUsed: 0.4, TTFT: 0.3, TPOT: unknown},
		{PromptTokens: 500, UncachedTokens: 500, TTFT: unknown, TPOT: unknown},
		{PromptTokens: 500, UncachedTokens: 500, TTFT: unknown, TPOT: 0.02},
	}, p, column)
	if len(rows) != 2 || rows[0].Case.Load != 7 || rows[0].Case.TTFT != 0.3 || !(rows[0].Sample.TTFT == rows[0].Sample.TTFT) || rows[1].Sample.TTFT == rows[1].Sample.TTFT {
		t.Fatalf("%+v", rows)
	}
	v := rows[0].Sample.Vector
	for name, want := range map[string]float32{"prompt_tokens": 500, "cached_tokens": 0, "waiting": 2, "kv_used": 0.4, "inflight_prefill_tokens": 900} {
		if got := v[feature.Index(name)]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"running", "inflight_decoding", "max_num_seqs", "expected_output_tokens", "completions"} {
		if got := v[feature.Index(name)]; got == got {
			t.Errorf("%s is %v, which the measurement does not tell", name, got)
		}
	}
}
