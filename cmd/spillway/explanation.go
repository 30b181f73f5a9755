package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// explanation is a decision as a person reads it. Times are in seconds.
type explanation struct {
	ID         string              `json:"id"`
	DecidedAt  time.Time           `json:"decided_at"`
	LLM        string              `json:"llm"`
	Router     string              `json:"router"`
	Mode       string              `json:"mode"`
	Policy     string              `json:"policy"`
	State      string              `json:"state"`
	Reason     string              `json:"reason"`
	Bundle     int64               `json:"bundle"`
	Prompt     feature.Number      `json:"prompt_tokens"`
	Output     feature.Number      `json:"expected_output_tokens"`
	SLOTTFT    feature.Seconds     `json:"slo_ttft"` // null when unset
	SLOTPOT    feature.Seconds     `json:"slo_tpot"`
	Priority   int                 `json:"priority"`
	Chosen     string              `json:"chosen"` // empty when the request was shed
	Propensity feature.Number      `json:"propensity"`
	Explored   bool                `json:"explored"`
	ShedChance feature.Number      `json:"shed_probability"`
	Valve      *explainedValve     `json:"valve,omitempty"` // where there were two sides to compare
	Candidates []explainedEndpoint `json:"candidates"`
	Rest       int                 `json:"candidates_not_stored"`
	Replay     string              `json:"replay"` // whether deciding again gives the same
	Outcomes   []explainedOutcome  `json:"outcomes"`
}

// explainedValve is the comparison that keeps a request with its prefix, or
// lets it go.
type explainedValve struct {
	Warm    feature.Seconds `json:"warm"`    // best estimated TTFT of those that hold the prefix
	Coldest feature.Seconds `json:"coldest"` // and of the others
	Gap     feature.Seconds `json:"gap"`     // warm - coldest
	OpensAt feature.Seconds `json:"opens_at"`
	Margin  feature.Seconds `json:"margin"` // opens_at - gap; below 0 it is open
}

type explainedEndpoint struct {
	Endpoint      string          `json:"endpoint"`
	Class         string          `json:"class"`
	Probability   feature.Number  `json:"probability"`
	Cost          feature.Number  `json:"cost"`
	Cached        feature.Number  `json:"cached_tokens"`
	InFlight      feature.Number  `json:"inflight_requests"`
	PrefillTokens feature.Number  `json:"inflight_prefill_tokens"`
	Speed         feature.Number  `json:"speed_factor"`
	PriorTTFT     feature.Seconds `json:"prior_ttft"`
	TTFT          feature.Seconds `json:"forecast_ttft_p50"`
	TTFTP90       feature.Seconds `json:"forecast_ttft_p90"`
	PriorTPOT     feature.Seconds `json:"prior_tpot"`
	TPOT          feature.Seconds `json:"forecast_tpot_p50"`
	TPOTP90       feature.Seconds `json:"forecast_tpot_p90"`
	Terms         *policy.Terms   `json:"terms,omitempty"` // of the cost, where predicted decided
}

type explainedOutcome struct {
	Attempt  int             `json:"attempt"`
	Status   feature.Status  `json:"status"`
	Endpoint string          `json:"endpoint"`
	TTFT     feature.Seconds `json:"ttft"`
	TPOT     feature.Seconds `json:"tpot"`
	E2E      feature.Seconds `json:"e2e"`
	Output   feature.Number  `json:"output_tokens"`
	Cached   feature.Number  `json:"cached_tokens"`
}

func explain(d *feature.Decision, outcomes []feature.Outcome) explanation {
	e := explanation{
		ID: d.ID.String(), DecidedAt: d.DecidedAt, LLM: d.LLM, Router: d.Router, Mode: d.Mode, Policy: d.Policy, State: d.State,
		Reason: d.Reason, Bundle: d.Bundle, Prompt: feature.Number(d.PromptTokens), Output: feature.Number(d.ExpectedOutputTokens),
		SLOTTFT: d.SLOTTFT, SLOTPOT: d.SLOTPOT, Priority: d.Priority,
		Chosen: d.Chosen, Propensity: feature.Number(d.Propensity), Explored: d.Explored, Rest: d.Rest,
		ShedChance: feature.Number(feature.Unknown), Candidates: []explainedEndpoint{}, Outcomes: []explainedOutcome{},
	}
	in, again := e.replay(d)
	for i := range d.Candidates {
		e.Candidates = append(e.Candidates, explainCandidate(&d.Candidates[i], in, again, i))
	}
	for _, o := range outcomes {
		e.Outcomes = append(e.Outcomes, explainedOutcome{
			Attempt: o.Attempt, Status: o.Status, Endpoint: o.Endpoint, TTFT: o.TTFT, TPOT: o.TPOT, E2E: o.E2E,
			Output: feature.Number(o.OutputTokens), Cached: feature.Number(o.CachedTokens),
		})
	}
	return e
}

// replay makes the decision again and says whether it is the same. What was
// known then is returned as far as it can be read, and the choice where it is
// the same.
func (e *explanation) replay(d *feature.Decision) (*policy.Input, *policy.Choice) {
	if !d.Complete {
		e.Replay = "not possible: the row does not hold every candidate"
		return nil, nil
	}
	in, err := policy.Replay(d)
	if err != nil {
		e.Replay = "not possible: " + err.Error()
		if in, err = policy.Decode(d.States); err != nil || len(in.Candidates) != len(d.Candidates) {
			return nil, nil
		}
		return in, nil
	}
	var again policy.Choice
	if err = policy.Decide(in, &again); err == nil {
		err = policy.Same(d, in, &again)
	}
	if err != nil {
		e.Replay = "DIFFERS: " + err.Error()
		return in, nil
	}
	e.Replay, e.ShedChance = "the same choice and probabilities", feature.Number(again.ShedProbability)
	if r := &again.Reason; r.Valve > 0 && !feature.IsUnknown(r.Gap) {
		e.Valve = &explainedValve{Warm: r.Warm, Coldest: r.Coldest, Gap: r.Gap, OpensAt: r.Valve, Margin: r.Valve - r.Gap}
	}
	return in, &again
}

// explainCandidate is candidate i of a decision. in and again may be nil.
func explainCandidate(c *feature.Candidate, in *policy.Input, again *policy.Choice, i int) explainedEndpoint {
	unknown, none := feature.Seconds(feature.Unknown), feature.Number(feature.Unknown)
	x := explainedEndpoint{
		Endpoint: c.Endpoint, Class: c.Class, Probability: feature.Number(c.Probability), Cost: feature.Number(c.Cost),
		TTFT: c.Corrected.TTFT.P50, TTFTP90: c.Corrected.TTFT.P90, TPOT: c.Corrected.TPOT.P50, TPOTP90: c.Corrected.TPOT.P90,
		Cached: none, InFlight: none, PrefillTokens: none, Speed: none, PriorTTFT: unknown, PriorTPOT: unknown,
	}
	if in == nil {
		return x
	}
	known := &in.Candidates[i]
	prior := known.Prior(&in.Request)
	x.Cached, x.InFlight = feature.Number(known.CachedTokens), feature.Number(known.Load.Ledger.Requests)
	x.PrefillTokens, x.Speed = feature.Number(known.Load.Ledger.PrefillTokens), feature.Number(known.Load.Profile.SpeedFactor)
	x.PriorTTFT, x.PriorTPOT = prior.TTFT, prior.TPOT
	if again == nil {
		return x
	}
	if terms := again.Terms(in, i); !feature.IsUnknown(terms.TTFT) {
		x.Terms = &terms
	}
	return x
}

func (e *explanation) print(w io.Writer) {
	fmt.Fprintf(w, "decision %s\n", e.ID)
	fmt.Fprintf(w, "  %s  %s by router %s\n", e.DecidedAt.Format("2006-01-02 15:04:05.000"), e.LLM, e.Router)
	fmt.Fprintf(w, "  prompt %.0f tokens, %.0f expected out", e.Prompt, e.Output)
	if !feature.IsUnknown(e.SLOTTFT) {
		fmt.Fprintf(w, ", SLO of TTFT %g s", e.SLOTTFT)
	}
	if !feature.IsUnknown(e.SLOTPOT) {
		fmt.Fprintf(w, ", SLO of TPOT %g ms", 1000*e.SLOTPOT)
	}
	if e.Priority != 0 {
		fmt.Fprintf(w, ", priority %d", e.Priority)
	}
	fmt.Fprintf(w, "\n  %s decided (mode %s, forecasts %s", e.Policy, e.Mode, e.State)
	if e.Bundle != 0 {
		fmt.Fprintf(w, ", bundle %d", e.Bundle)
	}
	if e.Chosen == "" {
		fmt.Fprintf(w, ")\n  turned the request away: %s\n", e.Reason)
	} else {
		fmt.Fprintf(w, ")\n  chose %s with probability %.4g: %s\n", e.Chosen, e.Propensity, e.Reason)
	}
	if v := e.Valve; v != nil {
		state := "shut"
		if v.Margin < 0 {
			state = "open"
		}
		fmt.Fprintf(w, "  valve %s: warm %.2f s, coldest %.2f s, gap %.2f s; it opens above %g s, margin %.2f s\n", state, v.Warm, v.Coldest, v.Gap, v.OpensAt, v.Margin)
	}
	fmt.Fprintln(w)
	e.printCandidates(w)
	e.printTerms(w)
	fmt.Fprintf(w, "\nreplay: %s\n", e.Replay)
	if len(e.Outcomes) == 0 {
		fmt.Fprintln(w, "no outcome yet")
	}
	for _, o := range e.Outcomes {
		if o.Status == feature.Shed {
			fmt.Fprintln(w, "outcome: shed")
			continue
		}
		fmt.Fprintf(w, "outcome: %s on %s (attempt %d): TTFT %s, TPOT %s, E2E %s, %s tokens out, %s cached\n", o.Status, o.Endpoint, o.Attempt,
			number(o.TTFT, "%.3f s"), number(o.TPOT*1000, "%.1f ms"), number(o.E2E, "%.3f s"), number(o.Output, "%.0f"), number(o.Cached, "%.0f"))
	}
}

func (e *explanation) mark(c *explainedEndpoint) string {
	if c.Endpoint == e.Chosen {
		return "* " + c.Endpoint
	}
	return c.Endpoint
}

func (e *explanation) printCandidates(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "endpoint\tclass\tprob\tcost\tcached\tin flight\tprefill\tspeed\tTTFT prior\tforecast\tp90\tTPOT prior\tforecast\tp90\t")
	for i := range e.Candidates {
		c := &e.Candidates[i]
		fmt.Fprintf(t, "%s\t%s\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", e.mark(c), c.Class, c.Probability,
			number(c.Cost, "%.4g"), number(c.Cached, "%.0f"), number(c.InFlight, "%.0f"), number(c.PrefillTokens, "%.0f"), number(c.Speed, "%.2f"),
			number(c.PriorTTFT, "%.3f s"), number(c.TTFT, "%.3f s"), number(c.TTFTP90, "%.3f s"),
			number(c.PriorTPOT*1000, "%.1f ms"), number(c.TPOT*1000, "%.1f ms"), number(c.TPOTP90*1000, "%.1f ms"))
	}
	t.Flush()
	if e.Rest > 0 {
		fmt.Fprintf(w, "and %d candidates that are not stored\n", e.Rest)
	}
}

// printTerms shows what the costs are made of, where predicted decided.
func (e *explanation) printTerms(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	first := true
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Terms == nil {
			continue
		}
		if first {
			fmt.Fprintln(w, "\ncosts in seconds: the request itself, then what it does to others")
			fmt.Fprintln(t, "endpoint\tcost\tTTFT\timpatience\toutput\teviction\theadroom\tholds up\tqueues\tslows\t")
			first = false
		}
		x := c.Terms
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t\n", e.mark(c), c.Cost, x.TTFT, x.Impatience, x.Output, x.Eviction, x.Headroom, x.Prefill, x.Queue, x.Decode)
	}
	t.Flush()
}

// number formats v, or says that it is not known.
func number[T ~float64](v T, format string) string {
	if v != v {
		return "-"
	}
	return fmt.Sprintf(format, float64(v))
}
