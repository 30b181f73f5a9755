package extproc_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// post is a request with a header more.
func post(body string, headers ...string) extproctest.Request {
	r := extproctest.Post(chat, []byte(body))
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, [2]string{headers[i], headers[i+1]})
	}
	return r
}

// What is refused is answered in the API's shape, with the reason in a header.
func TestRefusals(t *testing.T) {
	long := post(`{"model":"qwen","messages":[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]}`)
	unsaid := long
	unsaid.Headers = nil
	mode := post(streaming)
	mode.Modes = &extproctest.Modes{Request: "BUFFERED", Response: "FULL_DUPLEX_STREAMED"}
	for _, c := range []struct {
		name    string
		request extproctest.Request
		empty   bool // no endpoints
		status  int
		reason  string
	}{
		{"no json", post("{"), false, 400, "bad_request"},
		{"no model", post(`{"messages":[]}`), false, 400, "bad_request"},
		{"a compressed body", post(streaming, "content-encoding", "gzip"), false, 415, "content_encoding"},
		{"an objective of no number", post(streaming, "x-slo-ttft-ms", "fast"), false, 400, "bad_header"},
		{"an objective said twice", post(streaming, "x-slo-ttft-ms", "1", "x-slo-ttft-ms", "2"), false, 400, "bad_header"},
		{"an unknown model", post(strings.Replace(streaming, llm, "other", 1)), false, 404, "model_not_found"},
		{"no endpoint", post(streaming), true, 503, "no_endpoint"},
		{"too long, as it says", long, false, 413, "body_too_large"},
		{"too long, as it turns out", unsaid, false, 413, "body_too_large"},
		{"bodies in a wrong mode", mode, false, 500, "processing_mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoints := 2
			if c.empty {
				endpoints = 0
			}
			w := newWorld(t, endpoints, func(c *extproc.Config) { c.MaxBody = 4096 })
			_, p := w.pick(t, c.request)
			var shape struct {
				Error struct{ Message, Type, Code string }
			}
			if err := json.Unmarshal([]byte(p.Reply), &shape); err != nil {
				t.Errorf("%q: %v", p.Reply, err)
			}
			if p.Status != c.status || p.Headers["x-spillway-reason"] != c.reason || shape.Error.Code != c.reason ||
				shape.Error.Message == "" || p.Headers["content-type"] != "application/json" {
				t.Errorf("%d %v %q", p.Status, p.Headers, p.Reply)
			}
			if n := w.count(t, "spillway_router_extproc_refusals_total", c.reason); n != 1 {
				t.Errorf("%v refusals are counted", n)
			}
			w.quiet(t)
			w.idle(t)
		})
	}
}

// A request that is shed says when to come back.
func TestShedSaysWhenToComeBack(t *testing.T) {
	var f front.Fault
	if err := front.Undecided(&route.Shed{Decision: "id; shed", RetryAfter: 1500e6}); !errors.As(err, &f) || f.Status != http.StatusTooManyRequests || f.RetryAfterSeconds() != "2" {
		t.Errorf("%+v", f)
	}
	if got := extproc.Refusal(f); got["retry-after"] != "2" || got["x-spillway-reason"] != "shed" || got["x-spillway-decision"] != "id; shed" {
		t.Errorf("%v", got)
	}
}

// One request too many is refused; when another has ended there is room again.
func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t, 1, func(c *extproc.Config) { c.MaxStreams = 2 })
	one, _ := w.pick(t, post(streaming))
	w.pick(t, post(streaming))
	if _, p := w.pick(t, post(streaming)); p.Status != 503 || p.Headers["x-spillway-reason"] != "too_many_streams" {
		t.Errorf("the third: %+v", p)
	}
	one.Abort()
	w.outcome(t)
	for streams := 3.0; streams > 1; {
		streams = w.count(t, "spillway_router_extproc_streams")
	}
	if _, p := w.pick(t, post(streaming)); p.Status != 0 {
		t.Errorf("after one had ended: %+v", p)
	}
}

// The endpoint's failure, or the proxy's for want of it, is recorded as such.
func TestFailedResponses(t *testing.T) {
	for _, c := range []struct {
		name     string
		response extproctest.Response
		blamed   int
	}{
		{"500", extproctest.Response{Status: 500, Body: []byte(`{"error":{"message":"x"}}`)}, 1},
		{"503 of the proxy", extproctest.Response{Status: 503}, 0},
		{"an error inside", events(token + "data: {\"error\":{\"message\":\"x\"}}\n\n" + done), 0},
		{"half a response", events(token), 1},
		{"redirected", extproctest.Response{Status: 307}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			s, _ := w.pick(t, post(streaming))
			if back, err := s.Answer(c.response); err != nil || string(back) != string(c.response.Body) {
				t.Errorf("passed as %q, %v", back, err)
			}
			o := w.outcome(t)
			if o.Status != feature.UpstreamError || o.HTTPStatus != c.response.Status || !feature.IsUnknown(o.E2E) || w.pool.failures != c.blamed {
				t.Errorf("outcome %+v, %d failures are reported", o, w.pool.failures)
			}
			w.idle(t)
		})
	}
}

// A response that the proxy makes itself before anything was decided passes.
func TestResponsesBeforeADecisionPass(t *testing.T) {
	w := newWorld(t, 2, nil)
	request := post(streaming)
	for n := range 2 {
		s := w.open(t)
		for _, m := range request.Messages()[:n] {
			if err := s.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		if back, err := s.Answer(extproctest.Response{Status: 429, Body: []byte("slow down")}); err != nil || string(back) != "slow down" {
			t.Errorf("passed as %q, %v", back, err)
		}
		if err := s.Send(request.Messages()[1]); err != nil {
			t.Fatal(err)
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}
	if len(w.decisions) > 0 {
		t.Error("something was decided")
	}
}

// A router whose endpoints are all drained has nowhere to send to.
func TestDrainedEndpoints(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.pool.change(func(e *pool.State) { e.Draining = true })
	if _, p := w.pick(t, post(streaming)); p.Status != 503 || p.Headers["x-spillway-reason"] != "no_endpoint" {
		t.Errorf("%+v", p)
	}
}

// Bodies that are held at once are bounded together: what is on its way to the
// picker counts, and what it handed over or gave up does not.
func TestBodiesHeldAtOnceAreBounded(t *testing.T) {
	w := newWorld(t, 1, func(c *extproc.Config) { c.MaxBody, c.MaxHeld = 2000, 4000 })
	long := post(streaming + strings.Repeat(" ", 1900-len(streaming)))
	long.Cuts = []int{1800}
	for range 3 { // each leaves its room to the next
		if _, p := w.pick(t, long); p.Status != 0 {
			t.Fatalf("one after the other: %+v", p)
		}
	}
	var open []*extproctest.Stream
	for range 2 {
		s := w.open(t)
		for _, m := range long.Messages()[:2] { // never ends
			if err := s.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		open = append(open, s)
	}
	// The picker need not have taken both in yet.
	for {
		_, p := w.pick(t, long)
		if p.Status == 0 {
			continue
		}
		if p.Status != 503 || p.Headers["x-spillway-reason"] != "bodies_too_large" || p.Headers["retry-after"] != "1" {
			t.Errorf("the third: %+v", p)
		}
		break
	}
	for _, s := range open {
		s.Abort()
	}
	for refused := true; refused; {
		_, p := w.pick(t, long)
		refused = p.Status != 0
	}
}
