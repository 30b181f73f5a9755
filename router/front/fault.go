package front

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

// StatusClientClosed is what nginx logs when a client left before its answer;
// no client sees it.
const StatusClientClosed = 499

// Headers of Spillway's own.
const (
	HeaderEndpoint = "X-Spillway-Endpoint" // who serves
	HeaderDecision = "X-Spillway-Decision" // the decision's id and short reason
	HeaderPolicy   = "X-Spillway-Policy"   // who decided
	HeaderReason   = "X-Spillway-Reason"   // why there is no answer of an engine
	HeaderPriority = "X-Spillway-Priority" // asked for
	HeaderSLOTTFT  = "X-Slo-Ttft-Ms"       // asked for
	HeaderSLOTPOT  = "X-Slo-Tpot-Ms"       // asked for
)

// ErrStopping, as the cause of a context's cancellation, says that the router
// is going away: such requests are recorded as lost, not as aborted by their
// clients.
var ErrStopping = errors.New("the router is stopping")

// Fault is a refusal: what the client is told, and why.
type Fault struct {
	Status     int    // HTTP
	Reason     string // of a closed set: header, metric label and error code
	Message    string
	RetryAfter time.Duration // 0: not said
	Decision   string        // value of HeaderDecision, where the request was decided; "": it was not
}

// Error is what the client is told.
func (f Fault) Error() string { return f.Message }

// Body is the fault in the shape of the OpenAI API.
func (f Fault) Body() []byte { return openai.ErrorBody(f.Status, "", f.Reason, f.Message) }

// RetryAfterSeconds is the value of the Retry-After header, "" for none.
func (f Fault) RetryAfterSeconds() string {
	if f.RetryAfter <= 0 {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds())))
}

// Refuse makes a fault.
func Refuse(status int, reason, message string) Fault {
	return Fault{Status: status, Reason: reason, Message: message}
}

// BadRequest is the client's own mistake.
func BadRequest(reason, format string, args ...any) Fault {
	return Refuse(http.StatusBadRequest, reason, fmt.Sprintf(format, args...))
}

// Stopping is what is told to whom the router leaves.
func Stopping() Fault {
	return Refuse(http.StatusServiceUnavailable, "stopping", ErrStopping.Error())
}

// TooLarge refuses a body longer than limit bytes.
func TooLarge(limit int64) Fault {
	return Refuse(http.StatusRequestEntityTooLarge, "body_too_large",
		"the request body is longer than the "+sizeText(limit)+" that `max_body_bytes` allows")
}

func sizeText(n int64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if n < 1024 || n%1024 != 0 {
			return strconv.FormatInt(n, 10) + " " + unit
		}
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + " GiB"
}

// Undecided says what a client is told when route gave no ticket: a Fault, or
// an error that is none of the client's.
func Undecided(err error) error {
	var shed *route.Shed
	switch {
	case errors.As(err, &shed):
		f := Refuse(http.StatusTooManyRequests, "shed", err.Error())
		f.RetryAfter, f.Decision = max(shed.RetryAfter, time.Second), shed.Decision
		return f
	case errors.Is(err, route.ErrUnknownLLM):
		return Refuse(http.StatusNotFound, "model_not_found", err.Error())
	case errors.Is(err, route.ErrNoEndpoint):
		return Refuse(http.StatusServiceUnavailable, "no_endpoint", err.Error())
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("decide: %w", err)
}

// FaultOf is what the client of a request that got no ticket is told: why it
// is refused, that the router is stopping, that it has left itself (ctx is its
// context), or that the router failed; then broken is the error to log.
func FaultOf(ctx context.Context, err error) (f Fault, broken error) {
	switch {
	case errors.Is(context.Cause(ctx), ErrStopping):
		return Stopping(), nil
	case errors.As(err, &f):
		return f, nil
	case ctx.Err() != nil:
		return Refuse(StatusClientClosed, "client_abort", "the client left"), nil
	}
	return Refuse(http.StatusInternalServerError, "internal", "the router failed; its log says how"), err
}
