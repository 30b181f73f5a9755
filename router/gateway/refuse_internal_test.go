package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// What route may say without this package's tests being able to make it say
// so.
func TestRefusalsOfRoute(t *testing.T) {
	g := New(Defaults(), nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	for _, c := range []struct {
		err        error
		status     int
		reason     string
		retryAfter string
	}{
		{&route.Shed{RetryAfter: 1500 * time.Millisecond}, 429, "shed", "2"},
		{fmt.Errorf("decide: %w", &route.Shed{}), 429, "shed", "1"},
		{errors.New("broken"), 500, "internal", ""},
	} {
		w := httptest.NewRecorder()
		x := exchange{g: g, w: w, r: httptest.NewRequest("POST", "/v1/completions", nil)}
		x.reject(front.Undecided(c.err))
		if h := w.Header(); w.Code != c.status || h.Get("X-Spillway-Reason") != c.reason || h.Get("Retry-After") != c.retryAfter {
			t.Errorf("%v: %d %v", c.err, w.Code, h)
		}
	}
}
