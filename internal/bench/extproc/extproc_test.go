package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
	"github.com/spillway-llm/spillway/router/pool"
)

// The page is one that a router can read, of the size that is promised.
func TestMetricsPage(t *testing.T) {
	page := metricsPage()
	if n := len(page); n < pageBytes || n > pageBytes+200 {
		t.Errorf("the page has %d bytes, want about %d", n, pageBytes)
	}
	if r := pool.Read(page); len(r.Missing()) > 0 || r.Running != 12 {
		t.Errorf("%+v, missing %v", r, r.Missing())
	}
}

// Prompts have the length and the share of common text that is promised.
func TestTraffic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tokens := range []int{1000, 8000} {
		messages := newTraffic(rng, tokens).request(rng)
		var body []byte
		for _, b := range messages[1:] {
			var m extproctest.Message
			if err := proto.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			body = append(body, m.GetRequestBody().GetBody()...)
		}
		r, err := openai.Scan(body, "/v1/chat/completions")
		if err != nil || !r.Stream || len(r.Prompt) < 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		common, want := 0, tokens*bytesPerToken
		for _, s := range r.Prompt {
			common = max(common, s.End-s.Start)
		}
		if roles := len("system") + len("user"); r.PromptBytes != want+roles || math.Abs(float64(common)/float64(want)-shared) > 0.01 {
			t.Errorf("%d bytes of prompt, %d of them common; want %d, %.0f %%", r.PromptBytes, common, want, 100*shared)
		}
	}
}

// A response has the chunks that are promised, and is a whole one.
func TestResponse(t *testing.T) {
	var meter openai.Meter
	n := 0
	for _, b := range response(shortResponse) {
		var m extproctest.Message
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if body := m.GetResponseBody(); body != nil {
			n++
			meter.Write(body.GetBody(), meter.LastToken())
		}
	}
	if usage, ok := meter.Usage(); n != shortResponse || !meter.Done() || !ok || usage.PromptTokens != 1000 || meter.Malformed() > 0 || meter.Events() != shortResponse-3 {
		t.Errorf("%d chunks, done %v, usage %+v, %d events", n, meter.Done(), usage, meter.Events())
	}
}

func TestQuantile(t *testing.T) {
	before := histogram{Bounds: []float64{1, 2, 4}, Counts: []uint64{5, 5, 5, 5}}
	now := histogram{Bounds: []float64{1, 2, 4}, Counts: []uint64{5 + 90, 5 + 98, 5 + 100, 5 + 101}}
	for q, want := range map[float64]float64{0.5: 1, 0.9: 2, 0.99: 4, 1: math.Inf(1)} {
		if got := now.quantile(before, q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
}
