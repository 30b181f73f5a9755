package router_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/share"
)

// line is a TCP proxy in front of where a router may be followed. Cut, it is to
// the others what the router's SIGKILL is.
type line struct {
	net.Listener
	mu     sync.Mutex
	target string // empty: nobody is there
	conns  []net.Conn
}

func newLine(t *testing.T) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{Listener: listener}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.carry(c) })
		}
	})
	t.Cleanup(func() { l.Close(); l.to(""); serving.Wait() })
	return l
}

func (l *line) carry(c net.Conn) {
	defer c.Close()
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	if target == "" {
		return
	}
	d, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer d.Close()
	l.mu.Lock()
	l.conns = append(l.conns, c, d)
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(c, d); c.Close() })
	both.Go(func() { io.Copy(d, c); d.Close() })
	both.Wait()
}

// to leads the line elsewhere and resets what went over it.
func (l *line) to(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// said hands on what a router logs.
type said struct {
	slog.Handler
	lines chan string
}

func (s said) Enabled(context.Context, slog.Level) bool { return true }
func (s said) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	select {
	case s.lines <- text:
	default: // nobody reads
	}
	return nil
}

// sharer is one router of two.
type sharer struct {
	t     *testing.T
	at    router.Serving
	lines chan string
	stop  func() error
}

var salt = []byte("a salt of more than sixteen bytes")

func startSharer(t *testing.T, e *engine, edit func(*share.Config), own, other *line) *sharer {
	t.Helper()
	c := config(e.URL)
	c.Recorder = rows{make(chan feature.Decision, 10), make(chan feature.Outcome, 10)}
	s := &sharer{t: t, lines: make(chan string, 1000)}
	c.Log, c.Metrics = slog.New(said{slog.DiscardHandler, s.lines}), prometheus.NewRegistry()
	c.Share = share.Defaults()
	c.Share.Router, c.Share.Listen, c.Share.Peers = c.Route.Name, "127.0.0.1:0", []string{other.Addr().String()}
	c.Share.Salt, c.Route.Salt, c.Share.Silence = salt, share.HashSalt(salt), time.Second
	edit(&c.Share)
	ready, ended := make(chan router.Serving, 1), make(chan error, 1)
	c.Ready = func(at router.Serving) { ready <- at }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- router.Run(ctx, c) }()
	s.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { s.stop() })
	select {
	case s.at = <-ready:
	case err := <-ended:
		t.Fatalf("the router did not start: %v", err)
	}
	own.to(s.at.Share.String())
	return s
}

// hears waits for a line of the log and returns it.
func (s *sharer) hears(text string) string {
	s.t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case l := <-s.lines:
			if strings.Contains(l, text) {
				return l
			}
		case <-late:
			s.t.Fatalf("nothing was logged with %q", text)
		}
	}
}

// open sends a request that is answered until the engine finishes.
func (s *sharer) open() {
	s.t.Helper()
	long := strings.Replace(body, "hi", strings.Repeat("what both know. ", 400), 1)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Post("http://"+s.at.Listen.String()+"/v1/chat/completions", "application/json", strings.NewReader(long))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { a.Body.Close() })
	if _, err := io.ReadFull(a.Body, make([]byte, len(token))); err != nil {
		s.t.Fatal(err)
	}
}

// Two routers on loopback: the second is told what the first has in flight, and
// what it believes to be cached. Killed, the first is forgotten with its request.
// The second keeps what it was told over its own end, in a file.
func TestRoutersShareKillAndRestart(t *testing.T) {
	e := newEngine(t)
	first, second := newLine(t), newLine(t)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	none, kept := func(*share.Config) {}, func(c *share.Config) { c.Snapshot = snapshot }

	a := startSharer(t, e, none, first, second)
	<-e.scrapes
	<-e.scrapes // what the first one said is published by now
	a.open()
	b := startSharer(t, e, kept, second, first)
	b.hears("a peer has told what is believed to be cached")
	a.hears("a peer is heard") // b, over its own line

	first.to("") // SIGKILL
	if l := b.hears("a peer is silent"); !strings.Contains(l, "requests=1") {
		t.Errorf("forgotten: %s, want the one request", l)
	}
	if _, page := get(t, b.at.Admin, "/status.json"); !strings.Contains(page, `"state": "silent"`) || !strings.Contains(page, first.Addr().String()) {
		t.Errorf("the status: %s", page)
	}
	first.to(a.at.Share.String()) // it was only the network
	b.hears("a peer is heard")

	if err := b.stop(); err != nil { // SIGTERM
		t.Fatal(err)
	}
	if l := b.hears("what is believed to be cached was written"); strings.HasSuffix(l, "blocks=0") {
		t.Errorf("b has kept nothing of what it was told: %s", l)
	}
	first.to("")
	again := startSharer(t, e, kept, second, first)
	again.hears("a snapshot was read")
	first.to(a.at.Share.String())
	again.hears("a peer has told what is believed to be cached")
	a.hears("a peer has begun anew")
	close(e.finish)
	for _, s := range []*sharer{again, a} {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}
	if l := again.hears("what is believed to be cached was written"); strings.HasSuffix(l, "blocks=0") {
		t.Errorf("nothing was restored: %s", l)
	}
}

func get(t *testing.T, at net.Addr, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Get("http://" + at.String() + path)
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
