package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/explain"
)

const llm = "qwen3-32b"

// startFleet runs simulated engines and returns their URLs.
func startFleet(t *testing.T, endpoints int, args ...string) []string {
	t.Helper()
	fleet := start(t, "", append([]string{"fleet", "--json", "--port", "0", "--model", llm, "--log-level", "warn",
		"--endpoints", fmt.Sprint(endpoints)}, args...)...)
	var urls []string
	eventually(t, func(context.Context) error {
		line, _, whole := strings.Cut(fleet.stdout.String(), "\n")
		if !whole {
			return errors.New("the fleet has not said where it listens")
		}
		return json.Unmarshal([]byte(line), &urls)
	})
	return urls
}

// publisher opens the store and publishes bundles in it as a trainer would,
// fresh for an hour when they are accepted.
func publisher(t *testing.T, database string) (store *featurestore.Store, publish func(featurestore.Bundle) (version int64)) {
	t.Helper()
	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	lease, _, err := store.AcquireLease(t.Context(), refitLease, "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return store, func(b featurestore.Bundle) int64 {
		t.Helper()
		b.MaxAge = time.Hour
		version, _, err := store.PublishBundle(t.Context(), lease, b)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
}

// listed is endpoints as router.endpoints has them.
func listed(urls []string) string {
	var s strings.Builder
	for _, url := range urls {
		fmt.Fprintf(&s, "{url: %q, llms: [%s]}, ", url, llm)
	}
	return "[" + s.String() + "]"
}

// write makes a file and returns its name.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// routerProcess is a running router.
type routerProcess struct {
	*process
	front string // base URL of the front door
	admin string // of the second listener
}

// startRouter runs a router on free ports. keys are lines of YAML below
// "router:".
func startRouter(t *testing.T, database string, keys ...string) *routerProcess {
	t.Helper()
	config := "router:\n  name: e2e\n  listen: 127.0.0.1:0\n  admin: 127.0.0.1:0\n"
	for _, key := range keys {
		config += "  " + key + "\n"
	}
	p := start(t, database, "router", "--config", write(t, "spillway.yaml", config))
	serves := p.logged("router serves")
	return &routerProcess{p, "http://" + attribute(t, serves, "listen"), "http://" + attribute(t, serves, "admin")}
}

// unforecast lets a router decide without a predictor.
const unforecast = "policy: token-load"

// answer is an HTTP answer, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// reach sends one request and reads the whole answer.
func reach(ctx context.Context, method, url string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, got}, err
}

// post sends a body that is to be answered.
func post(t *testing.T, url, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := reach(ctx, http.MethodPost, url, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// chat is a short chat request; more is put before its end.
func chat(more string) string {
	return `{"model":"` + llm + `","messages":[{"role":"user","content":"how deep is a weir"}],"max_tokens":8,"ignore_eos":true` + more + `}`
}

// served waits until the router answers a chat, which it does once it has
// scraped its endpoints.
func (r *routerProcess) served(t *testing.T) answer {
	t.Helper()
	var a answer
	eventually(t, func(ctx context.Context) (err error) {
		a, err = reach(ctx, http.MethodPost, r.front+"/v1/chat/completions", []byte(chat("")))
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("the router answers %d: %s", a.status, a.body)
		}
		return err
	})
	return a
}

// decisionID is the id in an answer's x-spillway-decision header.
func (a answer) decisionID() string {
	id, _, _ := strings.Cut(a.header.Get("X-Spillway-Decision"), ";")
	return id
}

// explained asks explain about a decision until its outcome is stored.
func explained(t *testing.T, database, id string) explain.Decision {
	t.Helper()
	var e explain.Decision
	eventually(t, func(context.Context) error {
		stdout, stderr, code := run(t, database, "explain", "--json", id)
		if code != 0 {
			return errors.New(stderr)
		}
		e = explain.Decision{}
		if err := json.Unmarshal([]byte(stdout), &e); err != nil {
			return err
		}
		if len(e.Outcomes) == 0 {
			return errors.New("the decision has no outcome yet")
		}
		return nil
	})
	return e
}
