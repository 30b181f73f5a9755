package router

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spillway-llm/spillway/router/handover"
)

// succession is a router's place in a line of routers: the one before it, whose
// listeners it took over, and the one after it. Without a handover in the
// configuration there is neither.
type succession struct {
	before  *handover.Legacy
	offer   *handover.Offer
	log     *slog.Logger
	offered context.Context // ends when nobody may follow any more
	stop    context.CancelFunc
	ended   chan struct{} // closed when run has ended
	came    chan struct{} // closed when another router has taken over
}

// newSuccession returns when this router may serve: at once, or where there is one
// before it, when this one picks endpoints or that one is gone.
func newSuccession(ctx, parts context.Context, c *Config, before *handover.Legacy, picks func() bool) (*succession, error) {
	s := &succession{before: before, log: c.Log, ended: make(chan struct{}), came: make(chan struct{})}
	s.offered, s.stop = context.WithCancel(parts)
	if c.Handover == "" {
		return s, nil
	}
	if before != nil {
		c.Log.Info("taking over from the router before", "process", before.Process())
		if err := await(ctx, parts, before, picks); err != nil {
			return nil, err
		}
	}
	var err error
	s.offer, err = handover.NewOffer(c.Handover, before)
	return s, err
}

// await waits until the router picks endpoints, or the one before it is gone.
func await(ctx, parts context.Context, before *handover.Legacy, picks func() bool) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	timer := time.NewTimer(takeoverWait)
	defer timer.Stop()
	for !picks() {
		select {
		case <-tick.C:
		case <-before.Gone():
			return nil
		case <-ctx.Done():
			return context.Canceled // that it was told to end is no error
		case <-parts.Done():
			return parts.Err()
		case <-timer.C:
			return fmt.Errorf("no endpoint may serve after %v, so the router before this one (process %d) goes on", takeoverWait, before.Process())
		}
	}
	return nil
}

// run tells the router before, if any, that this one serves, and lets another one
// take over, until withdraw.
func (s *succession) run(listeners []net.Listener, asked func()) {
	defer close(s.ended)
	if s.offer == nil {
		return
	}
	if s.before != nil {
		if err := s.before.Succeed(s.offered); err != nil && s.offered.Err() == nil {
			s.log.Warn("the router before does not say that it ends; end it", "process", s.before.Process(), "error", err)
		}
	}
	took, err := s.offer.Run(s.offered, listeners, asked)
	if err != nil {
		s.log.Warn("no router can take over from this one any more", "error", err)
	}
	if took {
		s.log.Info("another router has taken over")
		close(s.came)
	}
}

// withdraw ends run, and reports whether another router has taken over.
func (s *succession) withdraw() bool {
	s.stop()
	<-s.ended
	select {
	case <-s.came:
		return true
	default:
		return false
	}
}
