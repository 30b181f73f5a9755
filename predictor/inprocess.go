package predictor

import (
	"context"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Local asks a server in the same process. It has the methods of a Client.
type Local struct{ server *Server }

// InProcess returns what asks s without a wire.
func InProcess(s *Server) *Local { return &Local{s} }

// Forecast is Client.Forecast; it never fails with ErrSchema, ErrDown or
// ErrImpossible.
func (l *Local) Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Info, error) {
	return l.server.forecast(ctx, llm, vectors, out)
}

// Status is Client.Status.
func (l *Local) Status(context.Context) (Status, error) { return l.server.Status(), nil }

// Ready is Client.Ready.
func (l *Local) Ready(context.Context) error { return nil }

// Close is Client.Close.
func (l *Local) Close() error { return nil }
