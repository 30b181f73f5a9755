package extproc_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// events is a streamed response.
func events(body string, cuts ...int) extproctest.Response {
	return extproctest.Response{Status: 200, Headers: [][2]string{{"content-type", "text/event-stream"}}, Body: []byte(body), Cuts: cuts}
}

func TestPicksChargesMetersAndSettles(t *testing.T) {
	w := newWorld(t, 4, nil)
	s, p := w.pick(t, extproctest.Post(chat, []byte(streaming)))
	if string(p.Body) != streaming {
		t.Errorf("the body came back as %q", p.Body)
	}
	if len(p.Destinations) != 3 || p.Destinations[0] != address(0) || slices.Contains(p.Destinations[1:], p.Destinations[0]) {
		t.Errorf("destinations %v, want 3 different ones, %s first", p.Destinations, address(0))
	}
	if got := w.inFlight(); len(got) != 1 || got[p.Destinations[0]] != 1 {
		t.Errorf("in flight after the decision: %v", got)
	}
	back, err := s.Answer(events(answer, 7, len(token), 40))
	if err != nil || string(back) != answer {
		t.Errorf("the response passed as %q, %v", back, err)
	}
	o := w.outcome(t) // before the stream's end: the response's is enough
	if err := s.End(); err != nil {
		t.Error(err)
	}
	w.idle(t)
	if o.Status != feature.OK || o.HTTPStatus != 200 || !(o.TTFT > 0) || !(o.E2E >= o.TTFT) || o.OutputTokens != 3 || o.CachedTokens != 4 || o.Attempt != 1 {
		t.Errorf("outcome %+v", o)
	}
	if d := w.decided(); d.Chosen != "e000" || d.LLM != llm || o.Decision != d.ID {
		t.Errorf("decision %+v", d)
	}
	if n := w.count(t, "spillway_router_extproc_requests_total", "ok"); n != 1 {
		t.Errorf("%v requests are counted", n)
	}
	if n := w.count(t, "spillway_router_extproc_answers_total", "reported"); n != 1 {
		t.Errorf("%v answers with usage are counted", n)
	}
}

// However requests and responses are cut, bodies come back byte for byte, in
// pieces that Envoy takes.
func TestBodiesPassWholeHoweverTheyAreCut(t *testing.T) {
	w := newWorld(t, 3, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 61999, 62000, 62001, 124000, 300000} {
		for _, trailers := range []bool{false, true} {
			body := []byte(`{"model":"qwen","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`)
			r := extproctest.Post(chat, body)
			r.Cuts, r.Trailers = extproctest.Cuts(rng, len(body), 1+rng.IntN(100000)), trailers
			s, p := w.pick(t, r)
			if !bytes.Equal(p.Body, body) || p.Longest > 62000 {
				t.Errorf("%d bytes came back as %d, in pieces of up to %d", len(body), len(p.Body), p.Longest)
			}
			whole := strings.Replace(answer, `"a"`, `"`+strings.Repeat("y", size)+`"`, 1)
			a := events(whole, extproctest.Cuts(rng, len(whole), 1+rng.IntN(100000))...)
			a.Trailers = trailers
			if back, err := s.Answer(a); err != nil || string(back) != whole {
				t.Errorf("a response of %d bytes passed as %d, %v", len(whole), len(back), err)
			}
			if err := s.End(); err != nil {
				t.Error(err)
			}
			if o := w.outcome(t); o.Status != feature.OK || o.OutputTokens != 3 {
				t.Errorf("outcome %+v", o)
			}
		}
	}
	w.idle(t)
}

func TestRequestsWithoutABodyGoByLoad(t *testing.T) {
	w := newWorld(t, 2, nil)
	for _, r := range []extproctest.Request{
		{Method: "GET", Path: "/v1/models"},
		{Method: "DELETE", Path: "/v1/files/7?x=1"},
		{Method: "POST", Path: "/v1/anything", Body: []byte("no json at all")},
		{Method: "POST", Path: "/tokenize", Body: []byte(`{"model":"qwen","prompt":"x"}`)},
		{Method: "PUT", Path: "/v1/files/7", Body: []byte("{")},
		{Method: "POST", Path: "/v1/empty", Body: []byte{}},
		{Method: "POST", Path: "/v1/trailers", Trailers: true},
	} {
		s, p := w.pick(t, r)
		if len(p.Destinations) != 2 || !bytes.Equal(p.Body, r.Body) {
			t.Errorf("%s %s: %+v", r.Method, r.Path, p)
		}
		if _, err := s.Answer(extproctest.Response{Status: 204}); err != nil {
			t.Error(err)
		}
		if o := w.outcome(t); o.Status != feature.OK || !(o.E2E > 0) || !feature.IsUnknown(o.TTFT) {
			t.Errorf("%s %s: outcome %+v", r.Method, r.Path, o)
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}
	w.idle(t)
}

// What comes after the end of a body is ignored, however much it is.
func TestBodiesAfterTheEndAreIgnored(t *testing.T) {
	w := newWorld(t, 1, nil)
	r := extproctest.Post(chat, []byte(streaming))
	s, _ := w.pick(t, r)
	again := r.Messages()
	for range 3 {
		if err := s.Send(again[len(again)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if back, err := s.Answer(events(answer)); err != nil || string(back) != answer {
		t.Fatalf("%q, %v", back, err)
	}
	if err := s.Send(extproctest.Chunk([]byte(token), true)); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
	if o := w.outcome(t); o.Status != feature.OK || o.OutputTokens != 3 {
		t.Errorf("outcome %+v", o)
	}
	w.idle(t)
}

func TestSubsetIsMatchedByAddressAndPort(t *testing.T) {
	w := newWorld(t, 4, nil)
	for _, c := range []struct {
		subset []string
		want   []string // of any order but the first place, which takes turns
	}{
		{[]string{address(1)}, []string{address(1)}},
		{[]string{address(3), "10.9.9.9:8000", address(0)}, []string{address(0), address(3)}},
		{[]string{"[::ffff:10.0.0.1]:8001"}, []string{address(1)}},
		{[]string{address(2) + "," + address(3)}, []string{address(2), address(3)}},
	} {
		r := extproctest.Post(chat, []byte(streaming))
		r.Subset = c.subset
		s, p := w.pick(t, r)
		slices.Sort(p.Destinations)
		if !slices.Equal(p.Destinations, c.want) {
			t.Errorf("of %v the destinations are %v, want %v", c.subset, p.Destinations, c.want)
		}
		s.Abort()
		w.outcome(t)
	}
	for _, subset := range [][]string{{}, {"10.0.0.1:9999"}, {"10.0.0.1"}, {""}} {
		r := extproctest.Post(chat, []byte(streaming))
		r.Subset = subset
		if _, p := w.pick(t, r); p.Status != http.StatusServiceUnavailable || p.Headers["x-spillway-reason"] != "no_endpoint" {
			t.Errorf("subset %v: %+v", subset, p)
		}
	}
	w.idle(t)
}

// The accounting moves to the endpoint that really serves.
func TestServedMovesTheAccounting(t *testing.T) {
	w := newWorld(t, 4, nil)
	for _, inHeader := range []bool{false, true} {
		s, p := w.pick(t, extproctest.Post(chat, []byte(streaming)))
		by := p.Destinations[1]
		a := events(token)
		a.Served, a.ServedInHeader, a.Trailers = by, inHeader, false
		messages := a.Messages()
		if err := s.Send(messages[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if got := w.inFlight(); len(got) != 1 || got[by] != 1 {
			t.Errorf("in flight: %v, want one at %s", got, by)
		}
		if err := s.Send(extproctest.Chunk([]byte(answer), true)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		o := w.outcome(t)
		if o.Status != feature.OK || o.Attempt != 2 || !feature.IsUnknown(o.TTFT) || !feature.IsUnknown(o.E2E) || o.OutputTokens != 3 {
			t.Errorf("outcome %+v: want a second attempt of which nobody knows when it began", o)
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}
	if n := w.count(t, "spillway_router_extproc_moved_total"); n != 2 {
		t.Errorf("%v moves are counted", n)
	}
	w.idle(t)
}

// Who says that the chosen endpoint, or one that nobody knows, serves, moves
// nothing.
func TestServedByTheChosenOneOrAStrangerMovesNothing(t *testing.T) {
	w := newWorld(t, 2, nil)
	for _, stranger := range []bool{false, true} {
		s, p := w.pick(t, extproctest.Post(chat, []byte(streaming)))
		a := events(answer)
		if a.Served = p.Destinations[0]; stranger {
			a.Served = "10.9.9.9:8000"
		}
		if _, err := s.Answer(a); err != nil {
			t.Fatal(err)
		}
		if o := w.outcome(t); o.Attempt != 1 || !(o.TTFT > 0) {
			t.Errorf("outcome %+v", o)
		}
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}
	if n := w.count(t, "spillway_router_extproc_moved_total"); n != 0 {
		t.Errorf("%v moves are counted", n)
	}
}
