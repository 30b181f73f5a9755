package gateway_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

func TestHopByHopHeadersStayOnTheirHop(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("Proxy-Authenticate", "Basic")
		h.Set("Trailer", "X-Sum")
		h.Add("X-Twice", "a")
		h.Add("X-Twice", "b")
		streamHeaders(w)
		send(w, tokenEvent+endEvent+doneEvent)
		h.Set("X-Sum", "42")
		h.Set(http.TrailerPrefix+"X-Late", "43")
	})
	f := newFront(t, nil, e.URL)
	a, err := f.post(t, t.Context(), chatBody,
		"Connection", "X-Mine, keep-alive", "X-Mine", "1", "Keep-Alive", "x", "Proxy-Authorization", "secret", "Te", "trailers",
		"Expect", "100-continue", "Authorization", "Bearer k", "X-Kept", "a", "X-Kept", "b")
	if got := all(t, a, err); !strings.HasSuffix(got, doneEvent) {
		t.Errorf("got %q", got)
	}
	r, _ := e.last()
	for _, name := range []string{"X-Mine", "Keep-Alive", "Proxy-Authorization", "Te", "Expect"} {
		if v, ok := r.Header[name]; ok {
			t.Errorf("the engine got %s: %q", name, v)
		}
	}
	if r.Header.Get("Authorization") != "Bearer k" || len(r.Header["X-Kept"]) != 2 {
		t.Errorf("the engine got %v", r.Header)
	}
	if v, ok := r.Header["User-Agent"]; ok && v[0] != "Go-http-client/1.1" {
		t.Errorf("the engine got user agent %q", v)
	}
	for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate"} {
		if v, ok := a.Header[name]; ok {
			t.Errorf("the client got %s: %q", name, v)
		}
	}
	if len(a.Header["X-Twice"]) != 2 {
		t.Errorf("the client got %v", a.Header)
	}
	if a.Trailer.Get("X-Sum") != "42" || a.Trailer.Get("X-Late") != "43" {
		t.Errorf("trailers %v", a.Trailer)
	}
}

// Memory and goroutines do not grow with the length of a stream.
func TestLongStream(t *testing.T) {
	const events, block = 200_000, 200
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		text := strings.Repeat(tokenEvent, block)
		for range events / block {
			send(w, text)
		}
		send(w, endEvent+doneEvent)
	})
	f := newFront(t, nil, e.URL)
	a, err := f.post(t, t.Context(), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	buf := make([]byte, len(tokenEvent)*block)
	readOn := func(events int) (bytes uint64, goroutines int) {
		for left := events * len(tokenEvent); left > 0; {
			n, err := a.Body.Read(buf[:min(left, len(buf))])
			if left -= n; err != nil {
				t.Fatal(err)
			}
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc, runtime.NumGoroutine()
	}
	warm, goroutines := readOn(events / 10)
	end, goroutinesEnd := readOn(events * 9 / 10)
	// Engine, gateway and client together; the stream is 12 MiB long.
	if grown := end - warm; grown > 2<<20 {
		t.Errorf("%d bytes were allocated over %d events", grown, events*9/10)
	}
	if goroutinesEnd > goroutines {
		t.Errorf("%d goroutines became %d", goroutines, goroutinesEnd)
	}
	if rest := all(t, a, nil); rest != endEvent+doneEvent {
		t.Errorf("the end was %q", rest)
	}
	if o := f.outcome(t); o.OutputTokens != events {
		t.Errorf("%v tokens", o.OutputTokens)
	}
}
