package featurestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// The spool's own form of a record: a kind byte, then the fields in the order
// of the struct. A changed struct gets a new kind, so that an older spool is
// either read rightly or refused.
const (
	kindDecision1 byte = 1 // without a digest: read, not written
	kindOutcome   byte = 2
	kindDecision3 byte = 3 // without an experiment: read, not written
	kindDecision  byte = 4
)

// record is one row on its way to the database: a decision or an outcome.
type record struct {
	decision *feature.Decision
	outcome  *feature.Outcome
}

// size is about how many bytes r takes in the spool.
func (r record) size() int {
	if r.outcome != nil {
		return 120 + len(r.outcome.Endpoint)
	}
	d := r.decision
	const candidate = feature.VectorSize + 8*(2*forecastWidth+2)
	n := 260 + feature.VectorSize + len(d.LLM) + len(d.Router) + len(d.Policy) + len(d.Reason) + len(d.Chosen) + len(d.ChosenClass) + len(d.States) + len(d.PromptDigest) + len(d.Experiment) + len(d.Arm)
	for i := range d.Candidates {
		n += candidate + len(d.Candidates[i].Endpoint) + len(d.Candidates[i].Class)
	}
	return n
}

func (r record) append(b []byte) []byte {
	if r.outcome != nil {
		return appendOutcome(append(b, kindOutcome), r.outcome)
	}
	return appendDecision(append(b, kindDecision), r.decision)
}

func appendDecision(b []byte, d *feature.Decision) []byte {
	b = append(b, d.ID[:]...)
	b = appendTime(b, d.DecidedAt)
	b = appendText(b, d.LLM, d.Router, d.Mode, d.Policy)
	b = appendInts(b, int64(d.PolicyVersion), d.Bundle)
	b = append(b, d.Schema[:]...)
	b = appendText(b, d.State, d.Reason)
	b = appendFloats(b, d.PromptTokens, d.ExpectedOutputTokens, float64(d.SLOTTFT), float64(d.SLOTPOT))
	b = appendInts(b, int64(d.Priority))
	b = appendText(b, d.Chosen, d.ChosenClass)
	b = d.ChosenVector.Append(b)
	b = appendFloats(b, d.Propensity)
	b = appendBools(b, d.Explored, d.Complete)
	b = binary.AppendUvarint(b, uint64(len(d.Candidates)))
	for i := range d.Candidates {
		c := &d.Candidates[i]
		b = appendText(b, c.Endpoint, c.Class)
		b = c.Vector.Append(b)
		var numbers [2*forecastWidth + 2]float64
		n := appendForecast(numbers[:0], &c.Forecast)
		n = appendForecast(n, &c.Corrected)
		b = appendFloats(b, append(n, c.Cost, c.Probability)...)
	}
	b = appendBools(b, d.States != nil)
	b = appendText(b, string(d.States))
	b = appendInts(b, int64(d.Rest))
	b = appendFloats(b, d.RestCostMin, d.RestCostMax)
	b = binary.LittleEndian.AppendUint64(b, d.Epoch)
	b = binary.LittleEndian.AppendUint64(b, d.Seed)
	return appendText(b, string(d.PromptDigest), d.Experiment, d.Arm)
}

func appendOutcome(b []byte, o *feature.Outcome) []byte {
	b = append(b, o.Decision[:]...)
	b = appendTime(b, o.DecidedAt)
	b = appendInts(b, int64(o.Attempt), int64(o.HTTPStatus))
	b = appendText(b, string(o.Status), o.Endpoint)
	b = appendFloats(b, float64(o.TTFT), float64(o.TPOT), float64(o.E2E), o.OutputTokens, o.CachedTokens, float64(o.CensoredAt))
	return appendTime(b, o.FinishedAt)
}

func appendText(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func appendInts(b []byte, ints ...int64) []byte {
	for _, v := range ints {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func appendFloats(b []byte, floats ...float64) []byte {
	for _, v := range floats {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func appendBools(b []byte, bools ...bool) []byte {
	for _, v := range bools {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// noTime stands for the zero time, whose microseconds overflow.
const noTime = math.MinInt64

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, noTime)
	}
	return binary.AppendVarint(b, t.UnixMicro())
}

var errShort = errors.New("record is cut short")

// decodeRecord reads what record.append wrote, all of it.
func decodeRecord(b []byte) (record, error) {
	if len(b) == 0 {
		return record{}, errShort
	}
	d := decoder{rest: b[1:]}
	var r record
	switch b[0] {
	case kindDecision, kindDecision3, kindDecision1:
		r.decision = d.decision()
		if r.decision != nil && b[0] >= kindDecision3 {
			r.decision.PromptDigest = d.bytes()
		}
		if r.decision != nil && b[0] >= kindDecision {
			r.decision.Experiment, r.decision.Arm = d.text(), d.text()
		}
	case kindOutcome:
		r.outcome = d.outcome()
	default:
		return record{}, fmt.Errorf("record of unknown kind %d", b[0])
	}
	if d.short {
		return record{}, errShort
	}
	if len(d.rest) > 0 {
		return record{}, fmt.Errorf("record has %d bytes too many", len(d.rest))
	}
	return r, nil
}

// decoder reads fields one after the other. Once short, all are zero.
type decoder struct {
	rest  []byte
	short bool
}

func (d *decoder) take(n uint64) []byte {
	if d.short || n > uint64(len(d.rest)) {
		d.short, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.take(math.MaxUint64)
		return 0
	}
	d.take(uint64(n))
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.take(math.MaxUint64)
		return 0
	}
	d.take(uint64(n))
	return v
}

func (d *decoder) text() string { return string(d.take(d.uvarint())) }

// bytes are nil where there are none.
func (d *decoder) bytes() []byte { return append([]byte(nil), d.take(d.uvarint())...) }

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) float() float64 { return math.Float64frombits(d.uint64()) }

func (d *decoder) seconds() feature.Seconds { return feature.Seconds(d.float()) }

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

func (d *decoder) time() time.Time {
	v := d.int()
	if v == noTime {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}

func (d *decoder) vector() (v feature.Vector) {
	if b := d.take(feature.VectorSize); b != nil {
		v, _ = feature.DecodeVector(b) // cannot fail: the length is right
	}
	return v
}

func (d *decoder) forecast() feature.Forecast {
	var v [forecastWidth]float64
	for i := range v {
		v[i] = d.float()
	}
	return forecastOf(v[:])
}

// leastCandidate is fewer bytes than any encoded candidate has, so that a
// false count cannot ask for much memory.
const leastCandidate = feature.VectorSize

func (d *decoder) decision() *feature.Decision {
	var v feature.Decision
	copy(v.ID[:], d.take(uint64(len(v.ID))))
	v.DecidedAt = d.time()
	v.LLM, v.Router, v.Mode, v.Policy = d.text(), d.text(), d.text(), d.text()
	v.PolicyVersion, v.Bundle = int(d.int()), d.int()
	copy(v.Schema[:], d.take(uint64(len(v.Schema))))
	v.State, v.Reason = d.text(), d.text()
	v.PromptTokens, v.ExpectedOutputTokens = d.float(), d.float()
	v.SLOTTFT, v.SLOTPOT = d.seconds(), d.seconds()
	v.Priority = int(d.int())
	v.Chosen, v.ChosenClass = d.text(), d.text()
	v.ChosenVector = d.vector()
	v.Propensity = d.float()
	v.Explored, v.Complete = d.bool(), d.bool()
	n := d.uvarint()
	if n > uint64(len(d.rest)/leastCandidate) {
		d.take(math.MaxUint64)
		return nil
	}
	if n > 0 {
		v.Candidates = make([]feature.Candidate, n)
	}
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.Endpoint, c.Class = d.text(), d.text()
		c.Vector = d.vector()
		c.Forecast, c.Corrected = d.forecast(), d.forecast()
		c.Cost, c.Probability = d.float(), d.float()
	}
	hasStates, states := d.bool(), d.text()
	if hasStates {
		v.States = []byte(states)
	}
	v.Rest = int(d.int())
	v.RestCostMin, v.RestCostMax = d.float(), d.float()
	v.Epoch, v.Seed = d.uint64(), d.uint64()
	return &v
}

func (d *decoder) outcome() *feature.Outcome {
	var v feature.Outcome
	copy(v.Decision[:], d.take(uint64(len(v.Decision))))
	v.DecidedAt = d.time()
	v.Attempt, v.HTTPStatus = int(d.int()), int(d.int())
	v.Status, v.Endpoint = feature.Status(d.text()), d.text()
	v.TTFT, v.TPOT, v.E2E = d.seconds(), d.seconds(), d.seconds()
	v.OutputTokens, v.CachedTokens, v.CensoredAt = d.float(), d.float(), d.seconds()
	v.FinishedAt = d.time()
	return &v
}
