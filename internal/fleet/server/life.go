package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// life is one incarnation of an endpoint: an engine process from its start to
// its end, with an empty cache and its own counters.
type life struct {
	endpoint *Endpoint
	started  time.Time
	loop     *loop
	meters   *meters
	http     *http.Server
	ln       net.Listener
	cancel   context.CancelFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup // handlers and the two goroutines of startLife
}

func startLife(ctx context.Context, e *Endpoint, ln net.Listener, engine *fleet.Engine) *life {
	ctx, cancel := context.WithCancel(ctx)
	l := &life{endpoint: e, started: time.Now(), ln: ln, cancel: cancel}
	l.meters = newMeters(e.fleet.cfg.Model, e.profile, engine.Blocks(), l.started)
	l.loop = newLoop(engine, l.meters, l.started)
	l.loop.apply(*e.fault.Load())
	l.http = &http.Server{
		Handler:     l.routes(),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	l.running.Go(func() { l.loop.run(ctx) })
	l.running.Go(func() {
		if err := l.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case e.failed <- err:
			default: // an earlier failure already ends the endpoint
			}
		}
	})
	return l
}

// stop ends the life as if the process were killed. It does not wait, so a
// handler may call it.
func (l *life) stop() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.ln.Close()
	l.http.Close()
	l.cancel()
}

// wait returns when nothing of a stopped life runs any more.
func (l *life) wait() { l.running.Wait() }

// enter reports whether a handler may run; it then must call l.running.Done.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.running.Add(1)
	}
	return !l.ended
}

func (l *life) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { l.generate(w, r, false) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { l.generate(w, r, true) })
	mux.HandleFunc("GET /v1/models", l.models)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("GET /metrics", l.meters.handler())
	mux.HandleFunc("GET /admin/fault", l.showFault)
	mux.HandleFunc("POST /admin/fault", l.postFault)
	mux.HandleFunc("DELETE /admin/fault", l.deleteFault)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.enter() {
			panic(http.ErrAbortHandler)
		}
		defer l.running.Done()
		if l.endpoint.fault.Load().Kind == Refuse { // a connection kept alive from before
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	})
}

func (l *life) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID        string `json:"id"`
		Object    string `json:"object"`
		Created   int64  `json:"created"`
		OwnedBy   string `json:"owned_by"`
		MaxTokens int    `json:"max_model_len"`
	}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{{l.endpoint.fleet.cfg.Model, "model", l.started.Unix(), "spillway", l.loop.engine.MaxTokens()}}})
}
