package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// encoding is the version of the bytes that Encode writes. Decode still reads
// those before it: version 5 lacks the last number of the settings, version 4 the last two, version 3 also
// what candidates have in flight beside counts of it, version 2 also the canary and the last numbers of the settings and of
// candidates.
const (
	encoding       = 6
	oldestEncoding = 2
)

// maxCandidates and maxName bound what Decode accepts.
const (
	maxCandidates = 100_000
	maxName       = 256
)

// minCandidate is the fewest bytes a candidate takes in the oldest encoding: one
// for each number, and for its standing, two flags and two histograms.
var minCandidate = uint64(len(candidateOf(&Candidate{}, oldestEncoding)) + 5)

// Encode appends what Decide reads of in, except the seed and the endpoint and
// class names, which have columns of their own. Numbers keep every bit; small
// whole ones take a byte or two. The residual and the correction of a candidate
// without a forecast are not read and not written.
func Encode(dst []byte, in *Input) []byte {
	e := encoder{append(dst, encoding)}
	e.text(in.Policy)
	e.text(in.Fallback)
	e.flag(in.Forecasts)
	e.b = binary.AppendUvarint(e.b, in.Turn)
	e.number(in.Canary)
	e.numbers(settingsOf(&in.Settings, encoding)...)
	e.numbers(requestOf(&in.Request)...)
	e.b = binary.AppendUvarint(e.b, uint64(len(in.Candidates)))
	var last physics.Coefficients
	for i := range in.Candidates {
		c := &in.Candidates[i]
		e.b = append(e.b, byte(c.Standing))
		same := i > 0 && identical(&c.Coefficients, &last)
		e.flag(same)
		if !same {
			e.numbers(coefficientsOf(&c.Coefficients)...)
			last = c.Coefficients
		}
		e.numbers(candidateOf(c, encoding)...)
		e.histogram(&c.Load.Ledger.Remaining)
		e.histogram(&c.Load.Ledger.RemainingContext)
		known := c.Residual.Known()
		e.flag(known)
		if known {
			e.numbers(residualOf(&c.Residual)...)
			e.numbers(residualOf(&c.Correction)...)
		}
	}
	return e.b
}

// Decode reads what Encode wrote, also what it wrote before: of that
// the settings which are missing are 0, and what was not known of candidates is
// unknown. Names, and the seed, are left empty.
func Decode(b []byte) (*Input, error) {
	d := decoder{b: b}
	version := d.byte()
	if d.err == nil && (version < oldestEncoding || version > encoding) {
		return nil, fmt.Errorf("decision state has encoding %d, this build reads %d to %d", version, oldestEncoding, encoding)
	}
	in := &Input{}
	in.Policy = d.text()
	in.Fallback = d.text()
	in.Forecasts = d.flag()
	in.Turn = d.uvarint()
	if version > oldestEncoding {
		in.Canary = d.number()
	}
	d.numbers(settingsOf(&in.Settings, version)...)
	d.numbers(requestOf(&in.Request)...)
	n := d.uvarint()
	if d.err == nil && (n > maxCandidates || n > uint64(len(d.b))/minCandidate) {
		return nil, fmt.Errorf("decision state claims %d candidates in %d bytes", n, len(b))
	}
	in.Candidates = make([]Candidate, n)
	var last physics.Coefficients
	for i := range in.Candidates {
		if d.err != nil {
			break
		}
		c := &in.Candidates[i]
		c.Standing = d.standing()
		if !d.flag() {
			d.numbers(coefficientsOf(&last)...)
		}
		c.Coefficients = last
		c.HotTokens, c.SpeedSteps, c.Load.Ledger.GeneratedTokens = feature.Unknown, feature.Unknown, feature.Unknown
		d.numbers(candidateOf(c, version)...)
		d.histogram(&c.Load.Ledger.Remaining)
		d.histogram(&c.Load.Ledger.RemainingContext)
		c.Residual = feature.NoResidual
		if d.flag() {
			d.numbers(residualOf(&c.Residual)...)
			d.numbers(residualOf(&c.Correction)...)
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes left over", len(d.b))
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode decision state: %w", d.err)
	}
	return in, nil
}

// The lists below are the one place that says which numbers are written, and
// in which order. New ones come last.

func settingsOf(s *Settings, version byte) []*float64 {
	all := []*float64{
		&s.StickyShare, seconds(&s.StickySaved), seconds(&s.MaxTTFTPenalty), seconds(&s.PredictedPenalty),
		&s.TokensPerRequest, &s.Exploration, seconds(&s.ExplorationHarm), &s.DefaultThroughput,
		&s.EvictionWeight, &s.HeadroomWeight, &s.PrefillExternality, &s.EvictionExternality, &s.DecodeExternality, &s.ShedExcess,
		&s.Impatience, &s.QueueExternality,
	}
	switch version {
	case oldestEncoding:
		return all[:8]
	case 3, 4:
		return all[:14]
	case 5:
		return all[:15]
	}
	return all
}

func requestOf(r *Request) []*float64 {
	return []*float64{
		&r.PromptTokens, &r.ExpectedOutputTokens, &r.MaxOutputTokens, &r.Completions,
		seconds(&r.SLOTTFT), seconds(&r.SLOTPOT), &r.Priority,
	}
}

func coefficientsOf(c *physics.Coefficients) []*float64 {
	return []*float64{&c.A, &c.B, &c.C, &c.D, &c.E}
}

func candidateOf(c *Candidate, version byte) []*float64 {
	s, l, p := &c.Load.Scraped, &c.Load.Ledger, &c.Load.Profile
	all := []*float64{
		&c.CachedTokens, seconds(&c.ColdAgo),
		&s.Waiting, &s.Running, &s.KVUsed, seconds(&s.Age),
		&l.Requests, &l.PrefillTokens, &l.Decoding, &l.ContextTokens, &l.SinceScrape, &l.SinceScrapeTok,
		&l.PrefillContext, &l.WaitingContext, &l.HeadTokens, &l.HeadContext, seconds(&l.HeadElapsed), &l.PrefillRate, &l.PrefillContextRate,
		&p.PeakPrefillThroughput, &p.MaxBatchedTokens, &p.MaxNumSeqs, &p.KVCapacityTokens, &p.SpeedFactor,
		&c.HotTokens, &c.SpeedSteps, &l.GeneratedTokens,
		&l.WaitingOutput, &l.WaitingStay, &l.SharedContext, &l.SinceScrapeContext,
	}
	switch version {
	case oldestEncoding:
		return all[:len(all)-7]
	case 3:
		return all[:len(all)-4]
	}
	return all
}

func residualOf(r *feature.Residual) []*float64 {
	return []*float64{&r.TTFT.P50, &r.TTFT.P90, &r.TPOT.P50, &r.TPOT.P90}
}

// identical reports whether a and b are the same bits, where == would take -0
// for 0.
func identical(a, b *physics.Coefficients) bool {
	x, y := coefficientsOf(a), coefficientsOf(b)
	for i := range x {
		if math.Float64bits(*x[i]) != math.Float64bits(*y[i]) {
			return false
		}
	}
	return true
}

func seconds(s *feature.Seconds) *float64 { return (*float64)(s) }

type encoder struct{ b []byte }

func (e *encoder) flag(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) text(s string) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) numbers(vs ...*float64) {
	for _, v := range vs {
		e.number(*v)
	}
}

// number writes a whole number from 0 to 2^52 as twice itself, and anything
// else as 1 and its 8 bytes.
func (e *encoder) number(v float64) {
	if v >= 0 && v <= 1<<52 && v == math.Trunc(v) && !math.Signbit(v) {
		e.b = binary.AppendUvarint(e.b, uint64(v)<<1)
		return
	}
	e.b = append(e.b, 1)
	e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(v))
}

// histogram writes which buckets are not zero, then those.
func (e *encoder) histogram(h *[feature.RemainingBuckets]float64) {
	var set uint64
	for i, v := range h {
		if math.Float64bits(v) != 0 { // -0 is written
			set |= 1 << i
		}
	}
	e.b = binary.AppendUvarint(e.b, set)
	for i, v := range h {
		if set&(1<<i) != 0 {
			e.number(v)
		}
	}
}

var errShort = errors.New("the bytes end too early")

// decoder reads b from the front. After the first error it reads zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail(errShort)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) flag() bool {
	v := d.byte()
	if v > 1 {
		d.fail(fmt.Errorf("a flag is %d, want 0 or 1", v))
	}
	return v == 1
}

func (d *decoder) standing() Standing {
	s := Standing(d.byte())
	if s > Barred {
		d.fail(fmt.Errorf("a standing is %d, want at most %d", s, Barred))
	}
	return s
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n == 0 {
		d.fail(errShort)
		return 0
	}
	if n < 0 {
		d.fail(errors.New("a whole number exceeds 64 bits"))
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > maxName {
		d.fail(fmt.Errorf("a name has %d bytes, want at most %d", n, maxName))
		return ""
	}
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) numbers(vs ...*float64) {
	for _, v := range vs {
		*v = d.number()
	}
}

func (d *decoder) number() float64 {
	v := d.uvarint()
	if v&1 == 0 {
		return float64(v >> 1)
	}
	if v != 1 {
		d.fail(fmt.Errorf("a number begins with %d, want 1 or twice a whole number", v))
		return 0
	}
	if len(d.b) < 8 {
		d.fail(errShort)
		return 0
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(d.b))
	d.b = d.b[8:]
	return f
}

func (d *decoder) histogram(h *[feature.RemainingBuckets]float64) {
	set := d.uvarint()
	if set >= 1<<feature.RemainingBuckets {
		d.fail(fmt.Errorf("a histogram has buckets %#x, want %d of them", set, feature.RemainingBuckets))
		return
	}
	for i := range h {
		if set&(1<<i) != 0 {
			h[i] = d.number()
		}
	}
}
