package extproc

import (
	"context"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Services that health is asked of.
const (
	serviceLive    = "liveness"
	serviceReady   = "readiness"
	serviceProcess = "envoy.service.ext_proc.v3.ExternalProcessor"
)

// healthServer answers for this process (liveness) and for its wish to get
// requests (all others): it has an endpoint that may serve, and is not on its
// way out. Every replica is ready: none leads.
type healthServer struct {
	*health.Server
	ready func() bool
}

func newHealth(ready func() bool) *healthServer {
	h := &healthServer{Server: health.NewServer(), ready: ready}
	h.SetServingStatus(serviceLive, grpc_health_v1.HealthCheckResponse_SERVING)
	h.refresh()
	return h
}

// refresh takes note of how things stand, for those who watch.
func (h *healthServer) refresh() {
	s := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if h.ready() {
		s = grpc_health_v1.HealthCheckResponse_SERVING
	}
	for _, service := range []string{"", serviceReady, serviceProcess} {
		h.SetServingStatus(service, s)
	}
}

// Check answers with how things stand now.
func (h *healthServer) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	h.refresh()
	return h.Server.Check(ctx, r)
}
