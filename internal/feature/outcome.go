package feature

import (
	"encoding/hex"
	"fmt"
	"time"
)

// ID names a decision: the 16 bytes of a UUIDv7.
type ID [16]byte

// String writes id in the usual 8-4-4-4-12 form.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, fmt.Errorf("decision id %q is not a UUID", s)
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return id, fmt.Errorf("decision id %q is not a UUID", s)
	}
	return id, nil
}

// Status is how a request ended.
type Status string

// The ways a request ends.
const (
	OK              Status = "ok"
	ClientAbort     Status = "client_abort"
	UpstreamError   Status = "upstream_error"
	UpstreamTimeout Status = "upstream_timeout"
	Shed            Status = "shed"
	Lost            Status = "lost" // the router ended before the request did
)

// Outcome is what was measured after a decision. Numbers not observed are
// NaN: an error or an abort never becomes a fast sample.
type Outcome struct {
	Decision     ID
	DecidedAt    time.Time // of the decision; the day partition both rows live in
	Attempt      int       // 1, or 2 when the first endpoint failed before its first byte
	Status       Status
	HTTPStatus   int     // of the answer the client saw; 0 when none was sent
	TTFT         Seconds // dispatch to the first generated token
	TPOT         Seconds // (last - first token)/(n-1); NaN when n < 2
	E2E          Seconds // dispatch to the end of the answer
	OutputTokens float64 // from usage, else counted
	CachedTokens float64 // as the engine reported; NaN when it does not
	Endpoint     string  // that really served
	CensoredAt   Seconds // when there is no TTFT: it would have been longer than this
	FinishedAt   time.Time
}

// Row is one decision joined with its outcome: what a trainer learns from.
type Row struct {
	Decision   ID
	DecidedAt  time.Time
	LLM        string
	Endpoint   string
	Class      string
	Schema     Fingerprint
	Vector     Vector
	Explored   bool // the policy's exploration chose it
	Forecast   Forecast
	Corrected  Forecast
	BundleUsed int64 // 0 when the decision used no forecast
	Outcome    Outcome

	PromptDigest []byte // of the decision, where the reader asks for it
}
