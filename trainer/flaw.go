package trainer

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Flaw is why a row that claims to be a measurement can't be one. Whoever
// wrote it has a fault that other rows may have too, where it doesn't show.
type Flaw string

// The flaws.
const (
	FlawUnknown Flaw = "unknown" // a number that the router always knows is missing
	FlawRange   Flaw = "range"   // a number of the vector is outside its range
	FlawSums    Flaw = "sums"    // numbers of the vector contradict each other
	FlawTimes   Flaw = "times"   // latencies and time stamps contradict each other
	FlawFast    Flaw = "fast"    // no engine is that much faster than its prior without the wait for room
	FlawEmpty   Flaw = "empty"   // an answer without a token has no first token
)

const (
	flawedShare = 0.1 // of a window's weight: more, and nothing is learned from it
	fewFlawed   = 20  // flawed rows that are too few to say so

	clockSlack = 50 * time.Millisecond // between the stamps of one router
	idSlack    = time.Minute           // between the time in an id and the decision's
	share      = 1.01                  // of rounding in numbers that should add up
	fewTokens  = 16                    // of prompts too short to count
	fastest    = 20                    // times faster than its prior: not even a prompt that was cached unknown to the router, decoded speculatively
)

// columns that the flaws look at.
var (
	ranges = feature.Table()
	// alwaysKnown are known to every router, of every request.
	alwaysKnown = func() (columns []int) {
		for i, f := range ranges {
			if f.Source == feature.FromLedger || f.Source == feature.FromRequest && f.Name != "max_output_tokens" {
				columns = append(columns, i)
			}
		}
		return columns
	}()
	inflight         = feature.Index("inflight_requests")
	inflightDecoding = feature.Index("inflight_decoding")
	inflightPrefill  = feature.Index("inflight_prefill_tokens")
)

// flawOf looks for a flaw in a row that is a sample otherwise; empty when
// there is none.
func flawOf(row *feature.Row) Flaw {
	v, o := &row.Vector, &row.Outcome
	for _, i := range alwaysKnown {
		if v[i] != v[i] {
			return FlawUnknown
		}
	}
	for i, x := range v {
		if float64(x) < ranges[i].Min/share || float64(x) > ranges[i].Max*share {
			return FlawRange
		}
	}
	sum := feature.Request{PromptTokens: float64(v[feature.ColumnPromptTokens]), CachedTokens: float64(v[feature.ColumnCachedTokens])}.UncachedTokens()
	// Whoever is in flight either decodes or has tokens to prefill.
	silent := v[inflight] - v[inflightDecoding]
	if math.Abs(float64(v[feature.ColumnUncachedTokens])-sum) > 1+(share-1)*sum || silent < 0 || silent > v[inflightPrefill]+fewTokens {
		return FlawSums
	}
	if timesContradict(row) {
		return FlawTimes
	}
	// The wait for room that the prior sees in full caches is not the engine's: whose
	// prefix others are using there needs little of it, and may not wait at all.
	prior := v.Prior()
	if o.TTFT < (prior.TTFT-prior.Admission)/fastest || o.TPOT < prior.TPOT/fastest {
		return FlawFast
	}
	if o.OutputTokens == 0 && o.TTFT == o.TTFT {
		return FlawEmpty
	}
	return ""
}

// timesContradict compares the latencies with each other, with the time that
// the request really took, and the decision's time with that in its id.
func timesContradict(row *feature.Row) bool {
	o := &row.Outcome
	within := func(part, whole feature.Seconds) bool {
		return !(part > whole*share+feature.SecondsOf(clockSlack)) // unknown ones are fine
	}
	took := feature.SecondsOf(o.FinishedAt.Sub(row.DecidedAt))
	last := o.TTFT // when the last token came
	if o.OutputTokens > 1 {
		last += o.TPOT * feature.Seconds(o.OutputTokens-1)
	}
	return took < 0 || !within(o.E2E, took) || !within(o.TTFT, took) || !within(o.TTFT, o.E2E) || !within(last, o.E2E) ||
		row.Decision[6]>>4 == 7 && timeOf(row.Decision).Sub(row.DecidedAt).Abs() > idSlack
}

// timeOf reads the Unix milliseconds that a UUIDv7 starts with (RFC 9562,
// section 5.7).
func timeOf(id feature.ID) time.Time {
	var b [8]byte
	copy(b[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:])))
}

// flaws counts the flawed rows of a window.
type flaws struct {
	by            map[Flaw]int
	flawed, whole float64 // weights, which halve with every half-life: what was mended long ago does not count
}

// add takes in one row of a weight.
func (f *flaws) add(flaw Flaw, weight float64) {
	f.whole += weight
	if flaw == "" {
		return
	}
	if f.by == nil {
		f.by = map[Flaw]int{}
	}
	f.by[flaw]++
	f.flawed += weight
}

// rows is how many have a flaw.
func (f *flaws) rows() int {
	n := 0
	for _, k := range f.by {
		n += k
	}
	return n
}

// spoilt reports whether the window is not to be learned from.
func (f *flaws) spoilt() bool { return f.rows() >= fewFlawed && f.flawed > flawedShare*f.whole }

// String says how many rows have which flaw.
func (f *flaws) String() string {
	var parts []string
	for _, flaw := range slices.Sorted(maps.Keys(f.by)) {
		parts = append(parts, fmt.Sprintf("%d %s", f.by[flaw], flaw))
	}
	return fmt.Sprintf("%d rows are no measurements (%s)", f.rows(), strings.Join(parts, ", "))
}
