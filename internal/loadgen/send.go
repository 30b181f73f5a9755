package loadgen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spillway-llm/spillway/internal/openai"
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// send makes one request and reads its response to the end.
func (r *run) send(ctx context.Context, j job) Record {
	body := r.body(j)
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, r.endpoint, bytes.NewReader(body))
	if err != nil {
		rec := j.record(Failed)
		rec.Error = err.Error()
		return rec
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")

	dispatch := time.Now()
	rec := j.record(OK)
	rec.SentAt = dispatch
	if !j.due.IsZero() {
		rec.Late = Measure(dispatch.Sub(j.due).Seconds())
	}
	resp, err := r.Client.Do(req)
	if err != nil {
		rec.fail(ctx, err)
		return rec
	}
	defer resp.Body.Close()
	rec.HTTPStatus = Count(resp.StatusCode)
	rec.Endpoint = resp.Header.Get("x-spillway-endpoint")
	rec.DecisionReason = resp.Header.Get("x-spillway-decision")
	id, _, _ := strings.Cut(rec.DecisionReason, ";")
	rec.Decision = strings.TrimSpace(id)

	var m openai.Meter
	end, err := read(resp.Body, &m)
	rec.settle(&m, dispatch, end)
	if err != nil {
		rec.fail(ctx, err)
	}
	return rec
}

// read feeds a response to the meter and returns when it ended.
func read(body io.Reader, m *openai.Meter) (end time.Time, err error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := body.Read(*buf)
		now := time.Now()
		m.Write((*buf)[:n], now)
		if err != nil {
			m.Finish(now)
			if err == io.EOF {
				err = nil
			}
			return now, err
		}
	}
}

// settle fills in what the meter found in a response that was read.
func (rec *Record) settle(m *openai.Meter, dispatch, end time.Time) {
	message, failed := m.Failure()
	switch {
	case rec.HTTPStatus != http.StatusOK:
		rec.Status, rec.Error = HTTPError, message
		return // an error body has no latency
	case failed:
		rec.Status, rec.Error = StreamError, message
	case !m.Done():
		rec.Status, rec.Error = Incomplete, "the stream ended without [DONE]"
	}
	if rec.Status != OK {
		end = time.Time{}
	}
	labels := m.Labels(dispatch, end)
	rec.TTFT, rec.TPOT, rec.E2E = Measure(labels.TTFT), Measure(labels.TPOT), Measure(labels.E2E)
	usage, _ := m.Usage()
	rec.PromptTokens, rec.CachedTokens = Count(usage.PromptTokens), Count(usage.CachedTokens)
	rec.OutputTokens = Count(m.Tokens())
}

// fail notes why a request broke off. ctx is the run's, not the request's.
func (rec *Record) fail(ctx context.Context, err error) {
	var slow interface{ Timeout() bool }
	timeout := errors.As(err, &slow) && slow.Timeout()
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	rec.Error = err.Error()
	rec.E2E = unknown
	switch {
	case ctx.Err() != nil:
		rec.Status = Canceled
	case timeout:
		rec.Status = Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		rec.Status = Refused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		rec.Status = Reset
	default:
		rec.Status = Failed
	}
}
