package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/route"
)

// statusClientClosed is what nginx logs when a client left before its answer;
// no client sees it.
const statusClientClosed = 499

// Headers of Spillway's own.
const (
	headerEndpoint = "X-Spillway-Endpoint"
	headerDecision = "X-Spillway-Decision"
	headerPolicy   = "X-Spillway-Policy"
	headerReason   = "X-Spillway-Reason"
	headerPriority = "X-Spillway-Priority"
	headerSLOTTFT  = "X-Slo-Ttft-Ms"
	headerSLOTPOT  = "X-Slo-Tpot-Ms"
)

// fault is a refusal: what the client is told, and why.
type fault struct {
	status     int
	reason     string // of a closed set: header, metric label and error code
	message    string
	retryAfter time.Duration // 0: not said
}

func (f fault) Error() string { return f.message }

// badRequest is the client's own mistake.
func badRequest(reason, format string, args ...any) fault {
	return fault{http.StatusBadRequest, reason, fmt.Sprintf(format, args...), 0}
}

// refuse answers with f.
func (g *Gateway) refuse(w http.ResponseWriter, f fault) {
	g.metrics.refusals.WithLabelValues(f.reason).Inc()
	writeFault(w, f)
}

func writeFault(w http.ResponseWriter, f fault) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set(headerReason, f.reason)
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
	}
	body := openai.ErrorBody(f.status, "", f.reason, f.message)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	w.Write(body) // a client that is gone has no use for it
}

// undecided says what a client is told when route gave no ticket.
func undecided(err error) error {
	var shed *route.Shed
	switch {
	case errors.As(err, &shed):
		return fault{http.StatusTooManyRequests, "shed", err.Error(), max(shed.RetryAfter, time.Second)}
	case errors.Is(err, route.ErrUnknownLLM):
		return fault{http.StatusNotFound, "model_not_found", err.Error(), 0}
	case errors.Is(err, route.ErrNoEndpoint):
		return fault{http.StatusServiceUnavailable, "no_endpoint", err.Error(), 0}
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("decide: %w", err)
}

// reject answers a request that got no ticket.
func (x *exchange) reject(err error) {
	var f fault
	switch {
	case x.stopping():
		f = fault{http.StatusServiceUnavailable, "stopping", ErrStopping.Error(), 0}
	case errors.As(err, &f):
	case x.r.Context().Err() != nil:
		f = fault{statusClientClosed, "client_abort", "the client left", 0}
	default:
		x.g.log.Error("request failed in the router", "error", err)
		f = fault{http.StatusInternalServerError, "internal", "the router failed; its log says how", 0}
	}
	x.g.refuse(x.w, f)
}
