package predictor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// Field numbers of latency.v1. The columns of a response are consecutive.
const (
	requestLLM, requestSchema, requestRows, requestVectors = 1, 2, 3, 4

	responseBundle, responseValidatedAt, responseMaxAge, responseStatus = 1, 2, 3, 4
	responseColumns, columns                                            = 5, 9
)

// question is a ForecastRequest as a client writes it.
type question struct {
	llm     string
	vectors []feature.Vector
}

func (q *question) written() {}

func (q *question) numbers() int { return 4 * feature.Width * len(q.vectors) }

func (q *question) size() int {
	n := 1 + 8
	if q.llm != "" {
		n += 1 + protowire.SizeBytes(len(q.llm))
	}
	if len(q.vectors) > 0 {
		n += 1 + protowire.SizeVarint(uint64(len(q.vectors))) + 1 + protowire.SizeBytes(q.numbers())
	}
	return n
}

func (q *question) appendTo(b []byte) []byte {
	if q.llm != "" {
		b = protowire.AppendTag(b, requestLLM, protowire.BytesType)
		b = protowire.AppendString(b, q.llm)
	}
	b = protowire.AppendTag(b, requestSchema, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, wireSchema(feature.Schema))
	if len(q.vectors) > 0 {
		b = protowire.AppendTag(b, requestRows, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(len(q.vectors)))
		b = protowire.AppendTag(b, requestVectors, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(q.numbers()))
		for i := range q.vectors {
			b = q.vectors[i].Append(b)
		}
	}
	return b
}

// exchange is one call as a server sees it: a ForecastRequest that it reads,
// and the ForecastResponse that it writes. It is used again for other calls.
type exchange struct {
	llm     string
	schema  uint64
	rows    uint32
	numbers []float32
	vectors []feature.Vector // the numbers as rows, once they are checked

	info     Info
	out      []feature.Forecast
	patience patience   // of a caller that speaks frames
	pool     *sync.Pool // that it goes back to once the answer is written
}

func (x *exchange) written() { x.pool.Put(x) }

func (x *exchange) readFrom(b []byte) error {
	llm := []byte(nil)
	x.schema, x.rows, x.numbers = 0, 0, x.numbers[:0]
	err := fields(b, func(f field) error {
		switch {
		case f.is(requestLLM, protowire.BytesType):
			llm = f.bytes
		case f.is(requestSchema, protowire.Fixed64Type):
			x.schema = f.number
		case f.is(requestRows, protowire.VarintType):
			x.rows = uint32(f.number)
		case f.is(requestVectors, protowire.BytesType):
			if len(f.bytes)%4 != 0 {
				return errors.New("the vectors end within a number")
			}
			x.numbers = slices.Grow(x.numbers, len(f.bytes)/4)
			for p := f.bytes; len(p) > 0; p = p[4:] {
				x.numbers = append(x.numbers, math.Float32frombits(binary.LittleEndian.Uint32(p)))
			}
		case f.is(requestVectors, protowire.Fixed32Type):
			x.numbers = append(x.numbers, math.Float32frombits(uint32(f.number)))
		}
		return nil
	})
	if x.llm != string(llm) { // it is mostly that of the call before
		x.llm = string(llm)
	}
	return err
}

func (x *exchange) size() int {
	n := 0
	if x.info.Bundle != 0 {
		n += 1 + protowire.SizeVarint(uint64(x.info.Bundle))
	}
	if at := x.info.ValidatedAt.UnixNano(); at != 0 {
		n += 1 + protowire.SizeVarint(uint64(at))
	}
	if x.info.MaxAge != 0 {
		n += 1 + 8
	}
	if rows := len(x.out); rows > 0 {
		n += 1 + protowire.SizeBytes(rows) + columns*(1+protowire.SizeBytes(8*rows))
	}
	return n
}

func (x *exchange) appendTo(b []byte) []byte {
	if x.info.Bundle != 0 {
		b = protowire.AppendTag(b, responseBundle, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(x.info.Bundle))
	}
	if at := x.info.ValidatedAt.UnixNano(); at != 0 {
		b = protowire.AppendTag(b, responseValidatedAt, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(at))
	}
	if x.info.MaxAge != 0 {
		b = protowire.AppendTag(b, responseMaxAge, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, math.Float64bits(x.info.MaxAge.Seconds()))
	}
	if rows := len(x.out); rows > 0 {
		b = protowire.AppendTag(b, responseStatus, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(rows))
		for i := range x.out {
			b = append(b, byte(rowStatus(&x.out[i]))) // every status is a varint of one byte
		}
		for c := range columns {
			b = protowire.AppendTag(b, protowire.Number(responseColumns+c), protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(8*rows))
			for i := range x.out {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(cell(&x.out[i], c)))
			}
		}
	}
	return b
}

// cell is what stands in a row and one of the columns of a response.
func cell(f *feature.Forecast, column int) float64 {
	switch column {
	case 0:
		return float64(f.TTFT.P50)
	case 1:
		return float64(f.TTFT.P90)
	case 2:
		return float64(f.TPOT.P50)
	case 3:
		return float64(f.TPOT.P90)
	case 4:
		return f.Residual.TTFT.P50
	case 5:
		return f.Residual.TTFT.P90
	case 6:
		return f.Residual.TPOT.P50
	case 7:
		return f.Residual.TPOT.P90
	default:
		return f.Support
	}
}

// setCell is the opposite of cell.
func setCell(f *feature.Forecast, column int, x float64) {
	switch column {
	case 0:
		f.TTFT.P50 = feature.Seconds(x)
	case 1:
		f.TTFT.P90 = feature.Seconds(x)
	case 2:
		f.TPOT.P50 = feature.Seconds(x)
	case 3:
		f.TPOT.P90 = feature.Seconds(x)
	case 4:
		f.Residual.TTFT.P50 = x
	case 5:
		f.Residual.TTFT.P90 = x
	case 6:
		f.Residual.TPOT.P50 = x
	case 7:
		f.Residual.TPOT.P90 = x
	default:
		f.Support = x
	}
}

// reply is a ForecastResponse as a client reads it: straight into out, which
// holds as many forecasts as there were rows.
type reply struct {
	out                         []feature.Forecast
	bundle, validatedAtUnixNano int64
	maxAgeSeconds               float64
	statuses                    []latencyv1.RowStatus
	rows                        [columns]int // that each column had
	impossible                  bool         // a row is said to be a forecast and is no latency
}

func (r *reply) readFrom(b []byte) error {
	*r = reply{out: r.out, statuses: r.statuses[:0]}
	err := fields(b, func(f field) error {
		switch {
		case f.is(responseBundle, protowire.VarintType):
			r.bundle = int64(f.number)
		case f.is(responseValidatedAt, protowire.VarintType):
			r.validatedAtUnixNano = int64(f.number)
		case f.is(responseMaxAge, protowire.Fixed64Type):
			r.maxAgeSeconds = math.Float64frombits(f.number)
		case f.is(responseStatus, protowire.VarintType):
			r.statuses = append(r.statuses, latencyv1.RowStatus(f.number))
		case f.is(responseStatus, protowire.BytesType):
			for p := f.bytes; len(p) > 0; {
				status, n := protowire.ConsumeVarint(p)
				if n < 0 {
					return protowire.ParseError(n)
				}
				r.statuses = append(r.statuses, latencyv1.RowStatus(status))
				p = p[n:]
			}
		case f.column() < 0:
		case f.kind == protowire.Fixed64Type:
			return r.cell(f.column(), f.number)
		case f.kind == protowire.BytesType:
			if len(f.bytes)%8 != 0 {
				return errors.New("a column ends within a number")
			}
			for p := f.bytes; len(p) > 0; p = p[8:] {
				if err := r.cell(f.column(), binary.LittleEndian.Uint64(p)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range append(r.rows[:], len(r.statuses)) {
		if n != len(r.out) {
			return fmt.Errorf("the predictor answered %d rows for %d", n, len(r.out))
		}
	}
	for i, s := range r.statuses {
		if s != latencyv1.RowStatus_ROW_STATUS_OK && s != latencyv1.RowStatus_ROW_STATUS_UNSUPPORTED {
			r.out[i] = feature.NoForecast
		} else if !r.out[i].Known() {
			r.impossible = true // not to be taken for a row that can't be forecast
		}
	}
	return nil
}

func (r *reply) cell(column int, bits uint64) error {
	row := r.rows[column]
	if row >= len(r.out) {
		return fmt.Errorf("the predictor answered more rows than %d", len(r.out))
	}
	setCell(&r.out[row], column, math.Float64frombits(bits))
	r.rows[column]++
	return nil
}
