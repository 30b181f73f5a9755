package predictor_test

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// asker is what Client and Local share.
type asker interface {
	Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (predictor.Info, error)
	Status(ctx context.Context) (predictor.Status, error)
	Ready(ctx context.Context) error
	Close() error
}

// askers runs the test over a Unix socket, over TCP and in process, with
// either evaluator. publish and what follows it may change the shelf.
func askers(t *testing.T, test func(t *testing.T, ask asker, s *predictor.Server, from *shelf)) {
	for _, evaluator := range []predictor.Evaluator{predictor.Leaves, predictor.Flat} {
		start := func() (*predictor.Server, *shelf) {
			from := newShelf()
			return predictor.New(predictor.Config{Evaluator: evaluator}, from), from
		}
		t.Run("unix "+string(evaluator), func(t *testing.T) {
			s, from := start()
			addr := socket(t)
			serve(t, s, addr)
			test(t, dialReady(t, addr), s, from)
		})
		t.Run("tcp "+string(evaluator), func(t *testing.T) {
			s, from := start()
			addr := freePort(t)
			serve(t, s, addr)
			test(t, dialReady(t, addr), s, from)
		})
		t.Run("in process "+string(evaluator), func(t *testing.T) {
			s, from := start()
			test(t, predictor.InProcess(s), s, from)
		})
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// sameForecasts compares bits, but one NaN with another.
var sameForecasts = cmp.Comparer(func(a, b feature.Seconds) bool {
	return a == b || feature.IsUnknown(a) && feature.IsUnknown(b)
})

func TestForecastIsThatOfTheBundle(t *testing.T) {
	askers(t, func(t *testing.T, ask asker, s *predictor.Server, from *shelf) {
		b := bundleOf(t, 0.2)
		from.publish(3, encoded(t, b))
		s.Sync(t.Context())
		for _, rows := range []int{0, 1, 16, 1000, 5000} {
			vectors := vectorsOf(uint64(rows), rows)
			for i := 3; i < rows; i += 7 {
				vectors[i][feature.ColumnPriorTTFT] = float32(math.NaN())
			}
			out := make([]feature.Forecast, rows)
			info, err := ask.Forecast(t.Context(), llm, vectors, out)
			if err != nil {
				t.Fatalf("%d rows: %v", rows, err)
			}
			if diff := cmp.Diff(forecastsOf(t, b, vectors), out, sameForecasts, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("%d rows (-bundle +predictor):\n%s", rows, diff)
			}
			want := from.published[llm]
			if info.Bundle != 3 || !info.ValidatedAt.Equal(want.ValidatedAt) || info.MaxAge != want.MaxAge {
				t.Errorf("info %+v, want that of %+v", info, want)
			}
		}
		got, err := ask.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.LLMs) != 1 || got.LLMs[0].State != predictor.Serving || got.LLMs[0].Bundle != 3 || got.LLMs[0].Published != 3 || got.Schema != feature.Schema {
			t.Errorf("status %+v", got)
		}
	})
}

func TestForecastErrors(t *testing.T) {
	askers(t, func(t *testing.T, ask asker, s *predictor.Server, from *shelf) {
		vectors, out := vectorsOf(1, 4), make([]feature.Forecast, 4)
		if _, err := ask.Forecast(t.Context(), llm, vectors, out); !errors.Is(err, predictor.ErrUntrained) {
			t.Errorf("nothing published: error %v, want ErrUntrained", err)
		}
		from.publish(1, encoded(t, bundleOf(t, 0)))
		s.Sync(t.Context())
		if _, err := ask.Forecast(t.Context(), "another", vectors, out); !errors.Is(err, predictor.ErrUntrained) {
			t.Errorf("another LLM: error %v, want ErrUntrained", err)
		}
		expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		if _, err := ask.Forecast(expired, llm, vectors, out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deadline passed: error %v", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ask.Forecast(canceled, llm, vectors, out); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: error %v", err)
		}
	})
}

// wireSchema is this build's schema as it travels.
func wireSchema() (schema uint64) {
	for _, b := range feature.Schema {
		schema = schema<<8 | uint64(b)
	}
	return schema
}

// stubOf speaks the protocol without the client.
func stubOf(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestServerRefusesWhatIsNotVectors(t *testing.T) {
	from := newShelf()
	s := predictor.New(predictor.Config{MaxRows: 8}, from)
	from.publish(1, encoded(t, bundleOf(t, 0)))
	s.Sync(t.Context())
	addr := socket(t)
	serve(t, s, addr)
	client := dialReady(t, addr)
	stub := latencyv1.NewPredictorClient(stubOf(t, addr))
	schema := wireSchema()
	for _, c := range []struct {
		name    string
		request *latencyv1.ForecastRequest
		code    codes.Code
	}{
		{"fine", &latencyv1.ForecastRequest{Llm: llm, Schema: schema, Rows: 1, Vectors: make([]float32, feature.Width)}, codes.OK},
		{"another schema", &latencyv1.ForecastRequest{Llm: llm, Schema: schema + 1}, codes.FailedPrecondition},
		{"too few numbers", &latencyv1.ForecastRequest{Llm: llm, Schema: schema, Rows: 2, Vectors: make([]float32, feature.Width)}, codes.InvalidArgument},
		{"too many numbers", &latencyv1.ForecastRequest{Llm: llm, Schema: schema, Vectors: make([]float32, 1)}, codes.InvalidArgument},
		{"too many rows", &latencyv1.ForecastRequest{Llm: llm, Schema: schema, Rows: 9, Vectors: make([]float32, 9*feature.Width)}, codes.InvalidArgument},
		{"absurd rows", &latencyv1.ForecastRequest{Llm: llm, Schema: schema, Rows: math.MaxUint32}, codes.InvalidArgument},
		{"absurd message", &latencyv1.ForecastRequest{Llm: llm, Schema: schema, Rows: 8, Vectors: make([]float32, 100_000)}, codes.ResourceExhausted},
	} {
		_, err := stub.Forecast(t.Context(), c.request)
		if got := status.Code(err); got != c.code {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
	}
	out := make([]feature.Forecast, 9)
	if _, err := client.Forecast(t.Context(), llm, vectorsOf(1, 9), out); err == nil || !strings.Contains(err.Error(), "at most 8") {
		t.Errorf("error %v, want one about 8 rows", err)
	}
	response, err := stub.Status(t.Context(), &latencyv1.StatusRequest{Llm: "another"})
	if err != nil || len(response.Llms) != 1 || response.Llms[0].State != latencyv1.State_STATE_UNTRAINED {
		t.Errorf("status of an unknown LLM: %v, %v", response, err)
	}
}

// foreign answers every forecast as a predictor of another build would.
type foreign struct {
	latencyv1.UnimplementedPredictorServer
}

func (foreign) Forecast(context.Context, *latencyv1.ForecastRequest) (*latencyv1.ForecastResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, "another schema")
}

func TestClientTellsAnotherSchema(t *testing.T) {
	path := t.TempDir() + "/p.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	latencyv1.RegisterPredictorServer(server, foreign{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Stop()
	c := dialReady(t, "unix://"+path)
	if _, err := c.Forecast(t.Context(), llm, nil, nil); !errors.Is(err, predictor.ErrSchema) {
		t.Errorf("error %v, want ErrSchema", err)
	}
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("a predictor without Status gave one")
	}
}

// A dead predictor must cost a request nothing, and come back without help.
func TestKilledAndRestarted(t *testing.T) {
	from := newShelf()
	s := predictor.New(predictor.Config{}, from)
	from.publish(1, encoded(t, bundleOf(t, 0.1)))
	s.Sync(t.Context())
	vectors, out := vectorsOf(1, 4), make([]feature.Forecast, 4)
	for _, addr := range []string{socket(t), freePort(t)} {
		client := dial(t, addr)
		for range 3 {
			stop := serve(t, s, addr)
			ready(t, client)
			if _, err := client.Forecast(t.Context(), llm, vectors, out); err != nil {
				t.Fatalf("%s: %v", addr, err)
			}
			stop()
			for range 20 {
				began := time.Now()
				_, err := client.Forecast(t.Context(), llm, vectors, out)
				if !errors.Is(err, predictor.ErrDown) {
					t.Fatalf("%s: error %v, want ErrDown", addr, err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("%s: ErrDown took %v", addr, took)
				}
			}
		}
	}
}

func TestServeRefusesAddresses(t *testing.T) {
	s := predictor.New(predictor.Config{}, newShelf())
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	living := socket(t)
	serve(t, s, living)
	dialReady(t, living)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	for _, c := range []struct{ addr, want string }{
		{"nonsense", "want unix:///path or host:port"},
		{"unix://relative.sock", "absolute path"},
		{"unix://" + file, "no socket"},
		{living, "in use"},
		{port.Addr().String(), "in use"},
		{"unix:///no/such/folder/p.sock", "no such file"},
	} {
		if err := s.Serve(t.Context(), c.addr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", c.addr, err, c.want)
		}
	}
	if _, err := predictor.Dial("nonsense"); err == nil {
		t.Error("Dial took nonsense")
	}
}

func TestServeReplacesTheSocketOfADeadServer(t *testing.T) {
	path := t.TempDir() + "/p.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	serve(t, predictor.New(predictor.Config{}, newShelf()), "unix://"+path)
	dialReady(t, "unix://"+path)
}

func TestAllocations(t *testing.T) {
	vectors, out := vectorsOf(1, 200), make([]feature.Forecast, 200)
	start := func(evaluator predictor.Evaluator) *predictor.Server {
		from := newShelf()
		s := predictor.New(predictor.Config{Evaluator: evaluator}, from)
		from.publish(1, encoded(t, bundleOf(t, 0.1)))
		s.Sync(t.Context())
		return s
	}
	// The least of several: collections and the race detector empty pools now
	// and then, which is not what a call needs.
	measure := func(ask asker, rows int) float64 {
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(20, func() {
				if _, err := ask.Forecast(t.Context(), llm, vectors[:rows], out[:rows]); err != nil {
					t.Error(err)
				}
			}))
		}
		return least
	}
	if n := measure(predictor.InProcess(start(predictor.Flat)), 50); n >= 1 {
		t.Errorf("in process, flat: %v allocations a call, want 0", n)
	}
	s := start(predictor.Leaves)
	if n := measure(predictor.InProcess(s), 200); n > 24 { // leaves needs one for each head and 64 rows
		t.Errorf("in process, leaves: %v allocations a call, want at most 24", n)
	}
	s = start(predictor.Flat)
	addr := socket(t)
	serve(t, s, addr)
	client := dialReady(t, addr)
	if few, many := measure(client, 16), measure(client, 200); few > 8 || many > 8 {
		t.Errorf("over a Unix socket, both sides: %v allocations for 16 rows and %v for 200, want at most 8", few, many)
	}
	tcp := freePort(t)
	serve(t, s, tcp)
	if n := measure(dialReady(t, tcp), 16); n > 145 { // gRPC's own, but for less than ten
		t.Errorf("over TCP, both sides: %v allocations for 16 rows, want at most 145", n)
	}
}

// Each answer is wholly of the bundle that it names, and no call fails while
// bundles are swapped under load.
func TestSwapUnderLoad(t *testing.T) {
	from := newShelf()
	s := predictor.New(predictor.Config{}, from)
	vectors := vectorsOf(1, 40)
	bundles := []*bundle.Bundle{bundleOf(t, -0.2), bundleOf(t, 0.3)}
	var want [2][]feature.Forecast
	for i, b := range bundles {
		want[i] = forecastsOf(t, b, vectors)
	}
	from.publish(0+2, encoded(t, bundles[0])) // even versions are the first
	s.Sync(t.Context())
	addr := socket(t)
	serve(t, s, addr)
	client := dialReady(t, addr)

	done := make(chan struct{})
	var load sync.WaitGroup
	for _, ask := range []asker{client, client, predictor.InProcess(s)} {
		load.Go(func() {
			out := make([]feature.Forecast, len(vectors))
			for {
				select {
				case <-done:
					return
				default:
				}
				info, err := ask.Forecast(t.Context(), llm, vectors, out)
				if err != nil {
					t.Errorf("during a swap: %v", err)
					return
				}
				if !cmp.Equal(want[info.Bundle%2], out) {
					t.Errorf("the forecasts are not those of bundle %d", info.Bundle)
					return
				}
			}
		})
	}
	for version := int64(3); version < 40; version++ {
		from.publish(version, encoded(t, bundles[version%2]))
		s.Sync(t.Context())
	}
	close(done)
	load.Wait()
	if got := s.Status().LLMs[0].Bundle; got != 39 {
		t.Errorf("bundle %d is served, want 39", got)
	}
}

func BenchmarkForecast16(b *testing.B) {
	from := newShelf()
	s := predictor.New(predictor.Config{}, from)
	from.publish(1, encoded(b, bundleOf(b, 0.1)))
	s.Sync(b.Context())
	addr := socket(b)
	serve(b, s, addr)
	client := dialReady(b, addr)
	vectors, out := vectorsOf(1, 16), make([]feature.Forecast, 16)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Forecast(b.Context(), llm, vectors, out); err != nil {
			b.Fatal(err)
		}
	}
}
