// Package console is the page that a person looks after a router from: its
// fleet, why forecasts decide or do not, how good they were, what was decided
// just now and why, and which bundles were judged how.
//
//	/                  the page; sections of it follow as server-sent events
//	/events            those, once a second, and the charts' numbers
//	/decisions/{id}    one decision explained; also of the store
//	/bundles           bundles, verdicts, and two of them compared
//	/drill             POST: lets the fallback decide for a while; only if enabled
//	/assets/, /uplot/  what the pages are made of
//
// Every page is whole without scripts, which add the live numbers, charts and
// the drawer. Addresses in it are relative, so that it may be served below any
// path, and nothing is loaded from elsewhere.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

//go:embed assets uplot/uplot.js uplot/uplot.css uplot/LICENSE
var assets embed.FS

//go:embed pages
var pages embed.FS

// templates are all the pages, and their parts by name.
var templates = template.Must(template.New("").Funcs(formats).ParseFS(pages, "pages/*.html"))

// Config is what a console shows.
type Config struct {
	Status  func() route.Status
	History func(llm string) []route.Period
	Recent  *Ring // decisions that can be explained without the store

	// Store is asked for older decisions and for bundles; nil: there is none.
	Store Store

	// Drill lets the fallback decide for so long, 0 ends it; nil: the page has
	// no button for it.
	Drill func(time.Duration) error
}

// ErrNotFound is a Store's error for a decision that it does not hold.
var ErrNotFound = errors.New("not found")

// Store is where rows and bundles are kept. Every call has a deadline.
type Store interface {
	Decision(ctx context.Context, id feature.ID) (feature.Decision, []feature.Outcome, error)
	// Bundles lists the newest of an LLM, newest first.
	Bundles(ctx context.Context, llm string, most int) ([]Bundle, error)
	// Turns lists what the LLM was served with, newest first.
	Turns(ctx context.Context, llm string, most int) ([]Turn, error)
}

// storeTimeout is how long a page waits for the store.
const storeTimeout = 3 * time.Second

// Console is the handler of the pages.
type Console struct {
	config  Config
	mux     *http.ServeMux
	streams atomic.Int32 // of events that are open
}

// New makes the handler.
func New(c Config) *Console {
	s := &Console{config: c, mux: http.NewServeMux()}
	files := http.FileServerFS(assets)
	s.mux.Handle("GET /assets/", files)
	s.mux.Handle("GET /uplot/", files)
	s.mux.HandleFunc("GET /{$}", s.serveOverview)
	s.mux.HandleFunc("GET /events", s.serveEvents)
	s.mux.HandleFunc("GET /decisions/{id}", s.serveDecision)
	s.mux.HandleFunc("GET /bundles", s.serveBundles)
	if c.Drill != nil {
		s.mux.Handle("POST /drill", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serveDrill)))
	}
	return s
}

// ServeHTTP answers one request.
func (s *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	s.mux.ServeHTTP(w, r)
}

func (s *Console) serveOverview(w http.ResponseWriter, r *http.Request) {
	show(w, http.StatusOK, "overview.html", s.look(r.URL.Query().Get("llm"), time.Now()))
}

// serveDrill begins or ends a drill, as the form says, and goes back.
func (s *Console) serveDrill(w http.ResponseWriter, r *http.Request) {
	length, err := time.ParseDuration(r.PostFormValue("for"))
	if err == nil {
		err = s.config.Drill(length)
	}
	if err != nil {
		http.Error(w, "drill: "+err.Error(), http.StatusBadRequest)
		return
	}
	// Written by hand: http.Redirect would make the address absolute.
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// show writes a page, whole or not at all.
func show(w http.ResponseWriter, status int, page string, data any) {
	body, err := render(page, data)
	if err != nil {
		http.Error(w, "draw the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body)
}

func render(name string, data any) ([]byte, error) {
	var body bytes.Buffer
	err := templates.ExecuteTemplate(&body, name, data)
	return body.Bytes(), err
}

// oneLine is an error as a page shows it.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
