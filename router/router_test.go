package router_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

const (
	body  = `{"model":"qwen","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	token = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"
	ended = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

// rows is a recorder.
type rows struct {
	decisions chan feature.Decision
	outcomes  chan feature.Outcome
}

func (r rows) RecordDecision(d feature.Decision) { r.decisions <- d }
func (r rows) RecordOutcome(o feature.Outcome)   { r.outcomes <- o }

// engine is an endpoint whose answers begin with a token and end when finish
// is closed. scrapes gets one value for every scrape.
type engine struct {
	*httptest.Server
	finish  chan struct{}
	scrapes chan struct{}
}

func newEngine(t *testing.T) *engine {
	e := &engine{finish: make(chan struct{}), scrapes: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.5\n")
		select {
		case e.scrapes <- struct{}{}:
		default:
		}
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, token)
		w.(http.Flusher).Flush()
		select {
		case <-e.finish:
			io.WriteString(w, ended)
		case <-r.Context().Done():
		}
	})
	e.Server = httptest.NewServer(mux)
	t.Cleanup(e.Close)
	return e
}

type running struct {
	at    router.Serving
	rows  rows
	stop  context.CancelFunc
	ended chan error

	closed chan struct{} // when the front door closed
}

// watch is a log that waits for the line saying that the front door closed.
type watch struct {
	slog.Handler
	closed chan struct{}
}

func (w watch) Enabled(context.Context, slog.Level) bool { return true }

func (w watch) Handle(_ context.Context, line slog.Record) error {
	if line.Message == "router accepts no more requests" {
		close(w.closed)
	}
	return nil
}

func config(urls ...string) router.Config {
	c := router.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", DrainTimeout: router.DefaultDrainTimeout,
		Route: route.Defaults(), Gateway: gateway.Defaults(),
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	}
	c.Pool.Interval = 5 * time.Millisecond
	for i, u := range urls {
		c.Pool.Endpoints = append(c.Pool.Endpoints, pool.Endpoint{ID: fmt.Sprintf("e%d", i+1), URL: u, LLMs: []string{"qwen"}})
	}
	c.Route.Name, c.Route.DefaultProfile = "test", physics.Profiles()[0]
	return c
}

// start runs a router until the test, or stop, ends it.
func start(t *testing.T, c router.Config) *running {
	t.Helper()
	r := &running{rows: rows{make(chan feature.Decision, 10), make(chan feature.Outcome, 10)}, ended: make(chan error, 1), closed: make(chan struct{})}
	c.Log = slog.New(watch{slog.DiscardHandler, r.closed})
	ready := make(chan router.Serving, 1)
	c.Recorder, c.Ready = r.rows, func(at router.Serving) { ready <- at }
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.ended <- router.Run(ctx, c)
	}()
	t.Cleanup(func() { stop(); <-finished })
	select {
	case r.at = <-ready:
	case err := <-r.ended:
		t.Fatalf("the router did not start: %v", err)
	}
	return r
}

func (r *running) post(t *testing.T) *http.Response {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Post("http://"+r.at.Listen.String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a
}

func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Get("http://" + r.at.Admin.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

func TestRequestFromDoorToRows(t *testing.T) {
	e := newEngine(t)
	close(e.finish)
	r := start(t, config(e.URL))
	<-e.scrapes
	<-e.scrapes // what the first one said is published by now
	a := r.post(t)
	got, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 || string(got) != token+ended {
		t.Fatalf("%v, %d, %q", err, a.StatusCode, got)
	}
	d, o := <-r.rows.decisions, <-r.rows.outcomes
	if d.ID != o.Decision || d.Chosen != "e1" || d.LLM != "qwen" || o.Status != feature.OK || !(o.TTFT > 0) {
		t.Errorf("decision %+v\noutcome %+v", d, o)
	}
	if !strings.HasPrefix(a.Header.Get("X-Spillway-Decision"), d.ID.String()+"; ") {
		t.Errorf("header %q, decision %v", a.Header.Get("X-Spillway-Decision"), d.ID)
	}
	for path, want := range map[string]string{
		"/readyz":      "1 of 1 endpoints",
		"/healthz":     "ok",
		"/":            "<th scope=\"row\" title=\"" + e.URL + "\">e1</th>",
		"/status.json": `"e1"`,
		"/metrics":     `spillway_router_requests_total{status="ok"} 1`,
	} {
		if status, body := r.get(t, path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, lacks %q:\n%s", path, status, want, body)
		}
	}
}

func TestDrainLetsStreamsEnd(t *testing.T) {
	e := newEngine(t)
	r := start(t, config(e.URL))
	a := r.post(t)
	first := make([]byte, len(token))
	if _, err := io.ReadFull(a.Body, first); err != nil {
		t.Fatal(err)
	}
	r.stop()
	<-r.closed
	if conn, err := net.Dial("tcp", r.at.Listen.String()); err == nil {
		conn.Close()
		t.Error("a router that drains accepts connections")
	}
	if status, body := r.get(t, "/readyz"); status != 503 || !strings.Contains(body, "draining") {
		t.Errorf("/readyz: %d %q", status, body)
	}
	close(e.finish)
	if rest, err := io.ReadAll(a.Body); err != nil || string(rest) != ended {
		t.Errorf("the stream was cut off: %v, %q", err, rest)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if o := <-r.rows.outcomes; o.Status != feature.OK {
		t.Errorf("outcome %+v", o)
	}
}

// Whoever asks /readyz hears of the end while requests are still taken.
func TestDrainIsAnnouncedBeforeTheDoorCloses(t *testing.T) {
	e := newEngine(t)
	close(e.finish)
	c := config(e.URL)
	c.DrainDelay = time.Second
	r := start(t, c)
	<-e.scrapes
	<-e.scrapes
	if status, body := r.get(t, "/readyz"); status != 200 {
		t.Fatalf("/readyz: %d %q", status, body)
	}
	began := time.Now()
	r.stop()
	for {
		status, body := r.get(t, "/readyz")
		if status == 503 && strings.Contains(body, "draining") {
			break
		}
		if time.Since(began) > c.DrainDelay {
			t.Fatalf("/readyz: %d %q", status, body)
		}
	}
	if time.Since(began) < c.DrainDelay/2 { // else this machine is too slow to tell
		if a := r.post(t); a.StatusCode != 200 {
			t.Errorf("answered %d while the end was only announced", a.StatusCode)
		}
	}
	<-r.closed
	if took := time.Since(began); took < c.DrainDelay {
		t.Errorf("the door closed after %v, want %v", took, c.DrainDelay)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestOpenRequestsAreToldOf(t *testing.T) {
	e := newEngine(t)
	r := start(t, config(e.URL))
	if at, open := r.at.OldestOpen(); open {
		t.Errorf("open since %v, and nothing was sent", at)
	}
	a := r.post(t)
	if at, open := r.at.OldestOpen(); !open || at != (<-r.rows.decisions).DecidedAt {
		t.Errorf("open: %v, since %v", open, at)
	}
	close(e.finish)
	if _, err := io.ReadAll(a.Body); err != nil {
		t.Fatal(err)
	}
	<-r.rows.outcomes
	if at, open := r.at.OldestOpen(); open {
		t.Errorf("open since %v, and all ended", at)
	}
}

func TestDrainTakesNoLongerThanItMay(t *testing.T) {
	e := newEngine(t) // never finishes
	c := config(e.URL)
	c.DrainTimeout = 20 * time.Millisecond
	r := start(t, c)
	a := r.post(t)
	first := make([]byte, len(token))
	if _, err := io.ReadFull(a.Body, first); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if _, err := io.ReadAll(a.Body); err == nil {
		t.Error("half an answer ended as if it were whole")
	}
	if o := <-r.rows.outcomes; o.Status != feature.Lost || !(o.TTFT > 0) {
		t.Errorf("outcome %+v", o)
	}
}

// A client that is still sending its body when the time is up is told so; the
// router does not wait for it.
func TestDrainDoesNotWaitForBodies(t *testing.T) {
	c := config(newEngine(t).URL)
	c.DrainTimeout = 20 * time.Millisecond
	r := start(t, c)
	conn, err := net.Dial("tcp", r.at.Listen.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); !strings.Contains(line, "100 Continue") { // it waits for the body
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.stop()
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("X-Spillway-Reason") != "stopping" {
		t.Errorf("%s, reason %q", response.Status, response.Header.Get("X-Spillway-Reason"))
	}
	if err := <-r.ended; err != nil || time.Since(began) > 4*time.Second {
		t.Errorf("Run returned %v after %v", err, time.Since(began))
	}
}

func TestMistakesAreOneSentence(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		change func(*router.Config)
		want   string
	}{
		"port in use":       {func(c *router.Config) { c.Listen = taken.Addr().String() }, "listen: " + taken.Addr().String() + " is in use by another process"},
		"admin port in use": {func(c *router.Config) { c.Admin = taken.Addr().String() }, "admin: " + taken.Addr().String() + " is in use by another process"},
		"no port":           {func(c *router.Config) { c.Listen = "127.0.0.1" }, `listen: can't listen on "127.0.0.1" (want host:port)`},
		"no address":        {func(c *router.Config) { c.Listen = "" }, "listen: is empty"},
		"drain delay":       {func(c *router.Config) { c.DrainDelay = -1 }, "drain_delay: "},
		"drain":             {func(c *router.Config) { c.DrainTimeout = -1 }, "drain_timeout: "},
		"gateway":           {func(c *router.Config) { c.Gateway.MaxBody = 0 }, "max_body_bytes: 0; it must be positive"},
		"timeout":           {func(c *router.Config) { c.Gateway.Timeouts.Idle = 0 }, "idle_timeout: 0s; it must be positive"},
		"route":             {func(c *router.Config) { c.Route.Policy = "best" }, "policy: "},
	} {
		t.Run(name, func(t *testing.T) {
			config := config()
			config.Recorder = rows{}
			c.change(&config)
			err := router.Run(t.Context(), config)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if errors.Is(err, context.Canceled) {
				t.Error("the router ran")
			}
		})
	}
}
