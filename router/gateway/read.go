package gateway

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/spillway-llm/spillway/router/front"
)

// firstAlloc is the most that is allocated on a client's word about the length
// of its body.
const firstAlloc = 1 << 20

// read takes in the whole request body. The time allowed for it, which serve has
// set, ends slow senders; net/http's own limits end before the body.
func (x *exchange) read() (*body, error) {
	limit := x.g.config.MaxBody
	tooLarge := front.TooLarge(limit)
	if x.r.ContentLength > limit {
		x.w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	if x.r.Body == nil || x.r.ContentLength == 0 {
		return nil, nil
	}
	// Room for one byte more lets it see the end without growing.
	b := newBody(int(min(max(x.r.ContentLength, 0)+1, firstAlloc+1)))
	if err := x.g.room.Take(cap(b.bytes)); err != nil {
		b.release()
		x.w.Header().Set("Connection", "close")
		return nil, err
	}
	err := b.readFrom(http.MaxBytesReader(x.w, x.r.Body, limit), x.g.room)
	x.taken = cap(b.bytes)
	var overrun *http.MaxBytesError
	if err == nil {
		_ = x.control.SetReadDeadline(time.Time{})
		x.g.metrics.bodyBytes.Observe(float64(len(b.bytes)))
		return b, nil
	}
	b.release()
	var full front.Fault
	switch {
	case errors.As(err, &overrun):
		return nil, tooLarge
	case errors.As(err, &full):
		x.w.Header().Set("Connection", "close")
		return nil, full
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The deadline stays: what is left of the body is not waited for.
		x.w.Header().Set("Connection", "close")
		return nil, front.Refuse(http.StatusRequestTimeout, "body_timeout", "the request body did not arrive in time")
	}
	if x.r.Context().Err() != nil {
		return nil, err
	}
	return nil, front.BadRequest("body_unreadable", "the request body ended early")
}
