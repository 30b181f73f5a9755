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

// register makes r, which must have the codec wire, serve the predictor and
// its health.
func (s *Server) register(r grpc.ServiceRegistrar) {
	desc := latencyv1.Predictor_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Forecast" {
			desc.Methods[i].Handler = s.answer
		}
	}
	r.RegisterService(&desc, service{server: s})
	healthpb.RegisterHealthServer(r, s.health)
}

// service answers all methods but Forecast.
type service struct {
	latencyv1.UnimplementedPredictorServer
	server *Server
}

// wireSchema is how a fingerprint travels.
func wireSchema(f feature.Fingerprint) uint64 { return binary.BigEndian.Uint64(f[:]) }

func fingerprintOf(wire uint64) feature.Fingerprint {
	var f feature.Fingerprint
	binary.BigEndian.PutUint64(f[:], wire)
	return f
}

// exchange returns one that is not in use.
func (s *Server) exchange() *exchange {
	if x, ok := s.exchanges.Get().(*exchange); ok {
		return x
	}
	return &exchange{pool: &s.exchanges}
}

// answer handles one call of Forecast.
func (s *Server) answer(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	x := s.exchange()
	if err := read(x); err != nil {
		s.metrics.requests.WithLabelValues(requestStatus(err)).Inc()
		return nil, err
	}
	if err := s.handle(ctx, x); err != nil {
		return nil, err
	}
	return x, nil
}

// handle makes the forecasts of x. Its errors are those of gRPC.
func (s *Server) handle(ctx context.Context, x *exchange) error {
	err := s.check(x)
	if err != nil {
		s.metrics.requests.WithLabelValues(requestStatus(err)).Inc()
		return wireError(err)
	}
	rows := int(x.rows)
	x.vectors = slices.Grow(x.vectors[:0], rows)[:rows]
	x.out = slices.Grow(x.out[:0], rows)[:rows]
	for i := range x.vectors {
		copy(x.vectors[i][:], x.numbers[i*feature.Width:])
	}
	if x.info, err = s.forecast(ctx, x.llm, x.vectors, x.out); err != nil {
		return wireError(err)
	}
	return nil
}

// check refuses what can't be taken for vectors of this build.
func (s *Server) check(x *exchange) error {
	if x.schema != wireSchema(feature.Schema) {
		return fmt.Errorf("%w: %s, the request has %s", ErrSchema, feature.Schema, fingerprintOf(x.schema))
	}
	if int64(x.rows) > int64(s.config.MaxRows) {
		return fmt.Errorf("%d rows, want at most %d", x.rows, s.config.MaxRows)
	}
	if len(x.numbers) != int(x.rows)*feature.Width {
		return fmt.Errorf("%d rows hold %d numbers, want %d a row", x.rows, len(x.numbers), feature.Width)
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

func rowStatus(f *feature.Forecast) latencyv1.RowStatus {
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
