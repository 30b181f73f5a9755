package pool

import "time"

// health is what scrapes and traffic say about whether an endpoint answers.
// The two count apart: an engine whose metrics page works can still fail every
// request.
type health struct {
	answered bool // at least once in this life
	scrapes  streak
	traffic  streak
	failedAt time.Time // the last failure of traffic
}

// streak is a run of failures and, once there are enough of them, the run of
// successes that ends the doubt.
type streak struct {
	failures  int
	successes int
	down      bool
}

func (s *streak) fail(limit int) {
	s.failures++
	s.successes = 0
	if s.failures >= limit {
		s.down = true
	}
}

func (s *streak) succeed(limit int) {
	s.failures = 0
	s.successes++
	if s.successes >= limit {
		s.down = false
	}
}

// retry ends the doubt about traffic after hold without a failure: nothing is
// sent to an endpoint that is down, so nothing would ever prove it well. One
// more failure brings the doubt back.
func (h *health) retry(now time.Time, hold time.Duration, limit int) {
	if h.traffic.down && now.Sub(h.failedAt) >= hold {
		h.traffic = streak{failures: limit - 1}
	}
}

func (h *health) healthy() bool {
	return h.answered && !h.scrapes.down && !h.traffic.down
}
