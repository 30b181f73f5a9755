package featurestore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// Calibration is the profile of one class of endpoints that serve an LLM, as
// it was measured or fitted.
type Calibration struct {
	ID        int64 // given by the store; grows
	LLM       string
	Class     string          // of endpoints; "" is those without one
	Source    string          // how it was found
	Profile   json.RawMessage // an object with the key "coefficients", an object too
	CreatedAt time.Time       // by the database's clock
}

// The coefficients are a column of their own for those who read with SQL.
const insertCalibration = `
	INSERT INTO calibrations (llm, class, source, coefficients, profile)
	VALUES ($1, $2, $3, $4::jsonb -> 'coefficients', $4)
	RETURNING id`

// AddCalibration stores c, whose ID and CreatedAt are ignored, and returns its
// ID. Earlier ones of the same LLM and class are kept.
func (s *Store) AddCalibration(ctx context.Context, c Calibration) (id int64, err error) {
	err = s.pool.QueryRow(ctx, insertCalibration, c.LLM, c.Class, c.Source, c.Profile).Scan(&id)
	if err != nil {
		return 0, failed("store a calibration of "+c.LLM, err)
	}
	return id, nil
}

const selectCalibrations = `
	SELECT DISTINCT ON (llm, class) id, llm, class, source, profile, created_at
	FROM calibrations WHERE profile <> '{}'
	ORDER BY llm, class, id DESC`

// Calibrations lists the newest calibration of each LLM and class, in that
// order.
func (s *Store) Calibrations(ctx context.Context) ([]Calibration, error) {
	rows, err := s.pool.Query(ctx, selectCalibrations)
	if err != nil {
		return nil, failed("list calibrations", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Calibration, error) {
		var c Calibration
		err := row.Scan(&c.ID, &c.LLM, &c.Class, &c.Source, &c.Profile, &c.CreatedAt)
		c.CreatedAt = c.CreatedAt.UTC()
		return c, err
	})
	if err != nil {
		return nil, failed("list calibrations", err)
	}
	return all, nil
}
