package predictor_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// connect opens a connection that says begin first.
func connect(t *testing.T, addr, begin string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(addr, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, begin); err != nil {
		t.Fatal(err)
	}
	return conn
}

// frame is one frame by the words of the format.
func frame(call uint32, value uint64, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, call)
	return append(binary.LittleEndian.AppendUint64(b, value), body...)
}

func readFrame(t *testing.T, from io.Reader) (call uint32, value uint64, body []byte) {
	t.Helper()
	head := make([]byte, 16)
	if _, err := io.ReadFull(from, head); err != nil {
		t.Fatal(err)
	}
	body = make([]byte, binary.LittleEndian.Uint32(head))
	if _, err := io.ReadFull(from, body); err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint64(head[8:]), body
}

const hello = "SPWFRM1\n"

// A connection that speaks frames is answered by the words of the format,
// whatever it asks.
func TestFrames(t *testing.T) {
	from, registry := newShelf(), prometheus.NewRegistry()
	s := predictor.New(predictor.Config{MaxRows: 8, Registerer: registry}, from)
	b := bundleOf(t, 0.2)
	from.publish(3, encoded(t, b))
	s.Sync(t.Context())
	addr := socket(t)
	serve(t, s, addr)
	dialReady(t, addr)
	conn := connect(t, addr, hello)
	greeting := make([]byte, len(hello))
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != hello {
		t.Fatalf("the server says %q, %v", greeting, err)
	}
	vectors := vectorsOf(1, 1)
	request := func(schema uint64, rows int) []byte {
		data, err := proto.Marshal(&latencyv1.ForecastRequest{Llm: llm, Schema: schema, Rows: uint32(rows), Vectors: vectors[0][:]})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	past, future := uint64(time.Now().Add(-time.Second).UnixNano()), uint64(time.Now().Add(time.Hour).UnixNano())
	for i, c := range []struct {
		name  string
		until uint64
		body  []byte
		code  codes.Code
	}{
		{"fine", 0, request(wireSchema(), 1), codes.OK},
		{"fine for an hour", future, request(wireSchema(), 1), codes.OK},
		{"too late", past, request(wireSchema(), 1), codes.DeadlineExceeded},
		{"another schema", 0, request(1, 1), codes.FailedPrecondition},
		{"too few numbers", 0, request(wireSchema(), 2), codes.InvalidArgument},
		{"no message", 0, []byte{0xff}, codes.InvalidArgument},
		{"nothing", 0, nil, codes.FailedPrecondition},
		{"fine again", 0, request(wireSchema(), 1), codes.OK},
	} {
		if _, err := conn.Write(frame(uint32(i), c.until, c.body)); err != nil {
			t.Fatal(err)
		}
		call, code, body := readFrame(t, conn)
		if call != uint32(i) || codes.Code(code) != c.code {
			t.Errorf("%s: call %d ends with %v, want %d with %v", c.name, call, codes.Code(code), i, c.code)
		}
		if code != 0 {
			continue
		}
		var response latencyv1.ForecastResponse
		if err := proto.Unmarshal(body, &response); err != nil || response.Bundle != 3 || len(response.TtftP50) != 1 ||
			feature.Seconds(response.TtftP50[0]) != forecastsOf(t, b, vectors)[0].TTFT.P50 {
			t.Errorf("%s: answered %v, %v", c.name, &response, err)
		}
	}
	for status, want := range map[string]float64{"ok": 3, "expired": 1, "schema": 2, "invalid": 2} {
		if got := value(t, registry, "spillway_predictor_requests_total", "status="+status); got != want {
			t.Errorf("%v calls are counted as %s, want %v", got, status, want)
		}
	}
	// A frame too large for any request ends the connection, and only that.
	if _, err := conn.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1<<31), 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after an absurd frame: %d bytes, %v, want the end", n, err)
	}
	if got := value(t, registry, "spillway_predictor_connections_dropped_total", "reason=oversized"); got != 1 {
		t.Errorf("%v connections are counted as ended for an oversized frame, want 1", got)
	}
	if _, err := dialReady(t, addr).Forecast(t.Context(), llm, vectors, make([]feature.Forecast, 1)); err != nil {
		t.Errorf("another connection: %v", err)
	}
}

// What begins like nothing known is closed, and what says nothing holds up
// nobody.
func TestStrangersAtTheDoor(t *testing.T) {
	from, registry := newShelf(), prometheus.NewRegistry()
	s := predictor.New(predictor.Config{Registerer: registry}, from)
	addr := socket(t)
	serve(t, s, addr)
	dialReady(t, addr)
	silent := connect(t, addr, "SPW")
	stranger := connect(t, addr, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := io.ReadAll(stranger); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger is not sent away: %v", err)
	}
	if _, err := dialReady(t, addr).Status(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one that says nothing: %d bytes, %v, want the end", n, err)
	}
	if got := value(t, registry, "spillway_predictor_connections_dropped_total", "reason=silent"); got != 1 {
		t.Errorf("%v connections are counted as silent, want 1", got)
	}
}

// Many calls at once on one connection, most of them given up on the way: each
// that is answered is answered with its own forecasts, and none is written to
// after it has returned, which the race detector would see.
func TestManyCallsOnOneConnection(t *testing.T) {
	from := newShelf()
	s := predictor.New(predictor.Config{}, from)
	b := bundleOf(t, 0.2)
	from.publish(1, encoded(t, b))
	s.Sync(t.Context())
	addr := socket(t)
	serve(t, s, addr)
	client := dialReady(t, addr)
	all := vectorsOf(1, 400)
	want := forecastsOf(t, b, all)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(caller), 1))
			for range 40 {
				from := rng.IntN(len(all))
				n := rng.IntN(len(all) - from)
				out := make([]feature.Forecast, n)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(3000))*time.Microsecond)
				if rng.IntN(2) == 0 {
					ctx = t.Context()
				}
				_, err := client.Forecast(ctx, llm, all[from:from+n], out)
				cancel()
				switch {
				case err == nil && !slices.Equal(want[from:from+n], out):
					t.Error("the forecasts of another call")
				case err != nil && !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
				clear(out)
			}
		})
	}
	callers.Wait()
}
