package gateway_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/gateway"
)

// One request too many is refused and told why; when another has ended there is
// room again.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway.Config)
		status int
		reason string
	}{
		"of all":        {func(c *gateway.Config) { c.MaxRequests = 2 }, http.StatusServiceUnavailable, "too_many_requests"},
		"of one client": {func(c *gateway.Config) { c.MaxOfClient = 2 }, http.StatusTooManyRequests, "client_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			finish := make(chan struct{})
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				streamHeaders(w)
				send(w, tokenEvent)
				receive(t, finish, "the client to have asked for more")
				send(w, endEvent+doneEvent)
			})
			f := newFront(t, c.change, e.URL)
			var open []*http.Response
			for range 2 {
				a, err := f.post(t, t.Context(), chatBody)
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, a)
			}
			for range 2 { // a refusal takes no room
				a, err := f.post(t, t.Context(), chatBody)
				all(t, a, err)
				if a.StatusCode != c.status || a.Header.Get("X-Spillway-Reason") != c.reason || a.Header.Get("Retry-After") != "1" {
					t.Errorf("%d %v, want %d %s", a.StatusCode, a.Header, c.status, c.reason)
				}
			}
			if n := f.count(t, "spillway_router_refusals_total", c.reason); n != 2 {
				t.Errorf("%v refusals were counted", n)
			}
			finish <- struct{}{}
			finish <- struct{}{}
			for _, a := range open {
				all(t, a, nil)
				f.outcome(t)
			}
			for range 2 {
				a, err := f.post(t, t.Context(), chatBody)
				if err != nil || a.StatusCode != http.StatusOK {
					t.Fatalf("with room again: %v %v", a, err)
				}
				finish <- struct{}{}
				all(t, a, err)
				f.outcome(t)
			}
		})
	}
}

// Who is answered before its body was read is given no longer to send it than
// others.
func TestUnreadBody(t *testing.T) {
	finish := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		send(w, tokenEvent)
		receive(t, finish, "everyone to be answered")
		send(w, endEvent+doneEvent)
	})
	f := newFront(t, func(c *gateway.Config) { c.MaxRequests, c.Timeouts.Body = 1, 100*time.Millisecond }, e.URL)
	open, err := f.post(t, t.Context(), chatBody)
	if err != nil {
		t.Fatal(err)
	}
	for request, status := range map[string]string{
		"POST /v1/completions": "503", "POST /elsewhere": "404", "GET /v1/models": "200", "GET /v1/models/none": "404",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"model\"")
		conn.SetReadDeadline(time.Now().Add(patience))
		answer, err := io.ReadAll(conn) // to the end: the connection is closed
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status+" ") {
			t.Errorf("%s: %q %v, want %s", request, answer, err, status)
		}
		conn.Close()
	}
	finish <- struct{}{}
	all(t, open, nil)
	f.outcome(t)
}

// A client of IPv6 is its network of 64 bits, for whoever has one address of it
// has all of them.
func TestClients(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string
		same          bool
	}{
		{"ports", "192.0.2.1:1", "192.0.2.1:2", true},
		{"neighbours", "192.0.2.1:1", "192.0.2.2:1", false},
		{"addresses of a network", "[2001:db8:0:1::1]:1", "[2001:db8:0:1:ffff::2]:1", true},
		{"networks", "[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", false},
		{"mapped", "[::ffff:192.0.2.1]:1", "192.0.2.1:2", true},
		{"mapped neighbours", "[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", false},
		{"addresses of links", "[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
		{"no addresses", "@", "@", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t, func(c *gateway.Config) { c.MaxOfClient = 1 })
			asks := func(address string, body io.Reader) int {
				r, w := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body), httptest.NewRecorder()
				r.RemoteAddr = address
				f.handler.ServeHTTP(w, r)
				return w.Code
			}
			body, rest := io.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				asks(c.first, body)
			}()
			rest.Write([]byte("{")) // returns once it was read, so that the request is in
			if refused := asks(c.second, strings.NewReader("{")) == http.StatusTooManyRequests; refused != c.same {
				t.Errorf("%s beside %s: refused %v, want %v", c.second, c.first, refused, c.same)
			}
			rest.Close()
			<-done
		})
	}
}

// Bodies count from where they are read until an endpoint has answered, also
// those whose length nobody said.
func TestBodiesHeldAtOnceAreBounded(t *testing.T) {
	answer := make(chan struct{})
	asked := make(chan struct{}, 16)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		receive(t, answer, "the client to have asked for more")
		streamHeaders(w)
		send(w, endEvent+doneEvent)
	})
	f := newFront(t, func(c *gateway.Config) { c.MaxBody, c.MaxHeld = 8<<10, 32<<10 }, e.URL)
	long := chatBody + strings.Repeat(" ", 8000-len(chatBody)) // in a buffer of 8 KiB
	ended := make(chan *http.Response, 4)
	for range 4 {
		go func() {
			a, err := f.post(t, t.Context(), long)
			if err != nil {
				t.Error(err)
			}
			ended <- a
		}()
		receive(t, asked, "the engine to be asked")
	}
	unsaid, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/v1/chat/completions", io.MultiReader(strings.NewReader(long)))
	if err != nil {
		t.Fatal(err)
	}
	unsaid.Header.Set("Content-Type", "application/json")
	for _, refused := range []func() (*http.Response, error){
		func() (*http.Response, error) { return f.post(t, t.Context(), long) },
		func() (*http.Response, error) { return http.DefaultClient.Do(unsaid) },
	} {
		a, err := refused()
		all(t, a, err)
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("X-Spillway-Reason") != "bodies_too_large" || a.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %v", a.StatusCode, a.Header)
		}
	}
	close(answer)
	for range 4 {
		if a := <-ended; a != nil {
			all(t, a, nil)
			f.outcome(t)
		}
	}
	for range 5 { // each leaves its room to the next
		a, err := f.post(t, t.Context(), long)
		if all(t, a, err); a.StatusCode != http.StatusOK {
			t.Fatalf("with room again: %d", a.StatusCode)
		}
		f.outcome(t)
	}
}
