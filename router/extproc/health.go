package extproc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Services that health is asked of.
const (
	serviceLive    = "liveness"
	serviceReady   = "readiness"
	serviceProcess = "envoy.service.ext_proc.v3.ExternalProcessor"
)

// healthServer answers for this process (liveness) and for its wish to get
// requests (all others): it has an endpoint that may serve, and is not on its
// way out. Every replica is ready: none leads. It is asked again and again, as
// proxies and Kubernetes do; nobody may watch it, for who watches keeps a
// router from ending.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	ready func() bool
}

// Check answers with how things stand now.
func (h *healthServer) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	well := true
	switch r.GetService() {
	case serviceLive:
	case "", serviceReady, serviceProcess:
		well = h.ready()
	default:
		return nil, status.Errorf(codes.NotFound, "there is no service %q", r.GetService())
	}
	s := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if well {
		s = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: s}, nil
}
