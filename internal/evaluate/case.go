package evaluate

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Case is one request: what was forecast of it, by each of the series that
// are compared, and what came.
type Case struct {
	At           time.Time // decided
	LLM          string
	Endpoint     string
	Explored     bool
	PromptTokens float64
	Load         float64 // of the endpoint, as known before the decision; any one number of it
	TTFT         feature.Seconds
	TPOT         feature.Seconds
	CensoredAt   feature.Seconds // where TTFT is unknown: it would have been longer than this
	Forecasts    []feature.Forecast
}

// countedEvery is how far apart rows stand that tell no time.
const countedEvery = 100 * time.Millisecond

// Counted is the time that is given to row i of those that tell none: from the
// Unix epoch on, a tenth of a second apart.
func Counted(i int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(i) * countedEvery) }

// IsCounted reports whether at is a time that Counted gave.
func IsCounted(at time.Time) bool { return at.Year() == 1970 }

// A LeftOut is why a row is not judged. The empty one is of rows that are.
type LeftOut string

// The reasons, as a reader of a report sees them.
const (
	Failed     LeftOut = "not served, or not yet, and not known how long it would have taken"
	Retried    LeftOut = "served by another endpoint than the one decided on"
	Unmeasured LeftOut = "served without a usable TTFT or TPOT"
	Aborted    LeftOut = "ended before the first token, so that there is nothing to learn" // of refits alone
	NoForecast LeftOut = "no forecast stood beside the decision"
)

// LeftOuts lists the reasons in the order in which they are told.
func LeftOuts() []LeftOut { return []LeftOut{Failed, Retried, Unmeasured, Aborted, NoForecast} }

// The series of logged rows, in the order of CaseOf's forecasts.
const (
	Prior     = "prior"     // the analytic prior in the vector
	Raw       = "raw"       // what the bundle said
	Corrected = "corrected" // what the policy used: corrected online, on the prior of the moment of decision
)

// The series of rows that a bundle was fitted for, beside Prior.
const (
	Frozen      = "frozen"      // what the bundle says, as it was at the split
	Prequential = "prequential" // corrected online by those outcomes that were known before the decision
)

// Logged is the series of CaseOf.
func Logged() []string { return []string{Prior, Raw, Corrected} }

// longest is the longest latency that is believed, in seconds.
const longest = 3600

// PriorForecast is what the prior in a vector says. It knows no p90.
func PriorForecast(v *feature.Vector) feature.Forecast {
	prior, f := v.Prior(), feature.NoForecast
	f.TTFT.P50, f.TPOT.P50 = prior.TTFT, prior.TPOT
	return f
}

// CaseOf is Observed with the forecasts that stood beside the decision: those
// of the series that Logged lists.
func CaseOf(row *feature.Row, loadColumn int) (Case, LeftOut) {
	c, why := Observed(row, loadColumn)
	if why != "" {
		return c, why
	}
	c.Forecasts = []feature.Forecast{PriorForecast(&row.Vector), row.Forecast, row.Corrected}
	for i := range c.Forecasts {
		if f := &c.Forecasts[i]; !(f.TTFT.P50 > 0) && !(f.TPOT.P50 > 0) {
			return c, NoForecast
		}
	}
	return c, ""
}

// Observed is the case of a row, without forecasts, with column loadColumn of
// its vector as the load. Only what was observed of the endpoint that was
// decided on is one: no errors and no retries. A request that gave up before
// its first token is one too; its TTFT is censored.
func Observed(row *feature.Row, loadColumn int) (Case, LeftOut) {
	o := &row.Outcome
	if o.Attempt == 0 || row.Endpoint == "" { // still under way, or shed
		return Case{}, Failed
	}
	if o.Attempt != 1 || o.Endpoint != "" && o.Endpoint != row.Endpoint {
		return Case{}, Retried
	}
	unknown := feature.Seconds(feature.Unknown)
	c := Case{
		At: row.DecidedAt, LLM: row.LLM, Endpoint: row.Endpoint, Explored: row.Explored,
		PromptTokens: float64(row.Vector[feature.ColumnPromptTokens]), Load: float64(row.Vector[loadColumn]),
		TTFT: unknown, TPOT: unknown, CensoredAt: unknown,
	}
	if o.Status != feature.OK {
		if c.CensoredAt = believed(o.CensoredAt); feature.IsUnknown(c.CensoredAt) {
			return c, Failed
		}
		return c, ""
	}
	c.TTFT, c.TPOT = believed(o.TTFT), believed(o.TPOT)
	if feature.IsUnknown(c.TTFT) && feature.IsUnknown(c.TPOT) {
		return c, Unmeasured
	}
	return c, ""
}

func believed(s feature.Seconds) feature.Seconds {
	if s > 0 && s < longest {
		return s
	}
	return feature.Seconds(feature.Unknown)
}
