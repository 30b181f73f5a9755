package featurestore

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Joined is one decision with its last attempt. The decision comes without its
// candidates and states, but from Whole; Forecast and Corrected are those of the
// chosen one.
type Joined struct {
	Decision  feature.Decision
	Forecast  feature.Forecast
	Corrected feature.Forecast
	Outcome   feature.Outcome // Attempt is 0 when there is none yet, and all of it unknown
}

// withOutcome is the last attempt's outcome of each decision that a reader of both
// asks for. $1 is the LLM, NULL for all of them; from $2 to $3; $4 is the width of a
// vector. Every decision looks its attempts up in the index of their key, so that
// nothing is gathered before the first row.
const withOutcome = `
		coalesce(o.attempt, 0), coalesce(o.status, ''), o.http_status, o.ttft, o.tpot, o.e2e,
		o.output_tokens, o.cached_tokens, o.endpoint, o.censored_at, o.finished_at
	FROM decisions d
	LEFT JOIN LATERAL (
		SELECT attempt, status, http_status, ttft, tpot, e2e, output_tokens, cached_tokens, endpoint, censored_at, finished_at
		FROM outcomes
		WHERE decided_at = d.decided_at AND decision = d.id
		ORDER BY attempt DESC
		LIMIT 1
	) o ON true
	WHERE ($1::text IS NULL OR d.llm = $1) AND d.decided_at >= $2 AND d.decided_at < $3
		AND (d.chosen_vector IS NULL OR cardinality(d.chosen_vector) = $4)`

const selectJoined = `
	SELECT d.decided_at, d.id, d.llm, d.router, d.mode, d.policy, d.policy_version, d.bundle, d.schema, d.state, d.reason,
		d.prompt_tokens, d.expected_output_tokens, d.slo_ttft, d.slo_tpot, d.priority,
		d.chosen, d.chosen_class, d.chosen_vector, d.chosen_forecast, d.chosen_corrected, d.propensity, d.explored, d.complete,
		d.rest, d.rest_cost_min, d.rest_cost_max, d.epoch, d.seed, d.prompt_digest, d.experiment, d.arm,
` + withOutcome + `
	ORDER BY d.decided_at, d.id`

// Joined streams the decisions of llm, of every LLM when it is empty, that
// were made in [from, to), in order of time and id, also those that chose
// nothing and those without an outcome. Left out are those whose vector has
// another width than this build's. Ending the iteration early ends the query.
func (s *Store) Joined(ctx context.Context, llm string, from, to time.Time) iter.Seq2[Joined, error] {
	return stream(ctx, s, "read decisions and their outcomes", scanJoined, selectJoined, named(llm), from, to, feature.Width)
}

func scanJoined(row pgx.CollectableRow) (Joined, error) {
	var (
		j                              Joined
		o                              outcomeScan
		id                             pgtype.UUID
		schema                         []byte
		prompt, output, sloTTFT, sloTP pgtype.Float8
		chosen, class                  pgtype.Text
		vector                         []float32
		forecast, corrected            []float64
		propensity, restMin, restMax   pgtype.Float8
		epoch, seed                    int64
		policyVersion, priority, rest  int32
	)
	d := &j.Decision
	targets := append([]any{
		&d.DecidedAt, &id, &d.LLM, &d.Router, &d.Mode, &d.Policy, &policyVersion, &d.Bundle, &schema, &d.State, &d.Reason,
		&prompt, &output, &sloTTFT, &sloTP, &priority,
		&chosen, &class, &vector, &forecast, &corrected, &propensity, &d.Explored, &d.Complete,
		&rest, &restMin, &restMax, &epoch, &seed, &d.PromptDigest, &d.Experiment, &d.Arm}, o.targets()[2:]...)
	if err := row.Scan(targets...); err != nil {
		return j, err
	}
	d.DecidedAt, d.ID = d.DecidedAt.UTC(), id.Bytes
	copy(d.Schema[:], schema)
	d.PromptTokens, d.ExpectedOutputTokens = unknown(prompt), unknown(output)
	d.SLOTTFT, d.SLOTPOT = feature.Seconds(unknown(sloTTFT)), feature.Seconds(unknown(sloTP))
	d.PolicyVersion, d.Priority, d.Rest = int(policyVersion), int(priority), int(rest)
	d.Chosen, d.ChosenClass = chosen.String, class.String
	d.Propensity, d.RestCostMin, d.RestCostMax = unknown(propensity), unknown(restMin), unknown(restMax)
	d.Epoch, d.Seed = uint64(epoch), uint64(seed)
	j.Forecast, j.Corrected = forecastOf(forecast), forecastOf(corrected)
	o.decidedAt, o.decision = d.DecidedAt, id
	j.Outcome = o.outcome()
	var err error
	d.ChosenVector, err = vectorOf(vector)
	return j, err
}
