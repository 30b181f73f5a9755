// Package admin is the router's second listener, for the people and programs
// that look after it: metrics, liveness, readiness, profiles and the console.
//
//	/status.json  what the router knows now; null where unknown, seconds
//	/metrics      Prometheus text
//	/healthz      200 while the process serves
//	/readyz       200 while requests are welcome, else 503 and why
//	/debug/pprof/ profiles
//	all else      the console
//
// Who may ask for what is not its business: an access.Guard stands before it.
// Without one bind it to loopback, which is the default, or to a network that
// only operators reach.
package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillway-llm/spillway/router/route"
)

// Admin is the handler of the second listener.
type Admin struct {
	status   func() route.Status
	mux      *http.ServeMux
	draining atomic.Bool
}

// New makes the handler. status is asked on every view; metrics is what
// /metrics shows; console has every path that is not the listener's own.
func New(status func() route.Status, metrics prometheus.Gatherer, console http.Handler) *Admin {
	a := &Admin{status: status, mux: http.NewServeMux()}
	a.mux.Handle("/", console)
	a.mux.HandleFunc("GET /status.json", a.serveJSON)
	a.mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	a.mux.HandleFunc("GET /healthz", serveHealth)
	a.mux.HandleFunc("GET /readyz", a.serveReady)
	a.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	a.mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return a
}

// Drain makes /readyz say that the router is on its way out, so that no new
// requests are sent to it.
func (a *Admin) Drain() { a.draining.Store(true) }

// ServeHTTP answers one request.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	a.mux.ServeHTTP(w, r)
}

func serveHealth(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") }

func (a *Admin) serveReady(w http.ResponseWriter, _ *http.Request) {
	if a.draining.Load() {
		http.Error(w, "not ready: draining", http.StatusServiceUnavailable)
		return
	}
	s := a.status()
	able := 0
	for _, e := range s.Endpoints {
		if e.Healthy && !e.Draining {
			able++
		}
	}
	if able == 0 {
		http.Error(w, fmt.Sprintf("not ready: none of %d endpoints is healthy", len(s.Endpoints)), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, "ready: %d of %d endpoints are healthy\n", able, len(s.Endpoints))
	for _, l := range s.LLMs {
		fmt.Fprintf(w, "%s: %s (%s)\n", l.LLM, l.State, l.Reason)
	}
}

func (a *Admin) serveJSON(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(a.status(), "", "  ")
	if err != nil {
		http.Error(w, "write the status: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}
