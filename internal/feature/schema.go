package feature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
)

// Sign is the direction in which a final forecast may move when a feature
// grows and all others stay.
type Sign int8

// The three signs. None means the forecast is free to move either way.
const (
	Minus Sign = -1
	None  Sign = 0
	Plus  Sign = 1
)

// String returns "+", "-" or "none".
func (s Sign) String() string {
	switch s {
	case Plus:
		return "+"
	case Minus:
		return "-"
	default:
		return "none"
	}
}

// Source says who knows a feature.
type Source string

// The sources of features.
const (
	FromRequest Source = "request"
	FromScrape  Source = "scrape"
	FromLedger  Source = "ledger"
	FromProfile Source = "profile"
	FromPrior   Source = "prior"
)

// Feature describes one number of the vector.
type Feature struct {
	Name    string
	Unit    string
	Source  Source
	Min     float64 // smallest sensible value
	Max     float64 // largest sensible value, +Inf when unbounded
	Sign    Sign
	Meaning int // version of the meaning; raised when the same name comes to mean something else
}

// Width is how many numbers a Vector has.
const Width = 27

// SchemaVersion is raised with every change of the table below.
const SchemaVersion = 3

// Columns of a Vector that other packages address by name.
const (
	ColumnPromptTokens         = 0
	ColumnCachedTokens         = 1
	ColumnUncachedTokens       = 2
	ColumnExpectedOutputTokens = 3
	ColumnPriorTTFT            = 21
	ColumnPriorTPOT            = 22
	ColumnPriorPrefill         = 23
	ColumnPriorQueue           = 24
	ColumnPriorAdmission       = 25
	ColumnPriorInterference    = 26
)

var inf = math.Inf(1)

// table is the one list of features, in the order of the vector. A sign is that
// of load, work and room for it. speed_factor has none: the prior is a multiple
// of it already, and beyond that how fast an endpoint steps says which endpoint
// it is, with whatever else is peculiar to it.
var table = [Width]Feature{
	{"prompt_tokens", "tokens", FromRequest, 0, inf, Plus, 1},
	{"cached_tokens", "tokens", FromRequest, 0, inf, Minus, 1},
	{"uncached_tokens", "tokens", FromRequest, 0, inf, Plus, 1},
	{"expected_output_tokens", "tokens", FromRequest, 0, inf, None, 1},
	{"max_output_tokens", "tokens", FromRequest, 0, inf, None, 1},
	{"completions", "sequences", FromRequest, 1, inf, Plus, 1},
	{"waiting", "requests", FromScrape, 0, inf, Plus, 1},
	{"running", "requests", FromScrape, 0, inf, Plus, 1},
	{"kv_used", "fraction", FromScrape, 0, 1, Plus, 1},
	{"scrape_age", "seconds", FromScrape, 0, inf, None, 1},
	{"inflight_requests", "requests", FromLedger, 0, inf, Plus, 1},
	{"inflight_prefill_tokens", "tokens", FromLedger, 0, inf, Plus, 1},
	{"inflight_decoding", "requests", FromLedger, 0, inf, Plus, 1},
	{"inflight_context_tokens", "tokens", FromLedger, 0, inf, Plus, 1},
	{"dispatched_since_scrape", "requests", FromLedger, 0, inf, Plus, 1},
	{"dispatched_tokens_since_scrape", "tokens", FromLedger, 0, inf, Plus, 1},
	{"peak_prefill_throughput", "tokens/s", FromProfile, 0, inf, Minus, 1},
	{"max_batched_tokens", "tokens", FromProfile, 1, inf, None, 1},
	{"max_num_seqs", "sequences", FromProfile, 1, inf, None, 1},
	{"kv_capacity_tokens", "tokens", FromProfile, 1, inf, None, 1},
	{"speed_factor", "ratio", FromProfile, 1.0 / 7, 7, None, 1},
	{"prior_ttft", "seconds", FromPrior, 0, inf, Plus, 1},
	{"prior_tpot", "seconds", FromPrior, 0, inf, Plus, 1},
	{"prior_prefill", "seconds", FromPrior, 0, inf, Plus, 1},
	{"prior_queue", "seconds", FromPrior, 0, inf, Plus, 1},
	{"prior_admission", "seconds", FromPrior, 0, inf, Plus, 1},
	{"prior_interference", "seconds", FromPrior, 0, inf, Plus, 1},
}

// Table returns the features in the order of the vector.
func Table() []Feature { return append([]Feature(nil), table[:]...) }

// Names returns the feature names in the order of the vector.
func Names() []string {
	names := make([]string, Width)
	for i, f := range table {
		names[i] = f.Name
	}
	return names
}

// Index returns the column of the named feature, or -1.
func Index(name string) int {
	for i, f := range table {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Fingerprint identifies the meaning of every column of a Vector: the first
// 8 bytes of SHA-256 over the lines
// "index name unit source sign meaning-version".
type Fingerprint [8]byte

// String returns the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// ParseFingerprint reads what String wrote.
func ParseFingerprint(s string) (Fingerprint, error) {
	var f Fingerprint
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(f) {
		return f, fmt.Errorf("schema fingerprint %q is not 16 hexadecimal digits", s)
	}
	copy(f[:], b)
	return f, nil
}

// Schema is the fingerprint of this build's vector.
var Schema = fingerprint()

func fingerprint() Fingerprint {
	var lines strings.Builder
	for i, f := range table {
		fmt.Fprintf(&lines, "%d %s %s %s %s %d\n", i, f.Name, f.Unit, f.Source, f.Sign, f.Meaning)
	}
	sum := sha256.Sum256([]byte(lines.String()))
	return Fingerprint(sum[:8])
}
