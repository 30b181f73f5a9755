package fit_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// answers are the answers of simulated engines under mixed traffic.
func answers(t *testing.T, p physics.Profile, engines int, load float64, seed uint64) []fit.Answer {
	t.Helper()
	s, err := workload.Named("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s.Duration = 20 * time.Minute
	specs := make([]fleet.EngineSpec, engines)
	for i := range specs {
		specs[i] = fleet.EngineSpec{Profile: p, Overhead: 8 * time.Millisecond}
	}
	result, err := fleet.Simulate(context.Background(), fleet.WorldConfig{
		Engines: specs, Router: fleet.RouterConfig{Policy: policy.TokenLoad},
		Plan: s.Sessions(seed, load*float64(engines)), Seed: seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]fit.Answer, 0, len(result.Requests))
	for _, o := range result.Requests {
		seconds := func(d time.Duration) feature.Seconds {
			if d == 0 {
				return feature.Seconds(feature.Unknown)
			}
			return feature.SecondsOf(d)
		}
		rows = append(rows, fit.Answer{
			Endpoint: strconv.Itoa(o.Endpoint), Sent: feature.SecondsOf(o.At),
			PromptTokens: float64(o.PromptTokens), UncachedTokens: float64(o.PromptTokens - o.CachedTokens), OutputTokens: float64(o.OutputTokens),
			TTFT: seconds(o.TTFT), TPOT: seconds(o.TPOT), Ended: feature.SecondsOf(o.E2E), Complete: o.Status == feature.OK,
		})
	}
	return rows
}

// Prefill that runs during an answer is not charged to decoding: under a load
// that is about what the engines can serve, their own coefficients come out. One
// fit knows d less well than the others: it is 2 to 4 % of a step, and how many
// blocks are read once for several sequences the rows do not tell.
func TestAnswersFindTheEngine(t *testing.T) {
	for name, load := range map[string]float64{"qwen3-32b-h100-tp2-routing": 0.3, "llama-3.1-70b-h100-tp4-vllm": 0.4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			truth, err := physics.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			want := truth.Coefficients
			var d []float64
			for seed := range uint64(5) {
				a, err := fit.Answers(answers(t, truth, 4, load, seed), fit.Engine{MaxBatchedTokens: float64(truth.MaxBatchedTokens)})
				if err != nil {
					t.Fatal(err)
				}
				got := a.Coefficients
				d = append(d, got.D/want.D)
				for _, x := range []struct {
					what              string
					got, want, within float64
				}{
					{"a", got.A, want.A, 0.05},
					{"b", got.B, want.B, 0.1},
					{"c", got.C, want.C, 0.25},
					{"d", got.D, want.D, 0.5},
					{"e", got.E, want.E, 0.1},
				} {
					if off := x.got/x.want - 1; !(math.Abs(off) <= x.within) {
						t.Errorf("seed %d: %s is %g, %g was true: %.0f %% off", seed, x.what, x.got, x.want, 100*off)
					}
				}
			}
			slices.Sort(d)
			if off := d[len(d)/2] - 1; !(math.Abs(off) <= 0.25) {
				t.Errorf("d is %.0f %% off in the median of %.2f", 100*off, d)
			}
		})
	}
}

// What stood beside counts, and does not teach; rows that are held out are told
// apart by whether something was prefilled meanwhile.
func TestAnswersOfCompany(t *testing.T) {
	truth, err := physics.Named("llama-3.1-70b-h100-tp4-vllm")
	if err != nil {
		t.Fatal(err)
	}
	rows := answers(t, truth, 1, 0.4, 1)
	complete := 0
	for i := range rows {
		if i%4 == 0 {
			rows[i].Complete = false // its times are known to the test alone
		}
		if rows[i].Complete {
			complete++
		}
	}
	engine := fit.Engine{MaxBatchedTokens: float64(truth.MaxBatchedTokens)}
	a, err := fit.Answers(rows, engine)
	if err != nil {
		t.Fatal(err)
	}
	if off := a.Coefficients.B/truth.Coefficients.B - 1; a.Rows != complete || math.Abs(off) > 0.1 {
		t.Errorf("%d rows taught, want %d; b is %.0f %% off", a.Rows, complete, 100*off)
	}
	cross, err := fit.CrossAnswers(rows, engine)
	if err != nil {
		t.Fatal(err)
	}
	all, alone, beside := cross.Of(fit.All), cross.Of("decode only"), cross.Of("with prefill")
	if all.TTFT.Rows != complete || alone.TTFT.Rows+beside.TTFT.Rows != complete || alone.TTFT.Rows == 0 || beside.TTFT.Rows == 0 {
		t.Errorf("%d rows were judged, %d and %d, of %d", all.TTFT.Rows, alone.TTFT.Rows, beside.TTFT.Rows, complete)
	}
	if all.TPOT.Median > 0.02 || all.TTFT.Median > 0.1 {
		t.Errorf("held out: %+v", all)
	}

	for i := range rows {
		rows[i].Complete = i < 20
	}
	if _, err := fit.Answers(rows, engine); err == nil || !strings.Contains(err.Error(), "want at least 50") {
		t.Errorf("20 complete rows: %v", err)
	}
	if _, err := fit.Answers(rows, fit.Engine{}); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("no step size: %v", err)
	}
}

func TestAnswerOfRow(t *testing.T) {
	origin := time.Unix(1000, 0)
	row := feature.Row{DecidedAt: origin.Add(2 * time.Second), Outcome: feature.Outcome{
		Status: feature.OK, Endpoint: "e", TTFT: 0.5, TPOT: 0.02, E2E: 2.5, OutputTokens: 101, CachedTokens: feature.Unknown,
	}}
	row.Vector[feature.ColumnPromptTokens], row.Vector[feature.ColumnCachedTokens] = 1000, 600
	want := fit.Answer{
		Endpoint: "e", Sent: 2, PromptTokens: 1000, UncachedTokens: 400, OutputTokens: 101, TTFT: 0.5, TPOT: 0.02, Ended: 2.5, Complete: true,
	}
	if got, ok := fit.AnswerOf(&row, origin); !ok || got != want {
		t.Errorf("got %+v, %t, want %+v", got, ok, want)
	}
	row.Outcome.CachedTokens, row.Outcome.Status = 1000, feature.ClientAbort
	if got, ok := fit.AnswerOf(&row, origin); !ok || got.Complete || got.UncachedTokens != 1 { // the last token is always computed
		t.Errorf("aborted: %+v, %t", got, ok)
	}
	row.Outcome.TTFT = feature.Seconds(feature.Unknown)
	if got, ok := fit.AnswerOf(&row, origin); ok {
		t.Errorf("without a token: %+v", got)
	}
}
