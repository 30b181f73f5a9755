package predictor

import (
	"maps"
	"math"
	"slices"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/latencyv1"
)

// State is how an LLM is served.
type State string

// The states.
const (
	Untrained State = "untrained" // no bundle was ever published
	Serving   State = "serving"   // the published bundle is served and was validated within its max age
	Stale     State = "stale"     // the published bundle is served, but its validation is too old
	Failed    State = "failed"    // the published bundle could not be loaded; the one before, if any, is served
)

var states = []State{Untrained, Serving, Stale, Failed}

// LLMStatus tells how one LLM is served.
type LLMStatus struct {
	LLM       string
	State     State
	Info             // the bundle that forecasts are made from; zero for none
	Published int64  // the version that should be served; 0 when untrained
	LastError string // why Published is not what is served; empty when it is
}

// Status tells what a predictor serves.
type Status struct {
	LLMs        []LLMStatus         // in the order of their names
	Schema      feature.Fingerprint // of the predictor's build
	SourceError string              // why it could not ask what is published; empty when it last could
}

// Status tells what is served now. An LLM that nobody published a bundle for
// is not in it.
func (s *Server) Status() Status {
	now := time.Now()
	llms := *s.llms.Load()
	status := Status{Schema: feature.Schema}
	if text := s.sourceError.Load(); text != nil {
		status.SourceError = *text
	}
	for _, llm := range slices.Sorted(maps.Keys(llms)) {
		row := llms[llm]
		status.LLMs = append(status.LLMs, LLMStatus{
			LLM: llm, State: row.state(now), Info: row.info,
			Published: row.published.Version, LastError: row.lastError,
		})
	}
	return status
}

func (row *served) state(now time.Time) State {
	switch {
	case row.lastError != "" || row.evaluator == nil:
		return Failed
	case now.Sub(row.info.ValidatedAt) > row.info.MaxAge:
		return Stale
	default:
		return Serving
	}
}

// The names that the gRPC health service knows beside "".
const (
	Liveness  = "liveness"
	Readiness = "readiness"
)

// updateHealth tells the health service what is ready now.
func (s *Server) updateHealth() {
	ready := healthpb.HealthCheckResponse_NOT_SERVING
	now := time.Now()
	for _, row := range *s.llms.Load() {
		if row.state(now) == Serving {
			ready = healthpb.HealthCheckResponse_SERVING
		}
	}
	s.health.SetServingStatus(Liveness, healthpb.HealthCheckResponse_SERVING)
	s.health.SetServingStatus(Readiness, ready)
	s.health.SetServingStatus(latencyv1.Predictor_ServiceDesc.ServiceName, ready)
}

var wireStates = map[State]latencyv1.State{
	Untrained: latencyv1.State_STATE_UNTRAINED,
	Serving:   latencyv1.State_STATE_SERVING,
	Stale:     latencyv1.State_STATE_STALE,
	Failed:    latencyv1.State_STATE_FAILED,
}

func (l LLMStatus) wire() *latencyv1.LLMStatus {
	w := &latencyv1.LLMStatus{
		Llm: l.LLM, State: wireStates[l.State], Bundle: l.Bundle,
		MaxAgeSeconds: l.MaxAge.Seconds(), Published: l.Published, LastError: l.LastError,
	}
	if l.Bundle != 0 {
		w.ValidatedAtUnixNanos = l.ValidatedAt.UnixNano()
	}
	return w
}

func statusOf(response *latencyv1.StatusResponse) Status {
	status := Status{Schema: fingerprintOf(response.Schema), SourceError: response.SourceError}
	for _, w := range response.Llms {
		l := LLMStatus{LLM: w.Llm, Published: w.Published, LastError: w.LastError}
		for _, state := range states {
			if wireStates[state] == w.State {
				l.State = state
			}
		}
		if w.Bundle != 0 {
			l.Info = infoOf(w.Bundle, w.ValidatedAtUnixNanos, w.MaxAgeSeconds)
		}
		status.LLMs = append(status.LLMs, l)
	}
	return status
}

// infoOf reads an Info off the wire.
func infoOf(bundle, validatedAtUnixNanos int64, maxAgeSeconds float64) Info {
	return Info{
		Bundle:      bundle,
		ValidatedAt: time.Unix(0, validatedAtUnixNanos).UTC(),
		MaxAge:      time.Duration(math.Round(maxAgeSeconds * float64(time.Second))),
	}
}
