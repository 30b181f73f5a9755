package extproc

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// played is a stream without a connection: messages come from a list, and what
// goes out is written and dropped.
type played struct {
	grpc.ServerStream
	ctx  context.Context
	left []mem.Buffer
	data mem.BufferSlice
}

func (p *played) Context() context.Context { return p.ctx }

func (p *played) RecvMsg(m any) error {
	if len(p.left) == 0 {
		return io.EOF
	}
	p.data[0] = p.left[0]
	p.left = p.left[1:]
	return wire.Unmarshal(p.data, m)
}

func (p *played) SendMsg(m any) error {
	data, err := wire.Marshal(m)
	data.Free()
	return err
}

// picked is a picker in front of so many endpoints.
func picked(t testing.TB, endpoints int) *Picker {
	t.Helper()
	s := &pool.Snapshot{Epoch: 1}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, pool.State{
			ID: fmt.Sprintf("e%03d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i), LLMs: []string{"qwen"}, Incarnation: uint64(i + 1), Healthy: true, ScrapedAt: time.Now(),
			KVCapacityTokens: feature.Unknown, BlockTokens: feature.Unknown, MaxNumSeqs: feature.Unknown,
		})
	}
	c := route.Defaults()
	c.Name, c.DefaultProfile, c.ScrapeMaxAge = "test", physics.Profiles()[0], time.Hour
	quiet := slog.New(slog.DiscardHandler)
	r, err := route.New(c, still{s}, nil, forgetful{}, quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	config := Defaults()
	config.TLS.Mode = TLSOff
	p, err := New(config, r, quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type still struct{ snapshot *pool.Snapshot }

func (s still) Snapshot() *pool.Snapshot { return s.snapshot }
func (still) ReportFailure(string)       {}
func (still) ReportSuccess(string)       {}

type forgetful struct{}

func (forgetful) RecordDecision(feature.Decision) {}
func (forgetful) RecordOutcome(feature.Outcome)   {}

// exchange is the messages of a request with a prompt of 4,000 bytes and of a
// response of so many chunks.
func exchange(t testing.TB, chunks int) []mem.Buffer {
	t.Helper()
	request := extproctest.Post("/v1/chat/completions", fmt.Appendf(nil, `{"model":"qwen","stream":true,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", 800)))
	response := extproctest.Response{Status: 200, Headers: [][2]string{{"content-type", "text/event-stream"}}, Body: []byte{}}
	for range chunks {
		const event = `data: {"id":"1","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}` + "\n\n"
		response.Body = append(response.Body, event...)
		response.Cuts = append(response.Cuts, len(event))
	}
	var all []mem.Buffer
	for _, m := range append(request.Messages(), response.Messages()...) {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, mem.SliceBuffer(b))
	}
	return all
}

func (p *Picker) play(t testing.TB, messages []mem.Buffer) {
	ctx, _ := enter(context.Background(), nil)
	if err := p.process(&played{ctx: ctx, left: messages, data: make(mem.BufferSlice, 1)}); err != nil {
		t.Fatal(err)
	}
}

// TestAllocatesLittle: a request allocates what its decision does (its row and
// its ticket), its body, and what the proxy is told; about 45 times without a
// forecast, however many endpoints there are, one more for each candidate of a
// complete row, and up to 15 more under the race detector. A chunk allocates the message
// that brings it back.
func TestAllocatesLittle(t *testing.T) {
	const (
		mostRequest = 85
		mostChunk   = 3.5 // it is 3; the race detector empties pools now and then
	)
	for _, endpoints := range []int{16, 100} {
		p := picked(t, endpoints)
		short, long := exchange(t, 1), exchange(t, 101)
		p.play(t, long) // warms pools
		few := testing.AllocsPerRun(200, func() { p.play(t, short) })
		many := testing.AllocsPerRun(200, func() { p.play(t, long) })
		if few > mostRequest {
			t.Errorf("%d endpoints: %v allocations a request, want at most %d", endpoints, few, mostRequest)
		}
		if chunk := (many - few) / 100; chunk > mostChunk {
			t.Errorf("%d endpoints: %v allocations a chunk, want at most %v", endpoints, chunk, mostChunk)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	p := picked(b, 100)
	for _, chunks := range []int{1, 101} {
		b.Run(fmt.Sprintf("%d chunks", chunks), func(b *testing.B) {
			messages := exchange(b, chunks)
			b.ReportAllocs()
			for b.Loop() {
				p.play(b, messages)
			}
		})
	}
}
