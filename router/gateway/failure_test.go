package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	doors "github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/gateway"
)

func streamAll(w http.ResponseWriter, _ *http.Request) {
	streamHeaders(w)
	send(w, roleEvent+tokenEvent+endEvent+usageEvent+doneEvent)
}

func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestRetryBeforeTheFirstByte(t *testing.T) {
	for reason, first := range map[string]http.HandlerFunc{
		"reset":       abort,
		"connect":     nil,
		"bad_gateway": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusBadGateway) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusServiceUnavailable) },
		"reset, after headers": func(w http.ResponseWriter, r *http.Request) {
			streamHeaders(w)
			send(w, "")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			bad := refusing(t)
			if first != nil {
				bad = newEngine(t, first).URL
			}
			good := newEngine(t, streamAll)
			f := newFront(t, nil, bad, good.URL)
			a, err := f.post(t, t.Context(), chatBody)
			if got := all(t, a, err); !strings.HasSuffix(got, doneEvent) || a.StatusCode != 200 {
				t.Fatalf("%d %q", a.StatusCode, got)
			}
			if _, body := good.last(); body != chatBody || good.requests() != 1 {
				t.Errorf("%d requests, the last with %q", good.requests(), body)
			}
			if a.Header.Get("X-Spillway-Endpoint") != "e2" {
				t.Errorf("served by %q", a.Header.Get("X-Spillway-Endpoint"))
			}
			o := f.outcome(t)
			if o.Status != feature.OK || o.Attempt != 2 || o.Endpoint != "e2" || unknown(o.TTFT) {
				t.Errorf("outcome %+v", o)
			}
			if n := f.pool.failures.Load(); (n == 0) != (reason == "unavailable") {
				t.Errorf("the pool heard of %d failures", n)
			}
			label, _, _ := strings.Cut(reason, ",")
			if n := f.count(t, "spillway_router_retries_total", label); n != 1 {
				t.Errorf("%v retries counted", n)
			}
		})
	}
}

func TestOneRetryOnly(t *testing.T) {
	bad := newEngine(t, abort)
	f := newFront(t, nil, bad.URL, bad.URL, bad.URL)
	a, err := f.post(t, t.Context(), chatBody)
	body := all(t, a, err)
	if a.StatusCode != 502 || a.Header.Get("X-Spillway-Reason") != "upstream_reset" || !strings.Contains(body, `"type":"server_error"`) {
		t.Errorf("%d %q %s", a.StatusCode, a.Header.Get("X-Spillway-Reason"), body)
	}
	if a.Header.Get("X-Spillway-Decision") == "" || a.Header.Get("X-Spillway-Endpoint") == "" {
		t.Errorf("headers %v", a.Header)
	}
	if bad.requests() != 2 {
		t.Errorf("%d attempts", bad.requests())
	}
	o := f.outcome(t)
	if o.Status != feature.UpstreamError || o.HTTPStatus != 502 || o.Attempt != 2 || !unknown(o.TTFT) || !unknown(o.E2E) {
		t.Errorf("outcome %+v", o)
	}
}

func TestNobodyToTurnTo(t *testing.T) {
	f := newFront(t, nil, refusing(t))
	a, err := f.post(t, t.Context(), chatBody)
	if all(t, a, err); a.StatusCode != 502 || a.Header.Get("X-Spillway-Reason") != "upstream_connect" {
		t.Errorf("%d %q", a.StatusCode, a.Header.Get("X-Spillway-Reason"))
	}

	busy := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(503)
		io.WriteString(w, "overloaded")
	})
	f = newFront(t, nil, busy.URL, busy.URL)
	a, err = f.post(t, t.Context(), chatBody)
	if got := all(t, a, err); a.StatusCode != 503 || got != "overloaded" || a.Header.Get("Retry-After") != "7" {
		t.Errorf("the last endpoint's answer did not pass: %d %q %v", a.StatusCode, got, a.Header)
	}
	if o := f.outcome(t); o.Status != feature.UpstreamError || o.HTTPStatus != 503 {
		t.Errorf("outcome %+v", o)
	}
}

// A path that is not understood may have done its work before it failed.
func TestUnknownWorkIsNotRepeated(t *testing.T) {
	bad, good := newEngine(t, abort), newEngine(t, streamAll)
	for method, want := range map[string]int{"POST": 502, "GET": 200} {
		f := newFront(t, nil, bad.URL, good.URL)
		a, err := f.do(t, t.Context(), method, "/v1/batches", strings.NewReader("{}"))
		if all(t, a, err); a.StatusCode != want {
			t.Errorf("%s: %d, want %d", method, a.StatusCode, want)
		}
	}
	f := newFront(t, nil, refusing(t), good.URL)
	a, err := f.do(t, t.Context(), "POST", "/v1/batches", strings.NewReader("{}"))
	if all(t, a, err); a.StatusCode != 200 {
		t.Errorf("a request that never left: %d, want 200", a.StatusCode)
	}
}

func TestNoRetryAfterTheFirstByte(t *testing.T) {
	read := make(chan struct{})
	bad := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		streamHeaders(w)
		send(w, roleEvent+tokenEvent)
		receive(t, read, "the client")
		panic(http.ErrAbortHandler)
	})
	good := newEngine(t, streamAll)
	f := newFront(t, nil, bad.URL, good.URL)
	a, err := f.post(t, t.Context(), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	readExactly(t, a.Body, len(roleEvent+tokenEvent))
	close(read)
	if rest := broken(t, a.Body); rest != "" {
		t.Errorf("read %q", rest)
	}
	o := f.outcome(t)
	if o.Status != feature.UpstreamError || o.HTTPStatus != 200 || o.Attempt != 1 || unknown(o.TTFT) || !unknown(o.E2E) || o.OutputTokens != 1 {
		t.Errorf("outcome %+v", o)
	}
	if good.requests() != 0 {
		t.Error("the other endpoint was asked")
	}
}

func TestClientThatLeaves(t *testing.T) {
	for _, early := range []bool{true, false} {
		asked, left, seen := make(chan struct{}), make(chan struct{}), make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if !early {
				streamHeaders(w)
				send(w, roleEvent+tokenEvent)
			}
			close(asked)
			receive(t, r.Context().Done(), "the request to be cancelled")
			close(left)
		})
		f := newFront(t, nil, e.URL, e.URL)
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			a, err := f.post(t, ctx, chatBody)
			if err == nil {
				readExactly(t, a.Body, len(roleEvent+tokenEvent))
				close(seen)
				_, err = io.Copy(io.Discard, a.Body)
				a.Body.Close()
			}
			answered <- err
		}()
		receive(t, asked, "the engine to be asked")
		if !early {
			receive(t, seen, "the client to see the first token")
		}
		leave()
		if err := receive(t, answered, "the client"); !errors.Is(err, context.Canceled) {
			t.Errorf("the client saw %v", err)
		}
		receive(t, left, "the endpoint to notice")
		want := 200
		if early {
			want = 499
		}
		o := f.outcome(t)
		if o.Status != feature.ClientAbort || o.HTTPStatus != want || !unknown(o.E2E) {
			t.Errorf("early %v: outcome %+v", early, o)
		}
		if e.requests() != 1 {
			t.Errorf("early %v: %d requests", early, e.requests())
		}
	}
}

// A client that stops reading must not keep an engine busy.
func TestClientThatStopsReading(t *testing.T) {
	left := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		streamHeaders(w)
		block := strings.Repeat(tokenEvent, 1000)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	})
	f := newFront(t, func(c *gateway.Config) { c.Timeouts.Write = 50 * time.Millisecond }, e.URL)
	a, err := f.post(t, t.Context(), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	receive(t, left, "the endpoint to be released")
	if o := f.outcome(t); o.Status != feature.ClientAbort {
		t.Errorf("outcome %+v", o)
	}
}

func TestSilentEndpoint(t *testing.T) {
	quick := func(c *gateway.Config) {
		c.Timeouts.FirstByte, c.Timeouts.Idle = 50*time.Millisecond, 50*time.Millisecond
	}
	never := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		send(w, "") // headers are no answer yet
		receive(t, r.Context().Done(), "the request to be cancelled")
	})
	f := newFront(t, quick, never.URL, never.URL)
	a, err := f.post(t, t.Context(), chatBody)
	if all(t, a, err); a.StatusCode != 504 || a.Header.Get("X-Spillway-Reason") != "upstream_timeout" {
		t.Errorf("%d %q", a.StatusCode, a.Header.Get("X-Spillway-Reason"))
	}
	if o := f.outcome(t); o.Status != feature.UpstreamTimeout || o.HTTPStatus != 504 || !(o.CensoredAt >= 0.05) {
		t.Errorf("outcome %+v", o)
	}
	if never.requests() != 1 {
		t.Errorf("asked %d times", never.requests())
	}

	stuck := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		send(w, roleEvent+tokenEvent)
		receive(t, r.Context().Done(), "the request to be cancelled")
	})
	f = newFront(t, quick, stuck.URL)
	a, err = f.post(t, t.Context(), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	broken(t, a.Body)
	if o := f.outcome(t); o.Status != feature.UpstreamTimeout || o.HTTPStatus != 200 || unknown(o.TTFT) {
		t.Errorf("outcome %+v", o)
	}
}

// A whole answer takes as long as all of it: it has a bound of its own, and
// what runs out of it may have been healthy.
func TestWholeAnswerMayTakeLong(t *testing.T) {
	quick := func(c *gateway.Config) {
		c.Timeouts.FirstByte, c.Timeouts.Answer = 20*time.Millisecond, 100*time.Millisecond
	}
	never := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		receive(t, r.Context().Done(), "the request to be cancelled")
	})
	for body, c := range map[string]struct {
		least    time.Duration
		failures int32
	}{wholeBody: {100 * time.Millisecond, 0}, chatBody: {20 * time.Millisecond, 1}} {
		f := newFront(t, quick, never.URL)
		began := time.Now()
		a, err := f.post(t, t.Context(), body)
		if all(t, a, err); a.StatusCode != 504 || a.Header.Get("X-Spillway-Reason") != "upstream_timeout" {
			t.Errorf("%d %q", a.StatusCode, a.Header.Get("X-Spillway-Reason"))
		}
		if took := time.Since(began); took < c.least {
			t.Errorf("%s was given up after %v, want %v", body, took, c.least)
		}
		if o := f.outcome(t); o.Status != feature.UpstreamTimeout {
			t.Errorf("outcome %+v", o)
		}
		if n := f.pool.failures.Load(); n != c.failures {
			t.Errorf("%s: the pool heard of %d failures, want %d", body, n, c.failures)
		}
	}
}

func TestRouterThatStops(t *testing.T) {
	for _, early := range []bool{true, false} {
		asked := make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if !early {
				streamHeaders(w)
				send(w, tokenEvent)
			}
			close(asked)
			receive(t, r.Context().Done(), "the request to be cancelled")
		})
		f := newFront(t, nil, e.URL)
		if early {
			go func() {
				receive(t, asked, "the engine to be asked")
				f.stop(doors.ErrStopping)
			}()
		}
		a, err := f.post(t, t.Context(), chatBody)
		if err != nil {
			t.Fatal(err)
		}
		if !early {
			f.stop(doors.ErrStopping)
		}
		if early {
			if a.StatusCode != 503 || a.Header.Get("X-Spillway-Reason") != "stopping" {
				t.Errorf("%d %q", a.StatusCode, a.Header.Get("X-Spillway-Reason"))
			}
		} else {
			broken(t, a.Body)
		}
		a.Body.Close()
		if o := f.outcome(t); o.Status != feature.Lost {
			t.Errorf("early %v: outcome %+v", early, o)
		}
	}
}

// A sender that stalls in the middle of its body is told so and let go.
func TestSlowBody(t *testing.T) {
	f := newFront(t, func(c *gateway.Config) { c.Timeouts.Body = 30 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"model\"")
	conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := io.ReadAll(conn) // to the end: the connection is closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), "body_timeout") {
		t.Errorf("%v, %q", err, answer)
	}
}
