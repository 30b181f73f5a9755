package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spillway-llm/spillway/router/front"
)

// firstAlloc is the most that is allocated on a client's word about the length
// of its body.
const firstAlloc = 1 << 20

// read takes in the whole request body. The time allowed for it ends slow
// senders; net/http's own limits end before the body.
func (x *exchange) read() ([]byte, error) {
	limit := x.g.config.MaxBody
	tooLarge := front.TooLarge(limit)
	if x.r.ContentLength > limit {
		x.w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	if x.r.Body == nil || x.r.ContentLength == 0 {
		return nil, nil
	}
	// Writers that know no deadlines (in tests) do without.
	_ = x.control.SetReadDeadline(time.Now().Add(x.g.config.Timeouts.Body))
	var buf bytes.Buffer
	// Room behind the end lets ReadFrom see it without growing.
	buf.Grow(int(min(max(x.r.ContentLength, 0), firstAlloc)) + bytes.MinRead)
	_, err := buf.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, limit))
	var overrun *http.MaxBytesError
	switch {
	case err == nil:
		_ = x.control.SetReadDeadline(time.Time{})
		x.g.metrics.bodyBytes.Observe(float64(buf.Len()))
		return buf.Bytes(), nil
	case errors.As(err, &overrun):
		return nil, tooLarge
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

// payload is a request body on its way to an endpoint. It lets go of the bytes
// once they were read, because the transport holds on to its requests until
// their answers end.
type payload struct{ rest []byte }

func (p *payload) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) == 0 {
		p.rest = nil
	}
	return n, nil
}

func (p *payload) Close() error { return nil }
