package feature

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Vector is the numbers one forecast is made from, in the order of Table.
// Unknown is NaN. It is float32 because that is what travels, what is stored
// and what a tree compares with; widening to float64 is exact.
type Vector [Width]float32

// nan32 is the one NaN a Vector holds, so that equal vectors are equal bytes.
var nan32 = float32(math.NaN())

// Of makes the vector of one request towards one endpoint: its numbers stand in
// the order of the table.
func Of(r Request, l Load, p Prior) Vector {
	v := Vector{
		float32(r.PromptTokens), float32(r.CachedTokens), float32(r.UncachedTokens()),
		float32(r.ExpectedOutputTokens), float32(r.MaxOutputTokens), float32(r.Completions),
		float32(l.Scraped.Waiting), float32(l.Scraped.Running), float32(l.Scraped.KVUsed), float32(l.Scraped.Age),
		float32(l.Ledger.Requests), float32(l.Ledger.PrefillTokens), float32(l.Ledger.Decoding), float32(l.Ledger.ContextTokens), float32(l.Ledger.SinceScrape), float32(l.Ledger.SinceScrapeTok),
		float32(l.Profile.PeakPrefillThroughput), float32(l.Profile.MaxBatchedTokens), float32(l.Profile.MaxNumSeqs), float32(l.Profile.KVCapacityTokens), float32(l.Profile.SpeedFactor),
		float32(p.TTFT), float32(p.TPOT), float32(p.TTFT - p.Queue - p.Admission),
		float32(p.Queue), float32(p.Admission), float32(p.Interference),
	}
	for i, x := range v {
		if x != x {
			v[i] = nan32
		}
	}
	return v
}

// Wide writes v as float64 into dst, which must hold Width numbers.
func (v *Vector) Wide(dst []float64) {
	for i, x := range v {
		dst[i] = float64(x)
	}
}

// Prior reads the prior back out of v. It is rounded to float32, so it is
// what a residual must be multiplied with when only the vector is left.
func (v *Vector) Prior() Prior {
	return Prior{
		TTFT: Seconds(v[ColumnPriorTTFT]), TPOT: Seconds(v[ColumnPriorTPOT]),
		Queue: Seconds(v[ColumnPriorQueue]), Admission: Seconds(v[ColumnPriorAdmission]),
		Interference: Seconds(v[ColumnPriorInterference]),
	}
}

// VectorSize is the length of an encoded vector in bytes.
const VectorSize = 4 * Width

// Append appends v in little-endian IEEE 754 form, VectorSize bytes.
func (v *Vector) Append(dst []byte) []byte {
	for _, x := range v {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}

// DecodeVector reads what Append wrote.
func DecodeVector(b []byte) (Vector, error) {
	var v Vector
	if len(b) != VectorSize {
		return v, fmt.Errorf("a vector is %d bytes, got %d", VectorSize, len(b))
	}
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}

// Equal reports whether a and b are the same bits.
func (v *Vector) Equal(w *Vector) bool {
	for i := range v {
		if math.Float32bits(v[i]) != math.Float32bits(w[i]) {
			return false
		}
	}
	return true
}
