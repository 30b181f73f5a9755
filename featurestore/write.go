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
			rest, rest_cost_min, rest_cost_max, epoch, seed, prompt_digest, experiment, arm)
		SELECT
			decided_at, id, llm, router, mode, policy, policy_version, bundle, schema, state, reason,
			prompt_tokens, expected_output_tokens, slo_ttft, slo_tpot, priority,
			chosen, chosen_class, chosen_vector, chosen_forecast, chosen_corrected, propensity, explored,
			complete, ids, classes, vectors, forecasts, corrected, costs, probabilities, states,
			rest, rest_cost_min, rest_cost_max, epoch, seed, prompt_digest, experiment, arm
		FROM pg_temp.staged_decisions
		ON CONFLICT (decided_at, id) DO NOTHING`

	// A real outcome takes the place of 'lost' ones of its decision, whatever
	// the attempt: a sweeper writes those, also while the real one waits in a
	// spool. $1 and $2 bound the batch, so that few partitions are looked at.
	deleteLost = `DELETE FROM outcomes o
		USING pg_temp.staged_outcomes s
		WHERE o.decided_at BETWEEN $1 AND $2 AND o.status = 'lost'
			AND s.decided_at = o.decided_at AND s.decision = o.decision AND s.status <> 'lost'`

	// A lost outcome says nothing beside any other. Otherwise the first one of
	// an attempt stays, unless it is a lost one that a sweeper wrote since the
	// delete.
	insertOutcomes = `INSERT INTO outcomes (
			decided_at, decision, attempt, status, http_status, ttft, tpot, e2e,
			output_tokens, cached_tokens, endpoint, censored_at, finished_at)
		SELECT DISTINCT ON (decided_at, decision, attempt)
			decided_at, decision, attempt, status, http_status, ttft, tpot, e2e,
			output_tokens, cached_tokens, endpoint, censored_at, finished_at
		FROM pg_temp.staged_outcomes s
		WHERE status <> 'lost' OR NOT (
			EXISTS (SELECT FROM outcomes o
				WHERE o.decided_at BETWEEN $1 AND $2 AND o.decided_at = s.decided_at AND o.decision = s.decision)
			OR EXISTS (SELECT FROM pg_temp.staged_outcomes t
				WHERE t.decided_at = s.decided_at AND t.decision = s.decision
					AND (t.status <> 'lost' OR t.attempt < s.attempt)))
		ORDER BY decided_at, decision, attempt
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
// decision.
func (s *Store) WriteOutcomes(ctx context.Context, outcomes []feature.Outcome) error {
	return s.write(ctx, nil, outcomes)
}

// write stores both kinds in one transaction.
func (s *Store) write(ctx context.Context, decisions []feature.Decision, outcomes []feature.Outcome) error {
	if len(decisions) == 0 && len(outcomes) == 0 {
		return nil
	}
	return s.writing(ctx, func(tx pgx.Tx) error { return insert(ctx, tx, decisions, outcomes) })
}

// writing runs do in one transaction, again where it found that a partition
// appeared.
func (s *Store) writing(ctx context.Context, do func(pgx.Tx) error) error {
	for {
		err := pgx.BeginFunc(ctx, s.pool, do)
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
	_, err := addDecisions(ctx, tx, len(decisions), func(i int) []any { return decisionValues(&decisions[i]) })
	if err != nil {
		return err
	}
	return addOutcomes(ctx, tx, outcomes)
}

// addDecisions adds n rows of decisionColumns, and says how many were new.
func addDecisions(ctx context.Context, tx pgx.Tx, n int, values func(int) []any) (added int64, err error) {
	if n == 0 {
		return 0, nil
	}
	rows := pgx.CopyFromSlice(n, func(i int) ([]any, error) { return values(i), nil })
	if err := load(ctx, tx, stageDecisions, "staged_decisions", decisionColumns, rows); err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, insertDecisions)
	return tag.RowsAffected(), err
}

func addOutcomes(ctx context.Context, tx pgx.Tx, outcomes []feature.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	rows := pgx.CopyFromSlice(len(outcomes), func(i int) ([]any, error) { return outcomeValues(&outcomes[i]), nil })
	if err := load(ctx, tx, stageOutcomes, "staged_outcomes", outcomeColumns, rows); err != nil {
		return err
	}
	first, last := outcomes[0].DecidedAt, outcomes[0].DecidedAt
	for i := range outcomes {
		if at := outcomes[i].DecidedAt; at.Before(first) {
			first = at
		} else if at.After(last) {
			last = at
		}
	}
	for _, sql := range []string{deleteLost, insertOutcomes} {
		if _, err := tx.Exec(ctx, sql, stored(first), stored(last)); err != nil {
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

// load copies rows into a staging table.
func load(ctx context.Context, tx pgx.Tx, stage, table string, columns []string, rows pgx.CopyFromSource) error {
	if _, err := tx.Exec(ctx, stage); err != nil {
		return err
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", table}, columns, rows)
	return err
}
