package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/loadgen"
)

// refused checks an answer that Spillway itself gave: the status, the reason
// in its header, and the API's error body with the same reason as code.
func (a answer) refused(t *testing.T, status int, reason string) {
	t.Helper()
	var body struct {
		Error struct {
			Message, Type, Code string
		}
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		t.Errorf("the error body is not JSON: %v: %s", err, a.body)
	}
	if a.status != status || a.header.Get("X-Spillway-Reason") != reason {
		t.Errorf("answered %d %q, want %d %q: %s", a.status, a.header.Get("X-Spillway-Reason"), status, reason, a.body)
	}
	if e := body.Error; e.Message == "" || e.Type == "" || e.Code != reason {
		t.Errorf("the error is not of the API's shape with the code %q: %s", reason, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("an error of type %q", got)
	}
}

func TestFrontDoor(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	urls := startFleet(t, 2)
	router := startRouter(t, database, unforecast, "max_body_bytes: 65536", "endpoints: "+listed(urls),
		"scrape: {interval: 200ms, timeout: 1s, max_age: 5s}")
	first := router.served(t)
	chats := router.front + "/v1/chat/completions"

	t.Run("refusals", func(t *testing.T) {
		for _, c := range []struct {
			name, path, body string
			status           int
			reason           string
		}{
			{"oversized", "/v1/chat/completions", chat(`,"user":"` + strings.Repeat("x", 1<<16) + `"`), http.StatusRequestEntityTooLarge, "body_too_large"},
			{"malformed", "/v1/chat/completions", `{"model":"qwen3-32b","messages":[`, http.StatusBadRequest, "bad_request"},
			{"empty", "/v1/chat/completions", "", http.StatusBadRequest, "bad_request"},
			{"no model", "/v1/completions", `{"prompt":"x"}`, http.StatusBadRequest, "bad_request"},
			{"unknown model", "/v1/chat/completions", strings.Replace(chat(""), llm, "gpt-0", 1), http.StatusNotFound, "model_not_found"},
			{"unknown path", "/v2/chat", "{}", http.StatusNotFound, "unknown_path"},
		} {
			t.Run(c.name, func(t *testing.T) { post(t, router.front+c.path, c.body).refused(t, c.status, c.reason) })
		}
		if got := router.served(t); got.status != http.StatusOK {
			t.Errorf("after the refusals: %d", got.status)
		}
	})

	t.Run("stream", func(t *testing.T) {
		with := post(t, chats, chat(`,"stream":true,"stream_options":{"include_usage":true}`))
		without := post(t, chats, chat(`,"stream":true`))
		for _, a := range []answer{with, without} {
			if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") ||
				!strings.HasSuffix(string(a.body), "data: [DONE]\n\n") {
				t.Fatalf("not a whole stream: %d %v\n%s", a.status, a.header, a.body)
			}
		}
		const usage = `"completion_tokens":8`
		if got := strings.Count(string(with.body), usage); got != 1 {
			t.Errorf("asked for, the usage is there %d times:\n%s", got, with.body)
		}
		if strings.Contains(string(without.body), usage) {
			t.Errorf("not asked for, the usage is there:\n%s", without.body)
		}
		// The router asked for it all the same: both rows know the tokens.
		for _, a := range []answer{with, without} {
			e := explained(t, database, a.decisionID())
			if o := e.Outcomes[0]; o.Status != "ok" || o.Output != 8 || !(o.TTFT > 0) || !(o.TPOT > 0) || !(o.E2E > o.TTFT) {
				t.Errorf("the outcome is %+v", o)
			}
		}
	})

	t.Run("explain", func(t *testing.T) {
		header := first.header.Get("X-Spillway-Decision")
		e := explained(t, database, first.decisionID())
		if e.ID != first.decisionID() || e.LLM != llm || e.Router != "e2e" || e.Policy != "token-load" ||
			e.Chosen != first.header.Get("X-Spillway-Endpoint") || e.Policy != first.header.Get("X-Spillway-Policy") ||
			len(e.Candidates) != len(urls) || e.Replay != "the same choice and probabilities" {
			t.Errorf("explained %+v, answered with %v", e, first.header)
		}
		if len(e.Outcomes) != 1 || e.Outcomes[0].Status != "ok" || e.Outcomes[0].Endpoint != e.Chosen {
			t.Errorf("outcomes %+v", e.Outcomes)
		}
		// The whole header will do as well.
		text := must(t, database, "explain", header)
		for _, want := range []string{"decision " + e.ID, "* " + e.Chosen, "outcome: ok on " + e.Chosen, "replay: the same"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	})

	t.Run("health", func(t *testing.T) {
		for _, address := range []string{router.admin, router.admin + "/healthz", urls[0] + "/health"} {
			must(t, "", "health", address)
		}
	})

	// Endpoints that fail are still tried when there is no other.
	t.Run("all endpoints refuse", func(t *testing.T) {
		if a := post(t, urls[0]+"/admin/fault?endpoint=1", `{"kind":"refuse"}`); a.status >= 300 {
			t.Fatalf("fault: %d %s", a.status, a.body)
		}
		// The last one takes the connection that asks with it.
		_, _ = reach(t.Context(), http.MethodPost, urls[0]+"/admin/fault", []byte(`{"kind":"refuse"}`))
		a := post(t, chats, chat(""))
		a.refused(t, http.StatusBadGateway, "upstream_connect")
		e := explained(t, database, a.decisionID())
		if o := e.Outcomes[len(e.Outcomes)-1]; o.Status != "upstream_error" || o.TTFT != 0 || o.E2E != 0 { // null leaves 0
			t.Errorf("a failure has an outcome with latencies: %+v", e.Outcomes)
		}
		eventually(t, func(context.Context) error {
			stdout, _, code := run(t, "", "health", router.admin)
			if code != 1 || !strings.Contains(stdout, "none of 2 endpoints is healthy") {
				return fmt.Errorf("health ends with %d: %s", code, stdout)
			}
			return nil
		})
		must(t, "", "health", router.admin+"/healthz")
	})

	router.terminate()
	if code := router.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A bad entry of the endpoints file costs itself alone, also in a file that is
// changed while the router runs.
func TestEndpointsFile(t *testing.T) {
	t.Parallel()
	urls := startFleet(t, 2)
	file := write(t, "endpoints.yaml", fmt.Sprintf("endpoints:\n  - url: ftp://127.0.0.1:21\n  - {url: %q, llms: [%s]}\n", urls[0], llm))
	router := startRouter(t, newDatabase(t), unforecast, "endpoints_file: "+file)
	if line := router.logged("entry is left out"); !strings.Contains(line, "line 2") || !strings.Contains(line, "ftp://127.0.0.1:21") {
		t.Errorf("the log does not name the line: %s", line)
	}
	if got, want := router.served(t).header.Get("X-Spillway-Endpoint"), strings.TrimPrefix(urls[0], "http://"); got != want {
		t.Errorf("%q served, want %q", got, want)
	}

	replace := func(text string) {
		t.Helper()
		replacement := filepath.Join(filepath.Dir(file), "new")
		if err := os.WriteFile(replacement, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(replacement, file); err != nil {
			t.Fatal(err)
		}
	}
	replace(fmt.Sprintf("endpoints:\n  - {url: %q, llms: [%s]}\n  - {ulr: %q}\n", urls[1], llm, urls[0]))
	router.logged(`unknown key \"ulr\"`)
	want := strings.TrimPrefix(urls[1], "http://")
	eventually(t, func(context.Context) error {
		if got := router.served(t).header.Get("X-Spillway-Endpoint"); got != want {
			return fmt.Errorf("%q serves, want %q", got, want)
		}
		return nil
	})

	// With all endpoints on their way out there is none to send to.
	replace(fmt.Sprintf("- {url: %q, llms: [%s], draining: true}\n", urls[1], llm))
	var a answer
	eventually(t, func(ctx context.Context) (err error) {
		a, err = reach(ctx, http.MethodPost, router.front+"/v1/chat/completions", []byte(chat("")))
		if err == nil && a.status == http.StatusOK {
			err = fmt.Errorf("%s still serves", a.header.Get("X-Spillway-Endpoint"))
		}
		return err
	})
	a.refused(t, http.StatusServiceUnavailable, "no_endpoint")
}

// A router serves while there has never been a database.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	router := startRouter(t, "postgres://spillway@127.0.0.1:1/spillway", unforecast, "endpoints: "+listed(startFleet(t, 1)))
	router.served(t)
	if line := router.logged("the store can't be prepared yet"); !strings.Contains(line, "DATABASE_URL") {
		t.Errorf("the log does not name DATABASE_URL: %s", line)
	}
	router.terminate()
	if code := router.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A broken line of a trace is named and counted, and the others are sent.
func TestBrokenTrace(t *testing.T) {
	t.Parallel()
	url := startFleet(t, 1)[0]
	file := write(t, "trace.csv", `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.0000000,100,4
2023-11-16 18:15:46.1000000,many,4
2023-11-16 18:15:46.2000000,120,5
yesterday,100,4
2023-11-16 18:15:46.3000000,90,6
`)
	stdout, stderr, code := run(t, "", "load", "--url", url, "--trace", file, "--json")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"line 3", `"many"`, "line 5", `"yesterday"`, "2 lines left out, 3 requests used"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	var s loadgen.Summary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || s.Sent != 3 || s.OK != 3 || s.OutputTokens != 15 {
		t.Errorf("%+v %v", s, err)
	}
}
