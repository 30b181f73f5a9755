package predictor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// A peer that asks and never reads the answers neither makes the server grow
// nor stays.
func TestPeerThatReadsNothing(t *testing.T) {
	from, registry := newShelf(), prometheus.NewRegistry()
	s := predictor.New(predictor.Config{Registerer: registry}, from)
	from.publish(1, encoded(t, bundleOf(t, 0.2)))
	s.Sync(t.Context())
	addr := socket(t)
	serve(t, s, addr)
	dialReady(t, addr)
	conn := connect(t, addr, hello)
	vector := vectorsOf(1, 1)[0]
	body, err := proto.Marshal(&latencyv1.ForecastRequest{Llm: llm, Schema: wireSchema(), Rows: 1, Vectors: vector[:]})
	if err != nil {
		t.Fatal(err)
	}
	before, most := runtime.NumGoroutine(), 0
	for call := uint32(0); err == nil; call++ {
		_, err = conn.Write(frame(call, 0, body))
		most = max(most, runtime.NumGoroutine())
		if call == 100_000 {
			t.Fatal("100,000 calls were read, and no answer")
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays")
	}
	if got := value(t, registry, "spillway_predictor_connections_dropped_total", "reason=unread"); got != 1 {
		t.Errorf("%v connections are counted as unread, want 1", got)
	}
	if most > before+1100 {
		t.Errorf("%d goroutines work for one connection", most-before)
	}
}

// impostor listens at addr, greets whoever speaks frames and then does as told.
func impostor(t *testing.T, addr string, then func(net.Conn)) {
	t.Helper()
	listener, err := net.Listen("unix", strings.TrimPrefix(addr, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				begin := make([]byte, len(hello))
				if _, err := io.ReadFull(conn, begin); err != nil || string(begin) != hello {
					return
				}
				if _, err := io.WriteString(conn, hello); err == nil {
					then(conn)
				}
			}()
		}
	}()
}

// A server that is hung when it is dialled is down, not one that speaks gRPC
// alone, and is asked for frames again as soon as it goes on.
func TestServerThatSaysNothing(t *testing.T) {
	addr := socket(t)
	listener, err := net.Listen("unix", strings.TrimPrefix(addr, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, addr)
	hung, err := listener.Accept() // of frames, or of gRPC, which speaks first
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	other, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	again, err := listener.Accept() // one of them was given up
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	if _, err := client.Forecast(ctx, llm, vectorsOf(1, 1), make([]feature.Forecast, 1)); !errors.Is(err, predictor.ErrDown) || time.Since(began) > time.Second {
		t.Errorf("a hung server is asked for %v: %v, want ErrDown at once", time.Since(began), err)
	}
	listener.Close()
	impostor(t, addr, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }) // speaks frames alone
	within, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if err := client.Ready(within); err != nil {
		t.Errorf("a server that goes on is not noticed: %v", err)
	}
}

// A server that greets and hangs up is asked again as rarely as one that is not
// there.
func TestServerThatHangsUp(t *testing.T) {
	addr := socket(t)
	links := make(chan time.Time, 64)
	impostor(t, addr, func(net.Conn) {
		select {
		case links <- time.Now():
		default:
		}
	})
	client, err := predictor.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	first := <-links
	for range 3 {
		<-links
	}
	if took := time.Since(first); took < 300*time.Millisecond {
		t.Errorf("3 more connections within %v", took)
	}
}

// No answer is a forecast but one that says so.
func TestAnswersThatAreNone(t *testing.T) {
	for name, value := range map[string]uint64{"beyond 32 bits": 1 << 32, "no code of gRPC": 99, "no message": 0} {
		t.Run(name, func(t *testing.T) {
			addr := socket(t)
			impostor(t, addr, func(conn net.Conn) {
				head := make([]byte, 16)
				if _, err := io.ReadFull(conn, head); err == nil {
					_, _ = conn.Write(frame(1, value, []byte{0xff}))
				}
				_, _ = io.Copy(io.Discard, conn)
			})
			client := dialReady(t, addr)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			info, err := client.Forecast(ctx, llm, vectorsOf(1, 1), make([]feature.Forecast, 1))
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("answered %+v, %v", info, err)
			}
		})
	}
}
