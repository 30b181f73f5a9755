package trainer

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// leaseTime is how long a trainer that died keeps the others from the work.
	leaseTime = time.Minute
	// renewEvery is how often one that works takes it anew.
	renewEvery = leaseTime / 3
)

// keep renews a lease until the function that it returns is called, which
// waits for the renewal under way. A renewal that fails is tried again; when
// the lease is lost by that, publishing says so.
func keep(ctx context.Context, lease Lease, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(renewEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := lease.Renew(ctx, leaseTime); err != nil && ctx.Err() == nil {
				log.Warn("the lease was not renewed", "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// idle is the lease of a dry run: it allows everything and does nothing.
type idle struct{ store Store }

func (idle) Renew(context.Context, time.Duration) error { return nil }
func (idle) Release(context.Context) error              { return nil }

func (i idle) Publish(ctx context.Context, p Published) (int64, bool, error) {
	served, err := i.store.Served(ctx, p.LLM)
	if errors.Is(err, ErrNotServed) {
		err = nil
	}
	return 0, p.Accepted && !served.Pinned, err
}

func (idle) Revalidate(context.Context, string, int64, time.Time, string) error { return nil }
