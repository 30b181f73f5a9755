package predictor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// Register makes r serve the predictor and its health.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	latencyv1.RegisterPredictorServer(r, service{server: s})
	healthpb.RegisterHealthServer(r, s.health)
}

// service translates between the wire and a Server.
type service struct {
	latencyv1.UnimplementedPredictorServer
	server *Server
}

// scratch is what one call over the wire needs, kept between calls.
type scratch struct {
	vectors []feature.Vector
	out     []feature.Forecast
}

// wireSchema is how a fingerprint travels.
func wireSchema(f feature.Fingerprint) uint64 { return binary.BigEndian.Uint64(f[:]) }

func fingerprintOf(wire uint64) feature.Fingerprint {
	var f feature.Fingerprint
	binary.BigEndian.PutUint64(f[:], wire)
	return f
}

// Forecast implements latencyv1.PredictorServer.
func (w service) Forecast(ctx context.Context, request *latencyv1.ForecastRequest) (*latencyv1.ForecastResponse, error) {
	s := w.server
	if err := s.checkRequest(request); err != nil {
		s.metrics.requests.WithLabelValues(requestStatus(err)).Inc()
		return nil, wireError(err)
	}
	rows := int(request.Rows)
	scratch := s.scratch.Get().(*scratch)
	defer s.scratch.Put(scratch)
	scratch.vectors = slices.Grow(scratch.vectors[:0], rows)[:rows]
	scratch.out = slices.Grow(scratch.out[:0], rows)[:rows]
	for i := range scratch.vectors {
		copy(scratch.vectors[i][:], request.Vectors[i*feature.Width:])
	}
	info, err := s.forecast(ctx, request.Llm, scratch.vectors, scratch.out)
	if err != nil {
		return nil, wireError(err)
	}
	return responseOf(info, scratch.out), nil
}

// checkRequest refuses what can't be taken for vectors of this build.
func (s *Server) checkRequest(request *latencyv1.ForecastRequest) error {
	if request.Schema != wireSchema(feature.Schema) {
		return fmt.Errorf("%w: %s, the request has %s", ErrSchema, feature.Schema, fingerprintOf(request.Schema))
	}
	if int64(request.Rows) > int64(s.config.MaxRows) {
		return fmt.Errorf("%d rows, want at most %d", request.Rows, s.config.MaxRows)
	}
	if len(request.Vectors) != int(request.Rows)*feature.Width {
		return fmt.Errorf("%d rows hold %d numbers, want %d a row", request.Rows, len(request.Vectors), feature.Width)
	}
	return nil
}

func wireError(err error) error {
	code := codes.InvalidArgument
	switch {
	case errors.Is(err, ErrUntrained):
		code = codes.NotFound
	case errors.Is(err, ErrSchema):
		code = codes.FailedPrecondition
	case errors.Is(err, ErrBusy):
		code = codes.ResourceExhausted
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Error(code, err.Error())
}

// responseOf lays the forecasts out as columns, all in one piece of memory.
func responseOf(info Info, forecasts []feature.Forecast) *latencyv1.ForecastResponse {
	rows := len(forecasts)
	numbers := make([]float64, 9*rows)
	column := func(i int) []float64 { return numbers[i*rows : (i+1)*rows : (i+1)*rows] }
	response := &latencyv1.ForecastResponse{
		Bundle:               info.Bundle,
		ValidatedAtUnixNanos: info.ValidatedAt.UnixNano(),
		MaxAgeSeconds:        info.MaxAge.Seconds(),
		Status:               make([]latencyv1.RowStatus, rows),
		TtftP50:              column(0),
		TtftP90:              column(1),
		TpotP50:              column(2),
		TpotP90:              column(3),
		ResidualTtftP50:      column(4),
		ResidualTtftP90:      column(5),
		ResidualTpotP50:      column(6),
		ResidualTpotP90:      column(7),
		Support:              column(8),
	}
	for i, f := range forecasts {
		response.Status[i] = rowStatus(f)
		response.TtftP50[i], response.TtftP90[i] = float64(f.TTFT.P50), float64(f.TTFT.P90)
		response.TpotP50[i], response.TpotP90[i] = float64(f.TPOT.P50), float64(f.TPOT.P90)
		response.ResidualTtftP50[i], response.ResidualTtftP90[i] = f.Residual.TTFT.P50, f.Residual.TTFT.P90
		response.ResidualTpotP50[i], response.ResidualTpotP90[i] = f.Residual.TPOT.P50, f.Residual.TPOT.P90
		response.Support[i] = f.Support
	}
	return response
}

func rowStatus(f feature.Forecast) latencyv1.RowStatus {
	switch {
	case !f.Known():
		return latencyv1.RowStatus_ROW_STATUS_INVALID_VECTOR
	case f.Support < farOutside:
		return latencyv1.RowStatus_ROW_STATUS_UNSUPPORTED
	default:
		return latencyv1.RowStatus_ROW_STATUS_OK
	}
}

// Status implements latencyv1.PredictorServer.
func (w service) Status(_ context.Context, request *latencyv1.StatusRequest) (*latencyv1.StatusResponse, error) {
	now := w.server.Status()
	response := &latencyv1.StatusResponse{Schema: wireSchema(now.Schema), SourceError: now.SourceError}
	for _, l := range now.LLMs {
		if request.Llm == "" || request.Llm == l.LLM {
			response.Llms = append(response.Llms, l.wire())
		}
	}
	if request.Llm != "" && len(response.Llms) == 0 {
		response.Llms = append(response.Llms, LLMStatus{LLM: request.Llm, State: Untrained}.wire())
	}
	return response, nil
}
