package gateway_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/route"
)

// Whatever a client sends, it is refused as a client's mistake or, there being
// no endpoint, for that, and in the API's shape.
func FuzzRequest(f *testing.F) {
	f.Add("/v1/chat/completions", chatBody, "x-slo-ttft-ms", "250")
	f.Add("/v1/completions", `{"model":"qwen","prompt":[[1,2],[3]]}`, "x-spillway-priority", "-3")
	f.Add("/v1/responses", `{"model":"qwen","input":"x"}`, "content-encoding", "gzip")
	f.Add("/v1/models/a/b", "", "x-slo-tpot-ms", "1e400")
	f.Add("/v1/../x", "{", "connection", "x")
	config := route.Defaults()
	config.DefaultProfile = physics.Profiles()[0]
	quiet := slog.New(slog.DiscardHandler)
	r, err := route.New(config, endpoints(nil), nil, &front{}, quiet, prometheus.NewRegistry())
	if err != nil {
		f.Fatal(err)
	}
	c := gateway.Defaults()
	c.MaxBody = 1 << 12
	g := gateway.New(c, r, quiet, prometheus.NewRegistry())
	f.Fuzz(func(t *testing.T, path, body, name, value string) {
		request := httptest.NewRequest("POST", "/", strings.NewReader(body))
		request.URL = &url.URL{Path: path}
		request.Header.Set(name, value)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, request)
		if !slices.Contains([]int{400, 404, 413, 415, 503}, w.Code) {
			t.Errorf("status %d", w.Code)
		}
		var shape struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &shape); err != nil || shape.Error.Code != w.Header().Get("X-Spillway-Reason") || shape.Error.Code == "" {
			t.Errorf("%v, %q, reason %q", err, w.Body, w.Header().Get("X-Spillway-Reason"))
		}
	})
}
