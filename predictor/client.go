package predictor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// Client asks a predictor over a Unix socket or TCP. It is safe for
// concurrent use.
type Client struct {
	conn     *grpc.ClientConn
	stub     latencyv1.PredictorClient
	messages sync.Pool  // of *messages
	frames   *frameLink // of forecasts; nil over TCP
	close    func()     // ends frames
}

// How a client comes back to a predictor that was gone: within 0.6 s of it.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
	MinConnectTimeout: time.Second,
}

// Dial returns a client of the predictor at addr, "unix:///path" or
// "host:port". It does not wait for it: until the predictor is there, and
// whenever it is gone, calls fail at once with ErrDown. More options are those
// of what a predictor on TCP asks for, and of tracing.
func Dial(addr string, more ...grpc.DialOption) (*Client, error) {
	network, address, err := split(addr)
	if err != nil {
		return nil, err
	}
	target := "dns:///" + address
	if network == "unix" {
		target = addr
	}
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(reconnect),
		grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: 2 * time.Second, PermitWithoutStream: true}),
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("predictor address %q: %w", addr, err)
	}
	conn.Connect()
	c := &Client{conn: conn, stub: latencyv1.NewPredictorClient(conn)}
	c.messages.New = func() any { return new(messages) }
	if network == "unix" {
		c.frames = &frameLink{path: address, changed: make(chan struct{})}
		ctx, cancel := context.WithCancel(context.Background())
		var linking sync.WaitGroup
		linking.Go(func() { c.frames.run(ctx) })
		c.close = func() { cancel(); linking.Wait() }
	}
	return c, nil
}

// Close ends the connection; calls under way fail.
func (c *Client) Close() error {
	if c.frames != nil {
		c.close()
	}
	return c.conn.Close()
}

// Ready waits until the predictor is connected or ctx ends.
func (c *Client) Ready(ctx context.Context) error {
	for c.frames != nil {
		ready, foreign, changed := c.frames.ready()
		if ready {
			return nil
		}
		if foreign {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrDown, ctx.Err())
		}
	}
	for {
		state := c.conn.GetState()
		if state == connectivity.Ready {
			return nil
		}
		c.conn.Connect()
		if !c.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("%w: %w", ErrDown, ctx.Err())
		}
	}
}

const (
	// rowsPerCall is how many rows travel in one message, so that no number of
	// endpoints is too many.
	rowsPerCall = 4096
	// swapRetries is how often a forecast of several messages starts again
	// because the bundle was swapped between two of them.
	swapRetries = 3
)

// Forecast writes the forecast of vectors[i] to out[i], which must hold
// len(vectors): feature.NoForecast where a vector cannot be forecast. All are
// of one bundle, the one that Info names. It fails with ErrUntrained,
// ErrSchema, ErrBusy, ErrDown, ErrImpossible, context.DeadlineExceeded or context.Canceled, or with
// another error when the two sides do not understand each other; out is then
// undefined.
func (c *Client) Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Info, error) {
	out = out[:len(vectors)]
	for range swapRetries {
		n := min(len(vectors), rowsPerCall)
		info, err := c.call(ctx, llm, vectors[:n], out[:n])
		same := err == nil
		for at := n; at < len(vectors) && same; at += n {
			end := min(at+n, len(vectors))
			var next Info
			next, err = c.call(ctx, llm, vectors[at:end], out[at:end])
			same = err == nil && next.Bundle == info.Bundle
		}
		if err != nil {
			return Info{}, err
		}
		if same {
			return info, nil
		}
	}
	return Info{}, fmt.Errorf("forecast %d rows for %s: the bundle was swapped %d times meanwhile", len(vectors), llm, swapRetries)
}

// call is Forecast for one message.
func (c *Client) call(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Info, error) {
	m := c.messages.Get().(*messages)
	defer c.messages.Put(m) // Invoke has written and read them before it returns
	m.question = question{llm: llm, vectors: vectors}
	m.reply.out = out
	handled, err := false, error(nil)
	if c.frames != nil {
		handled, err = c.frames.forecast(ctx, m)
	}
	if !handled {
		err = c.conn.Invoke(ctx, latencyv1.Predictor_Forecast_FullMethodName, &m.question, &m.reply, grpc.StaticMethod(), grpc.ForceCodecV2(wire))
	}
	m.question.vectors, m.reply.out = nil, nil
	if err != nil {
		return Info{}, callError(err)
	}
	if m.reply.impossible {
		return Info{}, fmt.Errorf("%w, from bundle %d", ErrImpossible, m.reply.bundle)
	}
	return infoOf(m.reply.bundle, m.reply.validatedAtUnixNano, m.reply.maxAgeSeconds), nil
}

// messages are those of one call.
type messages struct {
	question question
	reply    reply
}

// Status asks what the predictor serves.
func (c *Client) Status(ctx context.Context) (Status, error) {
	response, err := c.stub.Status(ctx, &latencyv1.StatusRequest{})
	if err != nil {
		return Status{}, callError(err)
	}
	return statusOf(response), nil
}

// callError turns what gRPC returned into the errors of this package.
func callError(err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.NotFound:
		return fmt.Errorf("%w: %s", ErrUntrained, s.Message())
	case codes.FailedPrecondition:
		return fmt.Errorf("%w: %s", ErrSchema, s.Message())
	case codes.ResourceExhausted:
		return fmt.Errorf("%w: %s", ErrBusy, s.Message())
	case codes.Unavailable:
		return fmt.Errorf("%w: %s", ErrDown, s.Message())
	case codes.DeadlineExceeded:
		return fmt.Errorf("predictor: %w", context.DeadlineExceeded)
	case codes.Canceled:
		return fmt.Errorf("predictor: %w", context.Canceled)
	default:
		return fmt.Errorf("predictor: %w", err)
	}
}
