// Package predictortest plays a predictor that says whatever it is told to. It
// speaks latency.v1 by gRPC alone, with protobuf's own code, so that it shares
// nothing with what asks it.
package predictortest

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// Answer is what one call is answered: forecasts, from a bundle that was
// validated then and may be used for MaxAge.
type Answer struct {
	Bundle    int64
	Validated time.Time
	MaxAge    time.Duration
	Forecasts []Forecast // one for each vector
}

// Forecast is TTFT and TPOT in seconds. The residuals that travel beside them
// are made to fit the vector's prior.
type Forecast struct {
	TTFT, TPOT feature.Quantiles
}

// Say answers a call about an LLM.
type Say func(llm string, vectors []feature.Vector) Answer

// Serve plays a predictor at addr, "unix:///path" or "host:port", until ctx ends,
// which is not an error. It takes the place of a socket that is left over.
func Serve(ctx context.Context, addr string, say Say) error {
	network, address := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		network, address = "unix", path
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	latencyv1.RegisterPredictorServer(server, &actor{say: say})
	defer context.AfterFunc(ctx, server.Stop)()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

type actor struct {
	latencyv1.UnimplementedPredictorServer
	say Say
}

// Forecast implements latencyv1.PredictorServer.
func (a *actor) Forecast(_ context.Context, request *latencyv1.ForecastRequest) (*latencyv1.ForecastResponse, error) {
	if len(request.Vectors) != int(request.Rows)*feature.Width {
		return nil, status.Errorf(codes.InvalidArgument, "%d rows hold %d numbers", request.Rows, len(request.Vectors))
	}
	vectors := make([]feature.Vector, request.Rows)
	for i := range vectors {
		copy(vectors[i][:], request.Vectors[i*feature.Width:])
	}
	answer := a.say(request.Llm, vectors)
	r := &latencyv1.ForecastResponse{
		Bundle: answer.Bundle, ValidatedAtUnixNanos: answer.Validated.UnixNano(), MaxAgeSeconds: answer.MaxAge.Seconds(),
	}
	for i, f := range answer.Forecasts {
		prior := vectors[i].Prior()
		r.Status = append(r.Status, latencyv1.RowStatus_ROW_STATUS_OK)
		r.TtftP50, r.TtftP90 = append(r.TtftP50, float64(f.TTFT.P50)), append(r.TtftP90, float64(f.TTFT.P90))
		r.TpotP50, r.TpotP90 = append(r.TpotP50, float64(f.TPOT.P50)), append(r.TpotP90, float64(f.TPOT.P90))
		r.ResidualTtftP50, r.ResidualTtftP90 = append(r.ResidualTtftP50, over(f.TTFT.P50, prior.TTFT)), append(r.ResidualTtftP90, over(f.TTFT.P90, prior.TTFT))
		r.ResidualTpotP50, r.ResidualTpotP90 = append(r.ResidualTpotP50, over(f.TPOT.P50, prior.TPOT)), append(r.ResidualTpotP90, over(f.TPOT.P90, prior.TPOT))
		r.Support = append(r.Support, 1)
	}
	return r, nil
}

// over is the log-residual of a forecast.
func over(forecast, prior feature.Seconds) float64 { return math.Log(float64(forecast / prior)) }
