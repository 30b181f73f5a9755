package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/router/gateway"
)

func TestRefusals(t *testing.T) {
	e := newEngine(t, streamAll)
	f := newFront(t, func(c *gateway.Config) { c.MaxBody = 1 << 10 }, e.URL)
	empty := newFront(t, nil)
	long := `{"model":"qwen","prompt":"` + strings.Repeat("a", 2000) + `"}`
	for name, c := range map[string]struct {
		front  *front
		path   string
		body   io.Reader
		header []string
		status int
		reason string
		says   string
	}{
		"too large":              {f, "/v1/completions", strings.NewReader(long), nil, 413, "body_too_large", "1 KiB"},
		"too large, unannounced": {f, "/v1/completions", io.MultiReader(strings.NewReader(long)), nil, 413, "body_too_large", "max_body_bytes"},
		"malformed":              {f, "/v1/completions", strings.NewReader(`{"model":"qwen",`), nil, 400, "bad_request", "byte 16"},
		"empty":                  {f, "/v1/completions", nil, nil, 400, "bad_request", "JSON object"},
		"no model":               {f, "/v1/chat/completions", strings.NewReader(`{"messages":[]}`), nil, 400, "bad_request", "`model`"},
		"too many completions":   {f, "/v1/completions", strings.NewReader(`{"model":"qwen","prompt":"x","n":10000000}`), nil, 400, "bad_request", "`n`: must be a whole number from 1 to 128"},
		"unknown model":          {f, "/v1/chat/completions", strings.NewReader(`{"model":"gpt-9","messages":[]}`), nil, 404, "model_not_found", "gpt-9"},
		"unknown model, other":   {f, "/v1/tokenize", strings.NewReader(`{"model":"gpt-9"}`), nil, 404, "model_not_found", "gpt-9"},
		"no endpoint":            {empty, "/v1/chat/completions", strings.NewReader(chatBody), nil, 503, "no_endpoint", ""},
		"path":                   {f, "/metrics", nil, nil, 404, "unknown_path", "/v1"},
		"path beside":            {f, "/v1x", nil, nil, 404, "unknown_path", "/v1"},
		"path outside":           {f, "/v1/%2e%2e/metrics", nil, nil, 404, "unknown_path", "/v1"},
		"compressed":             {f, "/v1/completions", strings.NewReader("\x1f\x8b"), []string{"Content-Encoding", "gzip"}, 415, "content_encoding", ""},
		"slo no number":          {f, "/v1/completions", nil, []string{"x-slo-ttft-ms", "soon"}, 400, "bad_header", "x-slo-ttft-ms"},
		"slo not positive":       {f, "/v1/completions", nil, []string{"x-slo-tpot-ms", "0"}, 400, "bad_header", "x-slo-tpot-ms"},
		"slo NaN":                {f, "/v1/completions", nil, []string{"x-slo-tpot-ms", "nan"}, 400, "bad_header", "x-slo-tpot-ms"},
		"slo infinite":           {f, "/v1/completions", nil, []string{"x-slo-ttft-ms", "inf"}, 400, "bad_header", "x-slo-ttft-ms"},
		"slo empty":              {f, "/v1/completions", nil, []string{"x-slo-ttft-ms", ""}, 400, "bad_header", "x-slo-ttft-ms"},
		"slo twice":              {f, "/v1/completions", nil, []string{"x-slo-ttft-ms", "1", "x-slo-ttft-ms", "2"}, 400, "bad_header", "2 times"},
		"priority":               {f, "/v1/completions", nil, []string{"x-spillway-priority", "1.5"}, 400, "bad_header", "x-spillway-priority"},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.front.count(t, "spillway_router_refusals_total", c.reason)
			a, err := c.front.do(t, t.Context(), "POST", c.path, c.body, c.header...)
			body := all(t, a, err)
			if a.StatusCode != c.status || a.Header.Get("X-Spillway-Reason") != c.reason {
				t.Errorf("%d %s, want %d %s: %s", a.StatusCode, a.Header.Get("X-Spillway-Reason"), c.status, c.reason, body)
			}
			var shape struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(body), &shape); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if shape.Error.Code != c.reason || shape.Error.Type == "" || !strings.Contains(shape.Error.Message, c.says) {
				t.Errorf("body %s", body)
			}
			if n := c.front.count(t, "spillway_router_refusals_total", c.reason) - before; n != 1 {
				t.Errorf("counted %v times", n)
			}
		})
	}
	if e.requests() != 0 {
		t.Errorf("%d refused requests reached an engine", e.requests())
	}
	if n := f.count(t, "spillway_router_requests_in_flight", ""); n != 0 {
		t.Errorf("%v requests still in flight", n)
	}
}

func TestObjectivesThatAreFine(t *testing.T) {
	e := newEngine(t, streamAll)
	f := newFront(t, nil, e.URL)
	a, err := f.post(t, t.Context(), chatBody, "x-slo-ttft-ms", " 1500 ", "x-slo-tpot-ms", "12.5", "x-spillway-priority", "-1")
	if all(t, a, err); a.StatusCode != 200 {
		t.Errorf("%d", a.StatusCode)
	}
}

func TestModels(t *testing.T) {
	f := newFront(t, nil, "http://127.0.0.1:1", "http://127.0.0.1:2")
	type model struct{ ID, Object string }
	var list struct {
		Object string
		Data   []model
	}
	a, err := f.do(t, t.Context(), http.MethodGet, "/v1/models", nil)
	if err := json.Unmarshal([]byte(all(t, a, err)), &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]model{{"qwen", "model"}, {"team/llama", "model"}}, list.Data); diff != "" || list.Object != "list" {
		t.Errorf("%s %s", list.Object, diff)
	}
	var one model
	a, err = f.do(t, t.Context(), http.MethodGet, "/v1/models/team/llama", nil)
	if err := json.Unmarshal([]byte(all(t, a, err)), &one); err != nil || one.ID != "team/llama" {
		t.Errorf("%v %+v", err, one)
	}
	a, err = f.do(t, t.Context(), http.MethodGet, "/v1/models/gpt-9", nil)
	if all(t, a, err); a.StatusCode != 404 || a.Header.Get("X-Spillway-Reason") != "model_not_found" {
		t.Errorf("%d", a.StatusCode)
	}
	a, err = newFront(t, nil).do(t, t.Context(), http.MethodGet, "/v1/models", nil)
	if got := all(t, a, err); got != `{"object":"list","data":[]}` {
		t.Errorf("of no endpoint: %s", got)
	}
}
