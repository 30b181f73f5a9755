package export

import (
	"fmt"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Column is one column of both formats.
type Column struct {
	Name string
	Unit string // as a person reads it: "seconds", "tokens", "text", ...
	Says string

	// at is where the column's value lies in a row. What it points to decides
	// how the value is written: see csv.go and parquet.go.
	at func(*Row) any
}

// Columns are the columns of an export, in the order of a CSV file.
func Columns() []Column { return append([]Column(nil), columns...) }

var columns = makeColumns()

// later reports whether a column has come later than others: a file of before
// may lack it, and nothing is read.
func (c *Column) later() bool {
	switch c.Name {
	case "candidates", "vectors", "states", "prompt_digest", "experiment", "arm":
		return true
	}
	return false
}

func makeColumns() []Column {
	all := []Column{
		{"decision", "UUID", "the decision's id, version 7", func(r *Row) any { return &r.Decision.ID }},
		{"decided_at", "time", "when it was made", func(r *Row) any { return &r.Decision.DecidedAt }},
		{"llm", "text", "the LLM that was asked", func(r *Row) any { return &r.Decision.LLM }},
		{"router", "text", "the router instance", func(r *Row) any { return &r.Decision.Router }},
		{"mode", "text", "shadow, canary, switchback or live", func(r *Row) any { return &r.Decision.Mode }},
		{"policy", "text", "the policy that decided", func(r *Row) any { return &r.Decision.Policy }},
		{"policy_version", "number", "its version", func(r *Row) any { return &r.Decision.PolicyVersion }},
		{"bundle", "number", "version of the bundle whose forecasts were used; 0: none", func(r *Row) any { return &r.Decision.Bundle }},
		{"schema", "hexadecimal", "fingerprint of the vector: what its columns mean", func(r *Row) any { return &r.Decision.Schema }},
		{"state", "text", "live, cold, stale, slow, down or wrong", func(r *Row) any { return &r.Decision.State }},
		{"reason", "text", "why, in one line", func(r *Row) any { return &r.Decision.Reason }},
		{"prompt_tokens", "tokens", "estimate of the whole prompt", func(r *Row) any { return &r.Decision.PromptTokens }},
		{"expected_output_tokens", "tokens", "estimate of the answer", func(r *Row) any { return &r.Decision.ExpectedOutputTokens }},
		{"slo_ttft", "seconds", "asked for by the request", func(r *Row) any { return &r.Decision.SLOTTFT }},
		{"slo_tpot", "seconds", "asked for by the request", func(r *Row) any { return &r.Decision.SLOTPOT }},
		{"priority", "number", "below 0 may be shed", func(r *Row) any { return &r.Decision.Priority }},
		{"chosen", "text", "the endpoint that was chosen; empty: shed", func(r *Row) any { return &r.Decision.Chosen }},
		{"class", "text", "its class", func(r *Row) any { return &r.Decision.ChosenClass }},
		{"propensity", "probability", "that it would be chosen, over the decision's own draws", func(r *Row) any { return &r.Decision.Propensity }},
		{"explored", "true or false", "chosen by exploration", func(r *Row) any { return &r.Decision.Explored }},
		{"complete", "true or false", "the store that logged it holds every candidate of it", func(r *Row) any { return &r.Decision.Complete }},
		{"rest", "endpoints", "candidates that the store does not hold", func(r *Row) any { return &r.Decision.Rest }},
		{"rest_cost_min", "seconds", "least cost of those", func(r *Row) any { return &r.Decision.RestCostMin }},
		{"rest_cost_max", "seconds", "greatest cost of those", func(r *Row) any { return &r.Decision.RestCostMax }},
		{"epoch", "number", "of the pool snapshot", func(r *Row) any { return &r.Decision.Epoch }},
		{"seed", "number", "of the decision's draws", func(r *Row) any { return &r.Decision.Seed }},
	}
	for i, f := range feature.Table() {
		all = append(all, Column{"vector_" + f.Name, f.Unit, fmt.Sprintf("%s of the chosen endpoint, known by the %s", f.Name, f.Source),
			func(r *Row) any { return &r.Decision.ChosenVector[i] }})
	}
	all = append(all, forecastColumns("forecast", "as the bundle gave it", func(r *Row) *feature.Forecast { return &r.Forecast })...)
	all = append(all, forecastColumns("corrected", "as the policy used it", func(r *Row) *feature.Forecast { return &r.Corrected })...)
	return append(all, []Column{
		{"attempt", "number", "the last one: 1, or 2 after a retry; 0: no outcome", func(r *Row) any { return &r.Outcome.Attempt }},
		{"status", "text", "ok, client_abort, upstream_error, upstream_timeout, shed or lost", func(r *Row) any { return &r.Outcome.Status }},
		{"http_status", "number", "that the client saw; 0: none", func(r *Row) any { return &r.Outcome.HTTPStatus }},
		{"ttft", "seconds", "dispatch to first generated token", func(r *Row) any { return &r.Outcome.TTFT }},
		{"tpot", "seconds", "time per output token after the first", func(r *Row) any { return &r.Outcome.TPOT }},
		{"e2e", "seconds", "dispatch to the end of the answer", func(r *Row) any { return &r.Outcome.E2E }},
		{"output_tokens", "tokens", "that were generated", func(r *Row) any { return &r.Outcome.OutputTokens }},
		{"cached_tokens", "tokens", "of the prompt, as the engine said", func(r *Row) any { return &r.Outcome.CachedTokens }},
		{"served_by", "text", "the endpoint that really served", func(r *Row) any { return &r.Outcome.Endpoint }},
		{"censored_at", "seconds", "without a TTFT: it would have been longer than this", func(r *Row) any { return &r.Outcome.CensoredAt }},
		{"finished_at", "time", "when the attempt ended", func(r *Row) any { return &r.Outcome.FinishedAt }},

		// All candidates: see later.
		{"candidates", "JSON", "of every candidate, what it is, its probability, its cost and the medians that the policy used", func(r *Row) any { return (*candidateTable)(&r.Decision.Candidates) }},
		{"vectors", "bytes", "their vectors one after the other, as little-endian 32-bit numbers", func(r *Row) any { return (*candidateVectors)(&r.Decision.Candidates) }},
		{"states", "bytes", "all else that the choice was made from, in this program's own form", func(r *Row) any { return &r.Decision.States }},
		{"prompt_digest", "bytes", "what tells how much of the prompt others have in common with it, and nothing of its text", func(r *Row) any { return &r.Decision.PromptDigest }},
		{"experiment", "text", "the design of the experiment that it is part of; empty: none", func(r *Row) any { return &r.Decision.Experiment }},
		{"arm", "text", "of that design; empty where nothing was left to a canary's coin", func(r *Row) any { return &r.Decision.Arm }},
	}...)
}

func forecastColumns(prefix, says string, of func(*Row) *feature.Forecast) []Column {
	return []Column{
		{prefix + "_ttft_p50", "seconds", "median TTFT, " + says, func(r *Row) any { return &of(r).TTFT.P50 }},
		{prefix + "_ttft_p90", "seconds", "90 % quantile, " + says, func(r *Row) any { return &of(r).TTFT.P90 }},
		{prefix + "_tpot_p50", "seconds", "median TPOT, " + says, func(r *Row) any { return &of(r).TPOT.P50 }},
		{prefix + "_tpot_p90", "seconds", "90 % quantile, " + says, func(r *Row) any { return &of(r).TPOT.P90 }},
		{prefix + "_residual_ttft_p50", "ln of a ratio", "forecast over prior, of that", func(r *Row) any { return &of(r).Residual.TTFT.P50 }},
		{prefix + "_residual_ttft_p90", "ln of a ratio", "forecast over prior, of that", func(r *Row) any { return &of(r).Residual.TTFT.P90 }},
		{prefix + "_residual_tpot_p50", "ln of a ratio", "forecast over prior, of that", func(r *Row) any { return &of(r).Residual.TPOT.P50 }},
		{prefix + "_residual_tpot_p90", "ln of a ratio", "forecast over prior, of that", func(r *Row) any { return &of(r).Residual.TPOT.P90 }},
		{prefix + "_support", "fraction", "1 inside what the bundle was trained on, 0 far outside", func(r *Row) any { return &of(r).Support }},
	}
}
