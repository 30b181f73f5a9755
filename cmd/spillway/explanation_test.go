package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/explain"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
)

// decided is a decision of predicted as the store gives it back: a holds the
// prompt and forecasts 0.31 s, b does not and forecasts 0.22 s.
func decided(t *testing.T, change func(*policy.Input)) feature.Decision {
	t.Helper()
	p, err := physics.Named(defaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	in := &policy.Input{
		Policy: policy.Predicted, Fallback: policy.CombinedLoad, Forecasts: true, Settings: policy.Defaults(), Seed: 1,
		Request: policy.Request{
			PromptTokens: 1000, ExpectedOutputTokens: 100, MaxOutputTokens: feature.Unknown, Completions: 1,
			SLOTTFT: feature.Seconds(feature.Unknown), SLOTPOT: feature.Seconds(feature.Unknown),
		},
	}
	in.Settings.Exploration = 0
	for i, ttft := range []float64{0.31, 0.22} {
		c := policy.Candidate{
			Endpoint: string('a' + rune(i)), Class: "h100", CachedTokens: 900 * float64(1-i), HotTokens: 1000, SpeedSteps: 500,
			Coefficients: p.Coefficients,
			Load: feature.Load{Profile: feature.Profile{
				PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: float64(p.MaxBatchedTokens), MaxNumSeqs: float64(p.MaxNumSeqs),
				KVCapacityTokens: float64(p.KVCapacityTokens), SpeedFactor: 1,
			}},
		}
		c.Load.Ledger.Requests, c.Load.Ledger.Decoding, c.Load.Ledger.Remaining[9] = 3, 3, 3
		prior := c.Prior(&in.Request)
		c.Residual.TTFT = feature.LogQuantiles{P50: math.Log(ttft / float64(prior.TTFT)), P90: math.Log(1.2 * ttft / float64(prior.TTFT))}
		c.Residual.TPOT = feature.LogQuantiles{P50: math.Log(0.02 / float64(prior.TPOT)), P90: math.Log(0.025 / float64(prior.TPOT))}
		in.Candidates = append(in.Candidates, c)
	}
	change(in)
	var out policy.Choice
	if err := policy.Decide(in, &out); err != nil {
		t.Fatal(err)
	}
	d := feature.Decision{
		DecidedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), LLM: "qwen", Router: "r0", Mode: "live", State: "live", Bundle: 7, Schema: feature.Schema,
		Policy: out.Policy, PolicyVersion: policy.Version, Reason: out.Reason.String(), Complete: true, Seed: in.Seed,
		PromptTokens: 1000, ExpectedOutputTokens: 100, SLOTTFT: in.Request.SLOTTFT, SLOTPOT: in.Request.SLOTPOT, Priority: int(in.Request.Priority),
		States: policy.Encode(nil, in), Propensity: out.ShedProbability,
	}
	for i, c := range in.Candidates {
		d.Candidates = append(d.Candidates, feature.Candidate{
			Endpoint: c.Endpoint, Class: c.Class, Corrected: out.Forecasts[i], Cost: out.Costs[i], Probability: out.Probabilities[i], Vector: c.Vector(&in.Request),
		})
	}
	if out.Index >= 0 {
		d.Chosen, d.Propensity = in.Candidates[out.Index].Endpoint, out.Probabilities[out.Index]
	}
	return d
}

func TestExplainPrintsTheValveAndTheTerms(t *testing.T) {
	d := decided(t, func(*policy.Input) {})
	d.Experiment, d.Arm = "split share=0.05 arms=fallback|predicted", "predicted"
	e := explain.Of(&d, []feature.Outcome{{Attempt: 1, Status: feature.OK, Endpoint: "a", TTFT: 0.3, TPOT: 0.02, E2E: 2.3, OutputTokens: 100, CachedTokens: 896}})
	var text bytes.Buffer
	printExplanation(&text, &e)
	for _, want := range []string{
		"predicted decided (mode live, forecasts live, bundle 7, experiment split share=0.05 arms=fallback|predicted, arm predicted)",
		"chose a with probability 1: warm, 0.31 s; coldest 0.22 s; gap 0.09 s < 5 s",
		"valve shut: warm 0.31 s, coldest 0.22 s, gap 0.09 s; it opens above 5 s, margin 4.91 s",
		"endpoint   cost  TTFT  impatience  output  eviction  headroom  crowds  holds up  queues  slows",
		"vector of a\n  prompt_tokens ", "  cached_tokens ", "  prior_interference ",
		"replay: the same choice and probabilities",
		"outcome: ok on a (attempt 1): TTFT 0.300 s, TPOT 20.0 ms, E2E 2.300 s, 100 tokens out, 896 cached",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	for _, c := range e.Candidates {
		if c.Terms == nil || math.Abs(float64(c.Terms.Cost())-float64(c.Cost)) > 1e-12 || !(c.Terms.Prefill > 0) {
			t.Errorf("%s costs %v, its terms are %+v", c.Endpoint, c.Cost, c.Terms)
		}
	}
	if _, err := json.Marshal(e); err != nil {
		t.Error(err)
	}
}

func TestExplainPrintsWhatWasShed(t *testing.T) {
	d := decided(t, func(in *policy.Input) { in.Request.SLOTTFT, in.Request.Priority = 0.1, -1 })
	e := explain.Of(&d, []feature.Outcome{{Attempt: 1, Status: feature.Shed}})
	var text bytes.Buffer
	printExplanation(&text, &e)
	for _, want := range []string{
		"SLO of TTFT 0.1 s, priority -1", "turned the request away, with probability 1: shed with probability 1.00: best p90 is 164 % over its SLO", "outcome: shed", "replay: the same",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if e.ShedChance != 1 || e.Chosen != "" {
		t.Errorf("shed with probability %v, chose %q", e.ShedChance, e.Chosen)
	}
}

// Of an older decision what was known is still shown.
func TestExplainReadsWhatItCannotReplay(t *testing.T) {
	d := decided(t, func(*policy.Input) {})
	d.PolicyVersion = 1
	e := explain.Of(&d, nil)
	if !strings.HasPrefix(e.Replay, "not possible") || e.Candidates[0].Cached != 900 || e.Candidates[0].Terms != nil || e.Valve != nil {
		t.Errorf("explained %+v", e)
	}
	d.States = d.States[:10]
	if e = explain.Of(&d, nil); e.Candidates[0].Cached != 900 || e.Candidates[0].InFlight != 3 { // the vector has them too
		t.Errorf("explained %+v from cut states", e)
	}
	d.Schema[0]++
	if e = explain.Of(&d, nil); !feature.IsUnknown(e.Candidates[0].Cached) {
		t.Errorf("explained %+v from cut states and another schema", e)
	}
}
