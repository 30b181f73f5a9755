package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/spillway-llm/spillway/internal/bench/process"
	"github.com/spillway-llm/spillway/internal/socket"
)

const (
	chunksPerSecond = 25 // of each stream
	leastStreams    = 100
	streamConns     = 4 // that a proxy spreads streams over
	carriedShare    = 0.95
)

// beginEcho serves what streams bring back to them, with nothing around it.
func beginEcho(ctx context.Context, setting []byte) (any, func() spent, error) {
	var nothing bool
	if err := json.Unmarshal(setting, &nothing); err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), // all else as the picker has it
		grpc.StaticStreamWindowSize(1<<20), grpc.StaticConnWindowSize(64<<20), grpc.ReadBufferSize(128<<10), grpc.WriteBufferSize(128<<10))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Process", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			var m raw
			defer m.release()
			for {
				if err := s.RecvMsg(&m); err != nil {
					return nil
				}
				if err := s.SendMsg(&m); err != nil {
					return err
				}
			}
		},
	}}}, struct{}{})
	go func() { _ = server.Serve(socket.QuietListener(l)) }() // until the process ends
	return l.Addr().String(), used, nil
}

// rung is one number of concurrent streams: what a chunk costs the router and
// the echo.
type rung struct {
	Streams int     `json:"streams"`
	Router  carried `json:"router"`
	Echo    carried `json:"echo"`
}

// beyond is what a chunk costs beyond the echo, in microseconds.
func (r rung) beyond() float64 { return r.Router.CPU - r.Echo.CPU }

// holds reports whether both carried the rate.
func (r rung) holds() bool {
	want := carriedShare * chunksPerSecond * float64(r.Streams)
	return r.Router.Rate >= want && r.Echo.Rate >= want
}

// carried is what streams came to.
type carried struct {
	Rate float64 `json:"chunks_per_s"` // that came back
	CPU  float64 `json:"cpu_us_per_chunk"`

	chunks int
	took   time.Duration
	cpu    time.Duration
}

// flow is streams under way.
type flow struct {
	conns   []*grpc.ClientConn
	streams [][]*exchange // by connection
	back    []counter     // chunks that came back, by connection
}

// counter has a cache line of its own.
type counter struct {
	atomic.Int64
	_ [56]byte
}

// begin opens so many streams; prepare brings each to where chunks flow.
func (f *flow) begin(ctx context.Context, address string, n int, prepare func(*exchange, *rand.Rand) error) error {
	f.streams, f.back = make([][]*exchange, streamConns), make([]counter, streamConns)
	var failed atomic.Pointer[error]
	var opening sync.WaitGroup
	for c := range streamConns {
		conn, err := dial(address)
		if err != nil {
			return err
		}
		f.conns = append(f.conns, conn)
		opening.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), uint64(n)))
			for range n / streamConns {
				x, err := open(ctx, conn)
				if err == nil {
					err = prepare(x, rng)
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				f.streams[c] = append(f.streams[c], x)
			}
		})
	}
	opening.Wait()
	if err := failed.Load(); err != nil {
		return fmt.Errorf("open %d streams: %w", n, *err)
	}
	return nil
}

// run sends every stream its chunks until ctx ends. Streams take turns within
// the time between two chunks.
func (f *flow) run(ctx context.Context, chunk []byte) {
	const turns = 20 // between two chunks of a stream
	var running sync.WaitGroup
	for c, streams := range f.streams {
		for _, x := range streams {
			running.Go(func() {
				for x.RecvMsg(&x.in) == nil {
					f.back[c].Add(1)
				}
			})
		}
		running.Go(func() {
			ticker := time.NewTicker(time.Second / chunksPerSecond / turns)
			defer ticker.Stop()
			began := time.Now()
			for turn := 0; ctx.Err() == nil; turn++ {
				for time.Since(began) < time.Duration(turn)*time.Second/chunksPerSecond/turns {
					<-ticker.C
				}
				for i := turn % turns; i < len(streams); i += turns {
					if streams[i].send(chunk) != nil {
						return
					}
				}
			}
		})
	}
	<-ctx.Done()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	running.Wait()
}

func (f *flow) count() (n int) {
	for i := range f.back {
		n += int(f.back[i].Load())
	}
	return n
}

// add measures what streams cost a process, and adds it to what was measured
// before.
func (c *carried) add(ctx context.Context, p *process.Process, address string, n int, duration time.Duration, chunk []byte, prepare func(*exchange, *rand.Rand) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var f flow
	if err := f.begin(ctx, address, n, prepare); err != nil {
		return err
	}
	flowing, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	running.Go(func() { f.run(flowing, chunk) })
	wait(ctx, duration/4)
	before, err := usedBy(p)
	if err != nil {
		return err
	}
	began, came := time.Now(), f.count()
	wait(ctx, duration)
	after, err := usedBy(p)
	if err != nil {
		return err
	}
	c.chunks += f.count() - came
	c.took += time.Since(began)
	c.cpu += after.cpu() - before.cpu()
	c.Rate = float64(c.chunks) / c.took.Seconds()
	c.CPU = float64(c.cpu) / float64(time.Microsecond) / float64(max(1, c.chunks))
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
