package featurestore

import (
	"bytes"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"
)

// Our codec writes the bytes the driver's writes, and reads them back. The
// empty array has two forms, which the server reads alike; the suite covers it.
func TestFloatArrayIsTheDrivers(t *testing.T) {
	m := pgtype.NewMap()
	rapid.Check(t, func(t *rapid.T) {
		single := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float32 {
			return math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		}), 1, 30).Draw(t, "real")
		double := rapid.SliceOfN(rapid.Float64(), 1, 30).Draw(t, "double precision")
		for _, c := range []struct {
			oid   uint32
			value any
		}{{pgtype.Float4ArrayOID, single}, {pgtype.Float8ArrayOID, double}} {
			want, err := m.Encode(c.oid, pgtype.BinaryFormatCode, c.value, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := encodeFloats{}.Encode(c.value, nil)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("% x, the driver writes % x (%v)", got, want, err)
			}
		}
		b, _ := encodeFloats{}.Encode(single, nil)
		var back []float32
		if err := (scanFloats{}).Scan(b, &back); err != nil || len(back) != len(single) {
			t.Fatalf("%v, want %v: %v", back, single, err)
		}
		again, _ := encodeFloats{}.Encode(back, nil)
		if !bytes.Equal(b, again) {
			t.Fatal("bits changed on the way")
		}
	})
}

func FuzzFloatArray(f *testing.F) {
	for _, v := range [][]float64{{}, {1}, {math.NaN(), math.Copysign(0, -1), math.Inf(1)}} {
		b, _ := encodeFloats{}.Encode(v, nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var double []float64
		var single []float32
		if (scanFloats{}).Scan(b, &double) == nil && len(double) > len(b) {
			t.Fatal("more elements than bytes")
		}
		_ = (scanFloats{}).Scan(b, &single)
	})
}
