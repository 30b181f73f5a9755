package predictor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrBusy says that too many forecasts wait already. It is the predictor's
// sign of being too slow, not of being down.
var ErrBusy = errors.New("predictor's queue is full")

// errExpired is the end of a deadline before anything was evaluated.
var errExpired = expired{}

type expired struct{}

func (expired) Error() string        { return "deadline passed before evaluation" }
func (expired) Is(target error) bool { return target == context.DeadlineExceeded }

// queue lets as many forecasts be evaluated at once as there are cores, since
// more would only make all of them late. The others wait, first come first
// served, and leave when nobody waits for them any more.
//
// Those that wait are not put together into one evaluation, because there is
// nothing to be won: a row costs the same in a batch of any size. 4 heads of
// 200 trees x 31 leaves, CPU time of one thread in microseconds a row:
//
//	rows of a batch   8     16    32    64    128
//	                  4.11  4.12  4.21  4.08  4.03
//
// and whoever came first would wait for the last.
type queue struct {
	slots   chan struct{} // holds one for each evaluation under way
	waiting atomic.Int64  // those that are just leaving the queue still count
	most    int64         // of waiting
}

func newQueue(slots, most int) *queue {
	return &queue{slots: make(chan struct{}, slots), most: int64(most)}
}

// enter returns once the caller may evaluate; leave must follow. It fails with
// ErrBusy when the queue is full, with errExpired when the deadline of ctx has
// passed, or with the error of ctx.
func (q *queue) enter(ctx context.Context) error {
	select {
	case q.slots <- struct{}{}:
	default:
		if err := q.wait(ctx); err != nil {
			return err
		}
	}
	// The timer of ctx may fire late on a busy machine.
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		q.leave()
		return errExpired
	}
	return nil
}

func (q *queue) wait(ctx context.Context) error {
	defer q.waiting.Add(-1)
	if q.waiting.Add(1) > q.most {
		return ErrBusy
	}
	select {
	case q.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return errExpired // never nil, whatever ctx says of itself: there is no slot to leave
	}
}

func (q *queue) leave() { <-q.slots }
