package route

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Shed is the error of a request turned away on purpose.
type Shed struct {
	Decision   string        // its id and short reason, as Ticket.Header gives them
	RetryAfter time.Duration // 1 s to 1 min
}

// Error says why, and when to come back. The fleet may be idle: an objective may
// be more than it can do.
func (s *Shed) Error() string {
	return fmt.Sprintf("no endpoint is forecast to meet the objective of this request, which may be turned away; retry after %s", s.RetryAfter.Round(time.Second))
}

// A client that was turned away is asked to come back when the queue will be
// shorter by what the best endpoint's p90 TTFT was too late; not at once, and
// not so late that it must think the fleet gone.
const (
	leastRetry = time.Second
	mostRetry  = time.Minute
)

// turnAway records a request that is shed, with its end, and says so.
func (r *Router) turnAway(s *scratch, q *Query, id feature.ID, a asking) error {
	now := s.decidedAt
	unknown := feature.Seconds(feature.Unknown)
	d := r.decision(s, q, a)
	d.ID, d.DecidedAt, d.Reason = id, now, s.reason()
	r.recorder.RecordDecision(d)
	r.recorder.RecordOutcome(feature.Outcome{
		Decision: id, DecidedAt: now, Attempt: 1, Status: feature.Shed, HTTPStatus: http.StatusTooManyRequests,
		TTFT: unknown, TPOT: unknown, E2E: unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown,
		CensoredAt: unknown, FinishedAt: now,
	})
	r.metrics.decided(s)
	return &Shed{
		Decision:   header(id, d.Reason),
		RetryAfter: min(mostRetry, max(leastRetry, s.choice.RetryAfter.Duration())),
	}
}
