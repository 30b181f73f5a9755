package loadgen

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Schema is the version of the record and summary formats.
const Schema = 1

// Measure is a measured number: seconds, a rate, a fraction. NaN means unknown
// and is null in JSON.
type Measure float64

var unknown = Measure(math.NaN())

// MarshalJSON writes the number, or null.
func (m Measure) MarshalJSON() ([]byte, error) {
	if v := float64(m); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (m *Measure) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*m = unknown
		return nil
	}
	return json.Unmarshal(b, (*float64)(m))
}

// Count is a number of things. -1 means unknown and is null in JSON.
type Count int

// MarshalJSON writes the number, or null.
func (c Count) MarshalJSON() ([]byte, error) {
	if c < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Count) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*c = -1
		return nil
	}
	return json.Unmarshal(b, (*int)(c))
}

// Status says how a request ended.
type Status string

// The statuses.
const (
	OK          Status = "ok"
	HTTPError   Status = "http_error"   // another HTTP status than 200
	StreamError Status = "stream_error" // an error object inside the response
	Incomplete  Status = "incomplete"   // the response ended in order, but too early
	Reset       Status = "reset"        // the connection broke
	Refused     Status = "refused"      // there was no connection
	Timeout     Status = "timeout"
	Overrun     Status = "overrun"  // not sent: too many in flight
	Canceled    Status = "canceled" // the run was interrupted; no failure
	Failed      Status = "failed"   // anything else
)

// Record is the result of one request, one JSON line.
type Record struct {
	Schema int `json:"schema_version"`
	// Index is the place of the request in the run, from 0; records come in
	// the order in which requests end.
	Index int `json:"index"`
	// Decision is the router's id of the decision, and DecisionReason the
	// whole header it stood in: the id, a semicolon, the reason. Empty when
	// another server answered.
	Decision       string `json:"decision"`
	DecisionReason string `json:"decision_reason"`
	// Endpoint is the engine that the router says it chose.
	Endpoint   string `json:"endpoint"`
	Status     Status `json:"status"`
	HTTPStatus Count  `json:"http_status"`
	// SentAt is the dispatch, from which the latencies are measured. Late is
	// how much later that was than intended: unknown in a closed loop, where
	// nothing is intended.
	SentAt time.Time `json:"sent_at"`
	Late   Measure   `json:"late"`
	// TTFT, TPOT and E2E are in seconds, as openai.Labels has them. A request
	// that broke off keeps the first two, where they were observed.
	TTFT Measure `json:"ttft"`
	TPOT Measure `json:"tpot"`
	E2E  Measure `json:"e2e"`
	// PromptTokens and CachedTokens are the engine's; OutputTokens, too, or
	// else the number of events that carried tokens.
	PromptTokens Count  `json:"prompt_tokens"`
	CachedTokens Count  `json:"cached_tokens"`
	OutputTokens Count  `json:"output_tokens"`
	Error        string `json:"error,omitempty"`
}

// record returns a record of the job in which nothing is known yet.
func (j job) record(s Status) Record {
	return Record{
		Schema: Schema, Index: j.index, Status: s, HTTPStatus: -1, SentAt: time.Now(),
		Late: unknown, TTFT: unknown, TPOT: unknown, E2E: unknown,
		PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
	}
}

func (r Record) line() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // every field marshals
	}
	return append(b, '\n')
}
