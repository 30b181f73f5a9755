package featurestore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Phase is a stretch of neighbouring decisions made in one forecast state.
// Latencies are over its requests that were served, NaN where none was.
type Phase struct {
	State    string
	Reason   string // of its first decision
	From     time.Time
	To       time.Time // of its last decision
	Requests int64
	TTFTP50  feature.Seconds
	TTFTP90  feature.Seconds
	TPOTP50  feature.Seconds
	E2EMean  feature.Seconds
}

// PhasesSQL is the query behind Phases. $1 and $2 bound decided_at.
const PhasesSQL = `
WITH marked AS (
    SELECT d.decided_at, d.id, d.state, d.reason, o.status, o.ttft, o.tpot, o.e2e,
           (d.state IS DISTINCT FROM lag(d.state) OVER (ORDER BY d.decided_at, d.id))::int AS begins
    FROM decisions d
    LEFT JOIN LATERAL (
        SELECT status, ttft, tpot, e2e FROM outcomes
        WHERE decided_at = d.decided_at AND decision = d.id
        ORDER BY attempt DESC LIMIT 1
    ) o ON true
    WHERE d.decided_at >= $1 AND d.decided_at < $2
), numbered AS (
    SELECT *, sum(begins) OVER (ORDER BY decided_at, id) AS phase FROM marked
)
SELECT state, (array_agg(reason ORDER BY decided_at, id))[1] AS reason,
       min(decided_at) AS begins, max(decided_at) AS ends, count(*) AS requests,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY ttft) FILTER (WHERE status = 'ok') AS ttft_p50,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY ttft) FILTER (WHERE status = 'ok') AS ttft_p90,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY tpot) FILTER (WHERE status = 'ok') AS tpot_p50,
       avg(e2e) FILTER (WHERE status = 'ok') AS e2e_mean
FROM numbered
GROUP BY phase, state
ORDER BY phase`

// Phases lists the phases of the decisions made in [from, to), in order.
func (s *Store) Phases(ctx context.Context, from, to time.Time) ([]Phase, error) {
	rows, err := s.pool.Query(ctx, PhasesSQL, from, to)
	if err != nil {
		return nil, failed("read the phases", err)
	}
	phases, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Phase, error) {
		var p Phase
		var ttft50, ttft90, tpot50, e2e *float64
		err := row.Scan(&p.State, &p.Reason, &p.From, &p.To, &p.Requests, &ttft50, &ttft90, &tpot50, &e2e)
		p.TTFTP50, p.TTFTP90, p.TPOTP50, p.E2EMean = secondsOr(ttft50), secondsOr(ttft90), secondsOr(tpot50), secondsOr(e2e)
		return p, err
	})
	if err != nil {
		return nil, failed("read the phases", err)
	}
	return phases, nil
}

func secondsOr(v *float64) feature.Seconds {
	if v == nil {
		return feature.Seconds(feature.Unknown)
	}
	return feature.Seconds(*v)
}

// Accuracy is how good the forecasts were that decided. Errors are fractions,
// NaN where there was nothing to compare.
type Accuracy struct {
	TTFTRows      int64
	TTFTMedianAPE float64
	TTFTMAPE      float64
	TTFTCoverage  float64 // share of actuals at or below p90
	TPOTRows      int64
	TPOTMedianAPE float64
	TPOTMAPE      float64
	TPOTCoverage  float64
}

// AccuracySQL is the query behind Accuracy: the forecasts as they decided,
// corrected, beside what was measured. $1 and $2 bound decided_at.
const AccuracySQL = `
WITH pairs AS (
    SELECT o.ttft, o.tpot, d.chosen_corrected[1] AS ttft_p50, d.chosen_corrected[2] AS ttft_p90,
           d.chosen_corrected[3] AS tpot_p50, d.chosen_corrected[4] AS tpot_p90
    FROM decisions d
    JOIN outcomes o ON o.decided_at = d.decided_at AND o.decision = d.id
    WHERE d.decided_at >= $1 AND d.decided_at < $2
      AND d.policy = 'predicted' AND o.status = 'ok' AND o.attempt = 1 AND o.endpoint = d.chosen
)
SELECT count(ttft),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(ttft_p50 - ttft) / ttft),
       avg(abs(ttft_p50 - ttft) / ttft),
       avg((ttft <= ttft_p90)::int),
       count(tpot),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(tpot_p50 - tpot) / tpot),
       avg(abs(tpot_p50 - tpot) / tpot),
       avg((tpot <= tpot_p90)::int)
FROM pairs`

// Accuracy compares forecast and actual of the decisions made in [from, to)
// that forecasts decided.
func (s *Store) Accuracy(ctx context.Context, from, to time.Time) (Accuracy, error) {
	var a Accuracy
	var v [6]*float64
	err := s.pool.QueryRow(ctx, AccuracySQL, from, to).Scan(&a.TTFTRows, &v[0], &v[1], &v[2], &a.TPOTRows, &v[3], &v[4], &v[5])
	if err != nil {
		return a, failed("compare forecasts and outcomes", err)
	}
	for i, to := range []*float64{&a.TTFTMedianAPE, &a.TTFTMAPE, &a.TTFTCoverage, &a.TPOTMedianAPE, &a.TPOTMAPE, &a.TPOTCoverage} {
		*to = float64(secondsOr(v[i]))
	}
	return a, nil
}

// ForecastsAfterSQL is the query behind ForecastsAfter.
const ForecastsAfterSQL = `
SELECT count(*) FROM decisions WHERE decided_at > $1 AND decided_at < $2 AND policy = 'predicted'`

// ForecastsAfter counts the decisions made after from and before to that
// forecasts decided.
func (s *Store) ForecastsAfter(ctx context.Context, from, to time.Time) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, ForecastsAfterSQL, from, to).Scan(&n); err != nil {
		return 0, failed("count decisions made by forecasts", err)
	}
	return n, nil
}
