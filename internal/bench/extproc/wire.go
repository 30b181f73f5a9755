package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spillway-llm/spillway/internal/socket"
)

// raw is a message as it stands on the wire: the proxy that is played here
// shall cost little, and the echo nothing beside gRPC itself.
type raw struct {
	bytes []byte     // to send
	held  mem.Buffer // received
}

// part is the field number of what a received ProcessingResponse answers, 0
// for nothing.
func (r *raw) part() int {
	for b := r.held.ReadOnlyData(); len(b) > 0; {
		id, _, n := protowire.ConsumeField(b)
		if n < 0 {
			break
		}
		if id < mostPart {
			return int(id)
		}
		b = b[n:]
	}
	return 0
}

func (r *raw) release() {
	if r.held != nil {
		r.held.Free()
		r.held = nil
	}
}

// codec passes raw messages.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*raw)
	switch {
	case !ok:
		return nil, fmt.Errorf("not a raw message: %T", v)
	case r.held != nil: // an echo
		r.held.Ref()
		return mem.BufferSlice{r.held}, nil
	}
	return mem.BufferSlice{mem.SliceBuffer(r.bytes)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*raw)
	if !ok {
		return fmt.Errorf("not a raw message: %T", v)
	}
	r.release()
	r.held = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

const (
	serviceName = "envoy.service.ext_proc.v3.ExternalProcessor"
	method      = "/" + serviceName + "/Process"
)

var description = grpc.StreamDesc{StreamName: "Process", ServerStreams: true, ClientStreams: true}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithContextDialer(connect),
		grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})),
		grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(64<<20),
		grpc.WithReadBufferSize(128<<10), grpc.WithWriteBufferSize(128<<10))
}

// connect dials as little noise as the router listens with.
func connect(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return socket.Quiet(conn), nil
}

// errUnexpected is an answer of another kind than the one that is due.
var errUnexpected = errors.New("the router answered something else")

// exchange is one stream.
type exchange struct {
	grpc.ClientStream
	in, out raw
}

func open(ctx context.Context, conn *grpc.ClientConn) (*exchange, error) {
	s, err := conn.NewStream(ctx, &description, method)
	return &exchange{ClientStream: s}, err
}

func (x *exchange) send(b []byte) error {
	x.out.bytes = b
	return x.SendMsg(&x.out)
}

// receive takes the next answer, which must be of a part.
func (x *exchange) receive(part int) error {
	if err := x.RecvMsg(&x.in); err != nil {
		return err
	}
	if got := x.in.part(); got != part {
		return fmt.Errorf("%w: part %d, not %d: %.200q", errUnexpected, got, part, x.in.held.ReadOnlyData())
	}
	return nil
}

// end says that the request is over and waits for the other side's end.
func (x *exchange) end() error {
	defer x.in.release()
	if err := x.CloseSend(); err != nil {
		return err
	}
	if err := x.RecvMsg(&x.in); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream goes on: %w", errors.Join(err, errUnexpected))
	}
	return nil
}

// Parts of a ProcessingResponse.
const (
	partRequestHeaders  = 1
	partResponseHeaders = 2
	partRequestBody     = 3
	partResponseBody    = 4
	mostPart            = 8 // what has this number or more is beside the parts
)
