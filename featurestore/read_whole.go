package featurestore

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/internal/feature"
)

// As selectJoined, with decisionList's columns.
const selectWhole = `
	SELECT d.decided_at, d.id, d.llm, d.router, d.mode, d.policy, d.policy_version, d.bundle, d.schema, d.state, d.reason,
		d.prompt_tokens, d.expected_output_tokens, d.slo_ttft, d.slo_tpot, d.priority,
		d.chosen, d.chosen_class, d.chosen_vector, d.chosen_forecast, d.chosen_corrected, d.propensity, d.explored,
		d.complete, d.ids, d.classes, d.vectors, d.forecasts, d.corrected, d.costs, d.probabilities, d.states,
		d.rest, d.rest_cost_min, d.rest_cost_max, d.epoch, d.seed, d.prompt_digest, d.experiment, d.arm,
` + withOutcome + `
		AND cardinality(d.vectors) = $4 * cardinality(d.ids)
	ORDER BY d.decided_at, d.id`

// Whole is Joined with the candidates and states that the store holds of each
// decision: many times as many bytes.
func (s *Store) Whole(ctx context.Context, llm string, from, to time.Time) iter.Seq2[Joined, error] {
	return stream(ctx, s, "read decisions, their candidates and outcomes", scanWhole, selectWhole, named(llm), from, to, feature.Width)
}

// scanWhole reads a decision and, behind it, its outcome.
func scanWhole(row pgx.CollectableRow) (j Joined, err error) {
	var o outcomeScan
	both := behind{row, o.targets()[2:]}
	if j.Decision, err = scanDecision(both); err != nil {
		return j, err
	}
	d := &j.Decision
	j.Forecast, j.Corrected = feature.NoForecast, feature.NoForecast
	for i := range d.Candidates {
		if c := &d.Candidates[i]; d.Chosen != "" && c.Endpoint == d.Chosen {
			j.Forecast, j.Corrected = c.Forecast, c.Corrected
		}
	}
	j.Outcome = o.outcome()
	j.Outcome.Decision, j.Outcome.DecidedAt = d.ID, d.DecidedAt
	return j, nil
}

// behind is a row that is scanned to more than its reader names.
type behind struct {
	pgx.CollectableRow
	targets []any
}

// Scan reads the reader's columns, then those behind them.
func (b behind) Scan(targets ...any) error {
	return b.CollectableRow.Scan(append(targets, b.targets...)...)
}
