package predictor

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

func float32s(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		if out[i] = float32(rng.NormFloat64() * 1e3); rng.IntN(5) == 0 {
			out[i] = float32(math.NaN())
		}
	}
	return out
}

// requestOf is what protobuf makes of a question.
func requestOf(q *question) *latencyv1.ForecastRequest {
	r := &latencyv1.ForecastRequest{Llm: q.llm, Schema: wireSchema(feature.Schema), Rows: uint32(len(q.vectors))}
	for i := range q.vectors {
		r.Vectors = append(r.Vectors, q.vectors[i][:]...)
	}
	return r
}

// responseOf is what protobuf makes of an answer.
func responseOf(info Info, forecasts []feature.Forecast) *latencyv1.ForecastResponse {
	r := &latencyv1.ForecastResponse{Bundle: info.Bundle, ValidatedAtUnixNanos: info.ValidatedAt.UnixNano(), MaxAgeSeconds: info.MaxAge.Seconds()}
	for i := range forecasts {
		f := &forecasts[i]
		r.Status = append(r.Status, rowStatus(f))
		r.TtftP50, r.TtftP90 = append(r.TtftP50, float64(f.TTFT.P50)), append(r.TtftP90, float64(f.TTFT.P90))
		r.TpotP50, r.TpotP90 = append(r.TpotP50, float64(f.TPOT.P50)), append(r.TpotP90, float64(f.TPOT.P90))
		r.ResidualTtftP50, r.ResidualTtftP90 = append(r.ResidualTtftP50, f.Residual.TTFT.P50), append(r.ResidualTtftP90, f.Residual.TTFT.P90)
		r.ResidualTpotP50, r.ResidualTpotP90 = append(r.ResidualTpotP50, f.Residual.TPOT.P50), append(r.ResidualTpotP90, f.Residual.TPOT.P90)
		r.Support = append(r.Support, f.Support)
	}
	return r
}

// bytesOf is what the codec writes.
func bytesOf(t testing.TB, message any) []byte {
	t.Helper()
	slices, err := wire.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	defer slices.Free()
	return slices.Materialize()
}

// What the codec writes are the bytes that protobuf writes.
func TestCodecWritesProtobuf(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		rows := rapid.IntRange(0, 200).Draw(rt, "rows")
		q := &question{llm: rapid.StringN(0, 300, 300).Draw(rt, "llm"), vectors: make([]feature.Vector, rows)}
		for i := range q.vectors {
			copy(q.vectors[i][:], float32s(rng, feature.Width))
		}
		want, err := proto.Marshal(requestOf(q))
		if err != nil {
			rt.Fatal(err)
		}
		if got := bytesOf(t, q); !bytes.Equal(got, want) {
			rt.Fatalf("a request of %d rows is written as\n%x, protobuf writes\n%x", rows, got, want)
		}

		x := drawn(rt, rng, rows)
		if want, err = proto.Marshal(responseOf(x.info, x.out)); err != nil {
			rt.Fatal(err)
		}
		if got := bytesOf(t, x); !bytes.Equal(got, want) {
			rt.Fatalf("a response of %d rows is written as\n%x, protobuf writes\n%x", rows, got, want)
		}
	})
}

// drawn is an exchange with an answer.
func drawn(rt *rapid.T, rng *rand.Rand, rows int) *exchange {
	x := new(Server).exchange()
	x.info = Info{
		Bundle:      rapid.Int64().Draw(rt, "bundle"),
		ValidatedAt: time.Unix(0, rapid.Int64().Draw(rt, "validated")),
		MaxAge:      time.Duration(rapid.Int64().Draw(rt, "max age")),
	}
	x.out = make([]feature.Forecast, rows)
	for i := range x.out {
		if x.out[i] = feature.NoForecast; rng.IntN(4) > 0 {
			for c := range columns {
				setCell(&x.out[i], c, rng.NormFloat64())
			}
		}
	}
	return x
}

// A client reads what protobuf wrote, packed or not, in any order of fields.
func TestCodecReadsProtobuf(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		x := drawn(rt, rng, rapid.IntRange(0, 50).Draw(rt, "rows"))
		response := responseOf(x.info, x.out)
		want := slices.Clone(x.out)
		for i := range response.Status {
			if s := rapid.SampledFrom([]latencyv1.RowStatus{1, 1, 1, 0, 2, 3, 99}).Draw(rt, "status"); s != 1 {
				response.Status[i] = s
				if s != latencyv1.RowStatus_ROW_STATUS_UNSUPPORTED {
					want[i] = feature.NoForecast
				}
			}
		}
		// Each half of the message is a message, and so is one after the other.
		first := &latencyv1.ForecastResponse{Support: response.Support, TtftP50: response.TtftP50}
		response.Support, response.TtftP50 = nil, nil
		data, err := proto.Marshal(first)
		if err != nil {
			rt.Fatal(err)
		}
		if data, err = (proto.MarshalOptions{}).MarshalAppend(data, response); err != nil {
			rt.Fatal(err)
		}
		r := &reply{out: make([]feature.Forecast, len(want))}
		if err := wire.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, r); err != nil {
			rt.Fatal(err)
		}
		got := infoOf(r.bundle, r.validatedAtUnixNano, r.maxAgeSeconds)
		if got.Bundle != x.info.Bundle || !got.ValidatedAt.Equal(x.info.ValidatedAt) {
			rt.Fatalf("read %+v, written was %+v", got, x.info)
		}
		for i := range want {
			for c := range columns {
				if a, b := cell(&r.out[i], c), cell(&want[i], c); a != b && (a == a || b == b) {
					rt.Fatalf("row %d column %d is read as %v, want %v", i, c, a, b)
				}
			}
		}
		short := &reply{out: make([]feature.Forecast, len(want)+1)}
		if err := short.readFrom(data); err == nil {
			rt.Fatal("one row fewer than asked for is taken")
		}
	})
}

// Whatever protobuf accepts as a request the codec reads as the same; nothing
// makes it panic.
func FuzzReadRequest(f *testing.F) {
	q := &question{llm: "qwen3-32b", vectors: make([]feature.Vector, 3)}
	f.Add(bytesOf(f, q))
	f.Add(bytesOf(f, q)[:100])
	f.Add([]byte("\x25\x00\x00\x80\x3f\x22\x04\x00\x00\x00\x40\x2a\x01\x00\x2b\x2c"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want latencyv1.ForecastRequest
		refused := proto.Unmarshal(data, &want)
		x := new(Server).exchange()
		err := wire.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, x)
		if refused != nil {
			return // also over text that is not UTF-8, which here names no LLM
		}
		if err != nil {
			t.Fatalf("protobuf takes it: %v", err)
		}
		same := slices.EqualFunc(x.numbers, want.Vectors, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
		if x.llm != want.Llm || x.schema != want.Schema || x.rows != want.Rows || !same {
			t.Fatalf("read %q %x %d %v, protobuf reads %v", x.llm, x.schema, x.rows, x.numbers, &want)
		}
	})
}

// Nothing that a predictor answers makes a client panic or write past its rows.
func FuzzReadResponse(f *testing.F) {
	x := new(Server).exchange()
	x.info, x.out = Info{Bundle: 7, ValidatedAt: time.Unix(5, 0), MaxAge: time.Hour}, make([]feature.Forecast, 2)
	f.Add(bytesOf(f, x))
	f.Add([]byte("\x20\x01\x29\x00\x00\x00\x00\x00\x00\xf0\x3f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reply{out: make([]feature.Forecast, 2, 3)}
		beyond := &r.out[:3][2]
		err := wire.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, r)
		if *beyond != (feature.Forecast{}) {
			t.Fatal("wrote past its rows")
		}
		var want latencyv1.ForecastResponse
		if proto.Unmarshal(data, &want) == nil && len(want.Status) == 2 && len(want.Support) == 2 && err == nil && r.bundle != want.Bundle {
			t.Fatalf("bundle %d, protobuf reads %d", r.bundle, want.Bundle)
		}
	})
}

// A server's own part of a call: read, forecast, write. The rest is gRPC's.
func TestAnswerAllocations(t *testing.T) {
	q := &question{llm: "nobody's", vectors: make([]feature.Vector, 200)}
	data := bytesOf(t, q)
	x := new(Server).exchange()
	x.out = make([]feature.Forecast, 200)
	read := func() {
		if err := wire.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, x); err != nil {
			t.Error(err)
		}
	}
	write := func() {
		slices, err := wire.Marshal(x)
		if err != nil {
			t.Error(err)
		}
		slices.Free()
	}
	// The race detector empties pools now and then, hence the margins.
	if n := testing.AllocsPerRun(100, read); n > 3 {
		t.Errorf("%v allocations to read 200 rows, want at most 3", n)
	}
	if n := testing.AllocsPerRun(100, write); n > 3 {
		t.Errorf("%v allocations to write 200 rows, want at most 3", n)
	}
}

// Frames are the same however they arrive in pieces, and nothing makes their
// reader panic or read on after one that is too large.
func FuzzReadFrames(f *testing.F) {
	one := append(header{3, 7, 9}.appendTo(nil), "abc"...)
	f.Add(slices.Concat(one, one, one[:10]), uint8(5))
	f.Add(header{1 << 30, 1, 1}.appendTo(nil), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		const most = 1000
		in := frameReader{from: pieces{bytes.NewReader(data), int(piece) + 1}, most: most}
		for rest := data; ; {
			h, body, err := in.read()
			if len(rest) < frameHeader || headerOf(rest).size > most || len(rest) < frameHeader+int(headerOf(rest).size) {
				if err == nil {
					t.Fatalf("a frame from %d bytes that are none", len(rest))
				}
				return
			}
			want := headerOf(rest)
			end := frameHeader + int(want.size)
			if err != nil || h != want || !bytes.Equal(body, rest[frameHeader:end]) {
				t.Fatalf("read %v %x, %v, want %v %x", h, body, err, want, rest[frameHeader:end])
			}
			rest = rest[end:]
		}
	})
}

// pieces reads at most so many bytes at once.
type pieces struct {
	io.Reader
	most int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.most)]) }
