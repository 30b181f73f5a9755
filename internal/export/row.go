package export

import (
	"github.com/spillway-llm/spillway/internal/feature"
)

// Row is one decision with its last attempt; Forecast and Corrected are those
// of the chosen one. The decision may come with its candidates and states, or
// without them. Of candidates that were read from a file nothing is known of the
// forecasts but the medians in Corrected.
type Row struct {
	Decision  feature.Decision
	Forecast  feature.Forecast
	Corrected feature.Forecast
	Outcome   feature.Outcome // Attempt is 0 when there is none
}

// Learned is the row as a trainer reads it; false where the decision chose
// nothing or has no outcome.
func (r *Row) Learned() (feature.Row, bool) {
	d := &r.Decision
	return feature.Row{
		Decision: d.ID, DecidedAt: d.DecidedAt, LLM: d.LLM, Endpoint: d.Chosen, Class: d.ChosenClass,
		Schema: d.Schema, Vector: d.ChosenVector, Explored: d.Explored,
		Forecast: r.Forecast, Corrected: r.Corrected, BundleUsed: d.Bundle, Outcome: r.Outcome, PromptDigest: d.PromptDigest,
	}, d.Chosen != "" && r.Outcome.Attempt > 0
}

// join fills in what the outcome of a row that was read shares with its
// decision.
func (r *Row) join() {
	r.Outcome.Decision, r.Outcome.DecidedAt = r.Decision.ID, r.Decision.DecidedAt
}
