package featurestore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A row of 100 candidates has 4,300 numbers in arrays. The driver's own array
// codec allocates for each of them, so real[] and double precision[] get one
// that copies bits, for the slices the store uses; anything else goes to the
// driver's.
func registerFloatArrays(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	for _, t := range []struct {
		name    string
		oid     uint32
		element pgtype.Type
	}{
		{"_float4", pgtype.Float4ArrayOID, pgtype.Type{Name: "float4", OID: pgtype.Float4OID, Codec: pgtype.Float4Codec{}}},
		{"_float8", pgtype.Float8ArrayOID, pgtype.Type{Name: "float8", OID: pgtype.Float8OID, Codec: pgtype.Float8Codec{}}},
	} {
		m.RegisterType(&pgtype.Type{Name: t.name, OID: t.oid, Codec: floatArrayCodec{&pgtype.ArrayCodec{ElementType: &t.element}}})
	}
	return nil
}

type floatArrayCodec struct{ *pgtype.ArrayCodec }

func (c floatArrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []float32:
			if oid == pgtype.Float4ArrayOID {
				return encodeFloats{}
			}
		case []float64:
			if oid == pgtype.Float8ArrayOID {
				return encodeFloats{}
			}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

func (c floatArrayCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if format == pgtype.BinaryFormatCode {
		switch target.(type) {
		case *[]float32:
			if oid == pgtype.Float4ArrayOID {
				return scanFloats{}
			}
		case *[]float64:
			if oid == pgtype.Float8ArrayOID {
				return scanFloats{}
			}
		}
	}
	return c.ArrayCodec.PlanScan(m, oid, format, target)
}

// The binary form of an array (array_send in PostgreSQL's arrayfuncs.c):
// number of dimensions, whether there are NULLs, the element's type; for each
// dimension its length and lower bound; for each element its length, -1 for
// NULL, and its bytes. All big-endian.
const arrayHeader = 5 * 4

func appendArrayHeader(b []byte, element uint32, n int) []byte {
	if n == 0 {
		b = binary.BigEndian.AppendUint64(b, 0) // no dimension, no NULLs
		return binary.BigEndian.AppendUint32(b, element)
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, element)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1)
}

type encodeFloats struct{}

func (encodeFloats) Encode(value any, b []byte) ([]byte, error) {
	switch v := value.(type) {
	case []float32:
		b = appendArrayHeader(b, pgtype.Float4OID, len(v))
		for _, x := range v {
			b = binary.BigEndian.AppendUint32(b, 4)
			b = binary.BigEndian.AppendUint32(b, math.Float32bits(x))
		}
	case []float64:
		b = appendArrayHeader(b, pgtype.Float8OID, len(v))
		for _, x := range v {
			b = binary.BigEndian.AppendUint32(b, 8)
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b, nil
}

type scanFloats struct{}

var errArray = errors.New("not a one-dimensional array of floats")

func (scanFloats) Scan(src []byte, target any) error {
	switch t := target.(type) {
	case *[]float32:
		v, err := readArray(src, 4, *t, float32(feature.Unknown), func(b []byte) float32 {
			return math.Float32frombits(binary.BigEndian.Uint32(b))
		})
		*t = v
		return err
	case *[]float64:
		v, err := readArray(src, 8, *t, feature.Unknown, func(b []byte) float64 {
			return math.Float64frombits(binary.BigEndian.Uint64(b))
		})
		*t = v
		return err
	}
	return errArray
}

// readArray reads elements of the given width into dst; NULL becomes null.
func readArray[T any](src []byte, width int, dst []T, null T, element func([]byte) T) ([]T, error) {
	if src == nil {
		return nil, nil
	}
	if len(src) < 3*4 {
		return nil, errArray
	}
	dimensions := binary.BigEndian.Uint32(src)
	if dimensions == 0 {
		return []T{}, nil
	}
	if dimensions != 1 || len(src) < arrayHeader {
		return nil, errArray
	}
	n := int(binary.BigEndian.Uint32(src[12:]))
	src = src[arrayHeader:]
	if n < 0 || n > len(src)/4 {
		return nil, errArray
	}
	dst = dst[:0]
	if cap(dst) < n {
		dst = make([]T, 0, n)
	}
	for range n {
		if len(src) < 4 {
			return nil, errArray
		}
		length := int32(binary.BigEndian.Uint32(src))
		src = src[4:]
		switch {
		case length == -1:
			dst = append(dst, null)
		case int(length) == width && len(src) >= width:
			dst = append(dst, element(src))
			src = src[width:]
		default:
			return nil, errArray
		}
	}
	return dst, nil
}
