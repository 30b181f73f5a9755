package featurestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/spillway-llm/spillway/internal/feature"
)

// The columns of a row a trainer reads: small ones only, never a candidate
// array. The inner query takes the newest rows when there is a limit, the
// outer one puts them in order of time.
const selectWindow = `
	SELECT decided_at, id, llm, chosen, chosen_class, schema, chosen_vector, explored,
		chosen_forecast, chosen_corrected, bundle,
		attempt, status, http_status, ttft, tpot, e2e, output_tokens, cached_tokens, endpoint, censored_at, finished_at
	FROM (
		SELECT d.decided_at, d.id, d.llm, d.chosen, d.chosen_class, d.schema, d.chosen_vector, d.explored,
			d.chosen_forecast, d.chosen_corrected, d.bundle,
			o.attempt, o.status, o.http_status, o.ttft, o.tpot, o.e2e, o.output_tokens, o.cached_tokens,
			o.endpoint, o.censored_at, o.finished_at
		FROM decisions d
		JOIN (
			SELECT DISTINCT ON (decided_at, decision)
				decided_at, decision, attempt, status, http_status, ttft, tpot, e2e,
				output_tokens, cached_tokens, endpoint, censored_at, finished_at
			FROM outcomes
			WHERE decided_at >= $2 AND decided_at < $3
			ORDER BY decided_at DESC, decision DESC, attempt DESC
		) o ON o.decided_at = d.decided_at AND o.decision = d.id
		WHERE d.llm = $1 AND d.decided_at >= $2 AND d.decided_at < $3
			AND cardinality(d.chosen_vector) = $4
		ORDER BY d.decided_at DESC, d.id DESC
		LIMIT $5
	) newest
	ORDER BY decided_at, id`

// Window streams the decisions of llm made in [from, to) that have an outcome,
// each with its last attempt, in order of time and id. A limit above 0 keeps
// the newest ones. Left out are decisions that chose nothing and those whose
// vector has another width than this build's; the caller compares Schema for
// the rest. Ending the iteration early ends the query.
func (s *Store) Window(ctx context.Context, llm string, from, to time.Time, limit int) iter.Seq2[feature.Row, error] {
	newest := pgtype.Int8{Int64: int64(limit), Valid: limit > 0}
	return stream(ctx, s, "read the window of "+llm, scanRow, selectWindow, llm, from, to, feature.Width, newest)
}

func scanRow(row pgx.CollectableRow) (feature.Row, error) {
	var (
		r                   feature.Row
		o                   outcomeScan
		id                  pgtype.UUID
		schema              []byte
		vector              []float32
		chosen, class       pgtype.Text
		forecast, corrected []float64
	)
	targets := append([]any{&r.DecidedAt, &id, &r.LLM, &chosen, &class, &schema, &vector, &r.Explored,
		&forecast, &corrected, &r.BundleUsed}, o.targets()[2:]...)
	if err := row.Scan(targets...); err != nil {
		return r, err
	}
	o.decidedAt, o.decision = r.DecidedAt, id
	r.Decision, r.DecidedAt = id.Bytes, r.DecidedAt.UTC()
	r.Endpoint, r.Class = chosen.String, class.String
	copy(r.Schema[:], schema)
	r.Forecast, r.Corrected = forecastOf(forecast), forecastOf(corrected)
	r.Outcome = o.outcome()
	var err error
	r.Vector, err = vectorOf(vector)
	return r, err
}

// stream runs a query whenever the sequence is ranged over. An error ends it.
func stream[T any](ctx context.Context, s *Store, doing string, scan pgx.RowToFunc[T], sql string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // before rows.Close, which would otherwise read the rest
		rows, err := s.pool.Query(ctx, sql, args...)
		if err != nil {
			yield(none, failed(doing, err))
			return
		}
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				yield(none, failed(doing, err))
				cancel()
				rows.Close()
				return
			}
			if !yield(v, nil) {
				cancel()
				rows.Close()
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, failed(doing, err))
		}
	}
}

// Skips from one LLM to the next along the index decisions_llm.
const selectLLMs = `
	WITH RECURSIVE known AS (
		(SELECT llm FROM decisions ORDER BY llm LIMIT 1)
		UNION ALL
		SELECT (SELECT d.llm FROM decisions d WHERE d.llm > known.llm ORDER BY d.llm LIMIT 1)
		FROM known WHERE known.llm IS NOT NULL
	)
	SELECT llm FROM known WHERE llm IS NOT NULL`

// LLMs lists the LLMs that decisions were stored for, ordered by name.
func (s *Store) LLMs(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, selectLLMs)
	if err != nil {
		return nil, failed("list the LLMs", err)
	}
	llms, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, failed("list the LLMs", err)
	}
	return llms, nil
}

const decisionList = `
	SELECT decided_at, id, llm, router, mode, policy, policy_version, bundle, schema, state, reason,
		prompt_tokens, expected_output_tokens, slo_ttft, slo_tpot, priority,
		chosen, chosen_class, chosen_vector, chosen_forecast, chosen_corrected, propensity, explored,
		complete, ids, classes, vectors, forecasts, corrected, costs, probabilities, states,
		rest, rest_cost_min, rest_cost_max, epoch, seed, prompt_digest, experiment, arm
	FROM decisions`

const selectDecisions = decisionList + `
	WHERE decided_at >= $1 AND decided_at < $2 AND (complete OR NOT $3)
	ORDER BY decided_at, id`

// Decisions streams the decisions made in [from, to) in order of time and id;
// with completeOnly, those that hold every candidate.
func (s *Store) Decisions(ctx context.Context, from, to time.Time, completeOnly bool) iter.Seq2[feature.Decision, error] {
	return stream(ctx, s, "read decisions", scanDecision, selectDecisions, from, to, completeOnly)
}

const (
	selectDecisionNear = decisionList + ` WHERE id = $1 AND decided_at >= $2 AND decided_at < $3`
	selectDecision     = decisionList + ` WHERE id = $1 LIMIT 1`
	selectOutcomes     = `
		SELECT decided_at, decision, attempt, status, http_status, ttft, tpot, e2e,
			output_tokens, cached_tokens, endpoint, censored_at, finished_at
		FROM outcomes WHERE decided_at = $1 AND decision = $2 ORDER BY attempt`
)

// idSlack is how far the time inside an id may be from decided_at for the id
// to be found at once. Beyond it the whole table is searched.
const idSlack = time.Minute

// Decision finds one decision and its outcomes, in order of attempt.
// It returns ErrNotFound when there is none.
func (s *Store) Decision(ctx context.Context, id feature.ID) (feature.Decision, []feature.Outcome, error) {
	doing := "find decision " + id.String()
	key := pgtype.UUID{Bytes: id, Valid: true}
	made := timeOfID(id)
	found, err := s.decisions(ctx, selectDecisionNear, key, made.Add(-idSlack), made.Add(idSlack))
	if err == nil && len(found) == 0 {
		found, err = s.decisions(ctx, selectDecision, key)
	}
	if err != nil {
		return feature.Decision{}, nil, failed(doing, err)
	}
	if len(found) == 0 {
		return feature.Decision{}, nil, fmt.Errorf("decision %s: %w", id, ErrNotFound)
	}
	rows, err := s.pool.Query(ctx, selectOutcomes, found[0].DecidedAt, key)
	if err != nil {
		return feature.Decision{}, nil, failed(doing, err)
	}
	outcomes, err := pgx.CollectRows(rows, scanOutcome)
	if err != nil {
		return feature.Decision{}, nil, failed(doing, err)
	}
	return found[0], outcomes, nil
}

func (s *Store) decisions(ctx context.Context, sql string, args ...any) ([]feature.Decision, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanDecision)
}

// timeOfID reads the Unix milliseconds that a UUIDv7 starts with (RFC 9562,
// section 5.7).
func timeOfID(id feature.ID) time.Time {
	var b [8]byte
	copy(b[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:])))
}

// Counts are numbers of rows.
type Counts struct {
	Decisions int64 `json:"decisions"`
	Outcomes  int64 `json:"outcomes"` // every attempt counts
	Joined    int64 `json:"joined"`   // decisions that have an outcome
}

// CountSQL is the query behind Count. $1 and $2 bound decided_at.
const CountSQL = `
	SELECT
		(SELECT count(*) FROM decisions WHERE decided_at >= $1 AND decided_at < $2),
		(SELECT count(*) FROM outcomes WHERE decided_at >= $1 AND decided_at < $2),
		(SELECT count(*) FROM decisions d WHERE d.decided_at >= $1 AND d.decided_at < $2 AND EXISTS (
			SELECT FROM outcomes o WHERE o.decided_at = d.decided_at AND o.decision = d.id))`

// Count counts the rows of decisions made in [from, to).
func (s *Store) Count(ctx context.Context, from, to time.Time) (Counts, error) {
	var c Counts
	if err := s.pool.QueryRow(ctx, CountSQL, from, to).Scan(&c.Decisions, &c.Outcomes, &c.Joined); err != nil {
		return c, failed("count rows", err)
	}
	return c, nil
}
