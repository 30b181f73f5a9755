package featurestore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A batch is copied into a staging table that lives as long as the
// transaction, then inserted from there: COPY is the fastest way in, and the
// insert is what makes a repeated batch harmless. The staging tables compress
// as the real ones do, because a compressed value is moved as it is.
const (
	stageDecisions = `CREATE TEMP TABLE staged_decisions
		(LIKE decisions INCLUDING STORAGE INCLUDING COMPRESSION) ON COMMIT DROP`
	stageOutcomes = `CREATE TEMP TABLE staged_outcomes (LIKE outcomes) ON COMMIT DROP`

	insertDecisions = `INSERT INTO decisions (
			decided_at, id, llm, router, mode, policy, policy_version, bundle, schema, state, reason,
			prompt_tokens, expected_output_tokens, slo_ttft, slo_tpot, priority,
			chosen, chosen_class, chosen_vector, chosen_forecast, chosen_corrected, propensity, explored,
			complete, ids, classes, vectors, forecasts, corrected, costs, probabilities, states,
			rest, rest_cost_min, rest_cost_max, epoch, seed)
		SELECT
			decided_at, id, llm, router, mode, policy, policy_version, bundle, schema, state, reason,
			prompt_tokens, expected_output_tokens, slo_ttft, slo_tpot, priority,
			chosen, chosen_class, chosen_vector, chosen_forecast, chosen_corrected, propensity, explored,
			complete, ids, classes, vectors, forecasts, corrected, costs, probabilities, states,
			rest, rest_cost_min, rest_cost_max, epoch, seed
		FROM pg_temp.staged_decisions
		ON CONFLICT (decided_at, id) DO NOTHING`

	// A real outcome replaces 'lost', which only a sweeper writes and which
	// can be written while the real one waits in a spool. Otherwise the first
	// one stays.
	insertOutcomes = `INSERT INTO outcomes (
			decided_at, decision, attempt, status, http_status, ttft, tpot, e2e,
			output_tokens, cached_tokens, endpoint, censored_at, finished_at)
		SELECT DISTINCT ON (decided_at, decision, attempt)
			decided_at, decision, attempt, status, http_status, ttft, tpot, e2e,
			output_tokens, cached_tokens, endpoint, censored_at, finished_at
		FROM pg_temp.staged_outcomes
		ORDER BY decided_at, decision, attempt, status = 'lost'
		ON CONFLICT (decided_at, decision, attempt) DO UPDATE SET
			status = excluded.status, http_status = excluded.http_status, ttft = excluded.ttft,
			tpot = excluded.tpot, e2e = excluded.e2e, output_tokens = excluded.output_tokens,
			cached_tokens = excluded.cached_tokens, endpoint = excluded.endpoint,
			censored_at = excluded.censored_at, finished_at = excluded.finished_at
		WHERE outcomes.status = 'lost' AND excluded.status <> 'lost'`
)

// WriteDecisions stores decisions in one transaction. Those already stored are
// left as they are, so a batch may be written again.
func (s *Store) WriteDecisions(ctx context.Context, decisions []feature.Decision) error {
	return s.write(ctx, decisions, nil)
}

// WriteOutcomes stores outcomes in one transaction. Those already stored are
// left as they are, except that a real outcome replaces a lost one of the same
// attempt.
func (s *Store) WriteOutcomes(ctx context.Context, outcomes []feature.Outcome) error {
	return s.write(ctx, nil, outcomes)
}

// write stores both kinds in one transaction.
func (s *Store) write(ctx context.Context, decisions []feature.Decision, outcomes []feature.Outcome) error {
	if len(decisions) == 0 && len(outcomes) == 0 {
		return nil
	}
	for {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return insert(ctx, tx, decisions, outcomes) })
		switch {
		case err == nil:
			return nil
		case !partitionAppeared(err):
			return failed("write decisions and outcomes", err)
		}
		// Once a new partition and row, so this ends.
	}
}

func insert(ctx context.Context, tx pgx.Tx, decisions []feature.Decision, outcomes []feature.Outcome) error {
	if len(decisions) > 0 {
		rows := pgx.CopyFromSlice(len(decisions), func(i int) ([]any, error) {
			return decisionValues(&decisions[i]), nil
		})
		if err := load(ctx, tx, stageDecisions, "staged_decisions", decisionColumns, rows, insertDecisions); err != nil {
			return err
		}
	}
	if len(outcomes) > 0 {
		rows := pgx.CopyFromSlice(len(outcomes), func(i int) ([]any, error) {
			return outcomeValues(&outcomes[i]), nil
		})
		if err := load(ctx, tx, stageOutcomes, "staged_outcomes", outcomeColumns, rows, insertOutcomes); err != nil {
			return err
		}
	}
	return nil
}

// partitionAppeared reports whether a row was on its way to the default
// partition when Maintain made the one it belongs to: the default one then
// refuses it, and trying again finds the right one. The tables have no check
// of their own that would give the same code.
func partitionAppeared(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23514"
}

func load(ctx context.Context, tx pgx.Tx, stage, table string, columns []string, rows pgx.CopyFromSource, insert string) error {
	if _, err := tx.Exec(ctx, stage); err != nil {
		return err
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", table}, columns, rows); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, insert)
	return err
}
