package featurestore

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/spillway-llm/spillway/internal/feature"
)

// decisionColumns is the order of decisionValues and of scanDecision.
var decisionColumns = strings.Fields(`
	decided_at id llm router mode policy policy_version bundle schema state reason
	prompt_tokens expected_output_tokens slo_ttft slo_tpot priority
	chosen chosen_class chosen_vector chosen_forecast chosen_corrected propensity explored
	complete ids classes vectors forecasts corrected costs probabilities states
	rest rest_cost_min rest_cost_max epoch seed prompt_digest experiment arm`)

// outcomeColumns is the order of outcomeValues and of outcomeScan.
var outcomeColumns = strings.Fields(`
	decided_at decision attempt status http_status ttft tpot e2e
	output_tokens cached_tokens endpoint censored_at finished_at`)

// forecastWidth is how many numbers a stored forecast has.
const forecastWidth = 9

func appendForecast(dst []float64, f *feature.Forecast) []float64 {
	return append(dst,
		float64(f.TTFT.P50), float64(f.TTFT.P90), float64(f.TPOT.P50), float64(f.TPOT.P90),
		f.Residual.TTFT.P50, f.Residual.TTFT.P90, f.Residual.TPOT.P50, f.Residual.TPOT.P90,
		f.Support)
}

// forecastOf reads what appendForecast wrote; a missing forecast is
// NoForecast.
func forecastOf(v []float64) feature.Forecast {
	if len(v) != forecastWidth {
		return feature.NoForecast
	}
	return feature.Forecast{
		TTFT: feature.Quantiles{P50: feature.Seconds(v[0]), P90: feature.Seconds(v[1])},
		TPOT: feature.Quantiles{P50: feature.Seconds(v[2]), P90: feature.Seconds(v[3])},
		Residual: feature.Residual{
			TTFT: feature.LogQuantiles{P50: v[4], P90: v[5]},
			TPOT: feature.LogQuantiles{P50: v[6], P90: v[7]},
		},
		Support: v[8],
	}
}

// unknownVector is read where no vector is stored.
var unknownVector = func() (v feature.Vector) {
	for i := range v {
		v[i] = float32(feature.Unknown)
	}
	return v
}()

func decisionValues(d *feature.Decision) []any {
	n := len(d.Candidates)
	var (
		ids, classes  = make([]string, n), make([]string, n)
		vectors       = make([]float32, 0, n*feature.Width)
		forecasts     = make([]float64, 0, n*forecastWidth)
		corrected     = make([]float64, 0, n*forecastWidth)
		costs         = make([]float64, n)
		probabilities = make([]float64, n)
	)
	var chosenVector []float32
	var chosenForecast, chosenCorrected []float64
	if d.Chosen != "" {
		chosenVector = d.ChosenVector[:]
	}
	chosen := -1
	for i := range d.Candidates {
		c := &d.Candidates[i]
		ids[i], classes[i] = storable(c.Endpoint), storable(c.Class)
		vectors = append(vectors, c.Vector[:]...)
		forecasts = appendForecast(forecasts, &c.Forecast)
		corrected = appendForecast(corrected, &c.Corrected)
		costs[i], probabilities[i] = c.Cost, c.Probability
		if c.Endpoint == d.Chosen && d.Chosen != "" {
			chosen = i
		}
	}
	if chosen >= 0 {
		from, to := chosen*forecastWidth, (chosen+1)*forecastWidth
		chosenForecast, chosenCorrected = forecasts[from:to], corrected[from:to]
	}
	var digest []byte // NULL where there is none
	if len(d.PromptDigest) > 0 {
		digest = d.PromptDigest
	}
	return []any{
		stored(d.DecidedAt), pgtype.UUID{Bytes: d.ID, Valid: true},
		storable(d.LLM), storable(d.Router), storable(d.Mode), storable(d.Policy), int32(d.PolicyVersion),
		d.Bundle, d.Schema[:], storable(d.State), storable(d.Reason),
		known(d.PromptTokens), known(d.ExpectedOutputTokens), known(d.SLOTTFT), known(d.SLOTPOT), int32(d.Priority),
		named(d.Chosen), named(d.ChosenClass), chosenVector, chosenForecast, chosenCorrected,
		known(d.Propensity), d.Explored,
		d.Complete, ids, classes, vectors, forecasts, corrected, costs, probabilities, d.States,
		int32(d.Rest), known(d.RestCostMin), known(d.RestCostMax), int64(d.Epoch), int64(d.Seed),
		digest, storable(d.Experiment), storable(d.Arm),
	}
}

func outcomeValues(o *feature.Outcome) []any {
	return []any{
		stored(o.DecidedAt), pgtype.UUID{Bytes: o.Decision, Valid: true}, int32(o.Attempt), storable(string(o.Status)),
		pgtype.Int4{Int32: int32(o.HTTPStatus), Valid: o.HTTPStatus != 0},
		known(o.TTFT), known(o.TPOT), known(o.E2E), known(o.OutputTokens), known(o.CachedTokens),
		named(o.Endpoint), known(o.CensoredAt), optional(o.FinishedAt),
	}
}

// known is NULL for NaN.
func known[T ~float64](v T) pgtype.Float8 {
	return pgtype.Float8{Float64: float64(v), Valid: v == v}
}

func unknown(v pgtype.Float8) float64 {
	if !v.Valid {
		return feature.Unknown
	}
	return v.Float64
}

// named is NULL for the empty name.
func named(s string) pgtype.Text { return pgtype.Text{String: storable(s), Valid: s != ""} }

// storable is s without what a text column refuses.
func storable(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// stored cuts t to what the database keeps, so that the two rows of one
// decision agree.
func stored(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// optional is NULL for the zero time.
func optional(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: stored(t), Valid: true}
}

func timeOf(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// scanDecision reads decisionColumns.
func scanDecision(row pgx.CollectableRow) (feature.Decision, error) {
	var (
		d                               feature.Decision
		id                              pgtype.UUID
		schema                          []byte
		prompt, output, sloTTFT, sloTP  pgtype.Float8
		chosen, chosenClass             pgtype.Text
		chosenVector, vectors           []float32
		propensity, restMin, restMax    pgtype.Float8
		ids, classes                    []string
		forecasts, corrected            []float64
		costs, probabilities            []float64
		epoch, seed                     int64
		policyVersion, priority, rest   int32
		unusedForecast, unusedCorrected []float64
	)
	err := row.Scan(
		&d.DecidedAt, &id, &d.LLM, &d.Router, &d.Mode, &d.Policy, &policyVersion, &d.Bundle, &schema, &d.State, &d.Reason,
		&prompt, &output, &sloTTFT, &sloTP, &priority,
		&chosen, &chosenClass, &chosenVector, &unusedForecast, &unusedCorrected, &propensity, &d.Explored,
		&d.Complete, &ids, &classes, &vectors, &forecasts, &corrected, &costs, &probabilities, &d.States,
		&rest, &restMin, &restMax, &epoch, &seed, &d.PromptDigest, &d.Experiment, &d.Arm)
	if err != nil {
		return d, err
	}
	d.DecidedAt, d.ID = d.DecidedAt.UTC(), id.Bytes
	copy(d.Schema[:], schema)
	d.PromptTokens, d.ExpectedOutputTokens = unknown(prompt), unknown(output)
	d.SLOTTFT, d.SLOTPOT = feature.Seconds(unknown(sloTTFT)), feature.Seconds(unknown(sloTP))
	d.PolicyVersion, d.Priority, d.Rest = int(policyVersion), int(priority), int(rest)
	d.Chosen, d.ChosenClass = chosen.String, chosenClass.String
	d.Propensity, d.RestCostMin, d.RestCostMax = unknown(propensity), unknown(restMin), unknown(restMax)
	d.Epoch, d.Seed = uint64(epoch), uint64(seed)
	if d.ChosenVector, err = vectorOf(chosenVector); err != nil {
		return d, fmt.Errorf("decision %s: %w", d.ID, err)
	}
	n := len(ids)
	if len(classes) != n || len(costs) != n || len(probabilities) != n || len(vectors) != n*feature.Width ||
		len(forecasts) != n*forecastWidth || len(corrected) != n*forecastWidth {
		return d, fmt.Errorf("decision %s: its %d candidates are not those of this build's schema %s but of %s",
			d.ID, n, feature.Schema, d.Schema)
	}
	if n > 0 {
		d.Candidates = make([]feature.Candidate, n)
	}
	for i := range d.Candidates {
		at := i * forecastWidth
		d.Candidates[i] = feature.Candidate{
			Endpoint: ids[i], Class: classes[i],
			Vector:    feature.Vector(vectors[i*feature.Width:]),
			Forecast:  forecastOf(forecasts[at : at+forecastWidth]),
			Corrected: forecastOf(corrected[at : at+forecastWidth]),
			Cost:      costs[i], Probability: probabilities[i],
		}
	}
	return d, nil
}

// vectorOf is the unknown vector where none is stored.
func vectorOf(v []float32) (feature.Vector, error) {
	if v == nil {
		return unknownVector, nil
	}
	if len(v) != feature.Width {
		return unknownVector, fmt.Errorf("a vector of this build has %d numbers, the stored one %d", feature.Width, len(v))
	}
	return feature.Vector(v), nil
}

// outcomeScan is where outcomeColumns are read to.
type outcomeScan struct {
	decidedAt                       time.Time
	decision                        pgtype.UUID
	attempt                         int32
	status                          string
	httpStatus                      pgtype.Int4
	ttft, tpot, e2e, tokens, cached pgtype.Float8
	endpoint                        pgtype.Text
	censoredAt                      pgtype.Float8
	finishedAt                      pgtype.Timestamptz
}

func (o *outcomeScan) targets() []any {
	return []any{&o.decidedAt, &o.decision, &o.attempt, &o.status, &o.httpStatus, &o.ttft, &o.tpot, &o.e2e,
		&o.tokens, &o.cached, &o.endpoint, &o.censoredAt, &o.finishedAt}
}

func (o *outcomeScan) outcome() feature.Outcome {
	return feature.Outcome{
		Decision: o.decision.Bytes, DecidedAt: o.decidedAt.UTC(), Attempt: int(o.attempt), Status: feature.Status(o.status),
		HTTPStatus: int(o.httpStatus.Int32),
		TTFT:       feature.Seconds(unknown(o.ttft)), TPOT: feature.Seconds(unknown(o.tpot)), E2E: feature.Seconds(unknown(o.e2e)),
		OutputTokens: unknown(o.tokens), CachedTokens: unknown(o.cached),
		Endpoint: o.endpoint.String, CensoredAt: feature.Seconds(unknown(o.censoredAt)), FinishedAt: timeOf(o.finishedAt),
	}
}

func scanOutcome(row pgx.CollectableRow) (feature.Outcome, error) {
	var o outcomeScan
	if err := row.Scan(o.targets()...); err != nil {
		return feature.Outcome{}, err
	}
	return o.outcome(), nil
}
