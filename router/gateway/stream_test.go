package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/gateway"
)

// Every event is held back until the client has read the one before.
func TestStreamIsPassedOnReadByRead(t *testing.T) {
	parts := []string{": comment\r\n\r\n", roleEvent, tokenEvent, "data: {\"choices\":[{\"del", "ta\":{\"content\":\"b\"}}]}\n\n", tokenEvent, endEvent, usageEvent, doneEvent}
	read := make(chan struct{}, 1)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		for _, p := range parts {
			send(w, p)
			receive(t, read, "the client to read")
		}
	})
	f := newFront(t, nil, e.URL)
	a, err := f.post(t, t.Context(), chatBody, "X-Api-Key", "k")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	for _, p := range parts {
		if got := readExactly(t, a.Body, len(p)); got != p {
			t.Fatalf("read %q, want %q", got, p)
		}
		read <- struct{}{}
	}
	if rest := all(t, a, nil); rest != "" {
		t.Errorf("more than the engine sent: %q", rest)
	}
	if a.Header.Get("X-Spillway-Endpoint") != "e1" || a.Header.Get("X-Spillway-Policy") != "round-robin" {
		t.Errorf("headers %v", a.Header)
	}
	id, reason, ok := strings.Cut(a.Header.Get("X-Spillway-Decision"), "; ")
	if !ok || reason == "" {
		t.Errorf("x-spillway-decision %q", a.Header.Get("X-Spillway-Decision"))
	}
	r, body := e.last()
	if body != chatBody {
		t.Errorf("the engine got %s", body)
	}
	if r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("X-Api-Key") != "k" || r.ContentLength != int64(len(chatBody)) {
		t.Errorf("the engine got headers %v, length %d", r.Header, r.ContentLength)
	}
	o := f.outcome(t)
	if o.Decision.String() != id {
		t.Errorf("outcome of %v, decision %s", o.Decision, id)
	}
	if o.Status != feature.OK || o.HTTPStatus != 200 || o.OutputTokens != 4 || o.CachedTokens != 8 || o.Endpoint != "e1" || o.Attempt != 1 {
		t.Errorf("outcome %+v", o)
	}
	if !(o.TTFT > 0 && o.TPOT > 0 && o.E2E >= o.TTFT+2*o.TPOT) {
		t.Errorf("ttft %v, tpot %v, e2e %v", o.TTFT, o.TPOT, o.E2E)
	}
	if n := f.count(t, "spillway_router_answers_total", "reported"); n != 1 {
		t.Errorf("%v answers with usage", n)
	}
}

func TestTTFTIsTheFirstGeneratedToken(t *testing.T) {
	for name, first := range map[string]string{
		"content":   tokenEvent,
		"reasoning": `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n",
		"tool call": `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}` + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			var least time.Duration
			read := make(chan struct{})
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				streamHeaders(w)
				send(w, roleEvent)
				receive(t, read, "the client to read the role")
				least = time.Since(began)
				send(w, first)
				receive(t, read, "the client to read the token")
				send(w, endEvent+doneEvent)
			})
			f := newFront(t, nil, e.URL)
			began := time.Now()
			a, err := f.post(t, t.Context(), chatBody)
			if err != nil {
				t.Fatal(err)
			}
			readExactly(t, a.Body, len(roleEvent))
			read <- struct{}{}
			readExactly(t, a.Body, len(first))
			most := time.Since(began)
			read <- struct{}{}
			all(t, a, nil)
			o := f.outcome(t)
			if o.Status != feature.OK || o.TTFT.Duration() < least || o.TTFT.Duration() > most {
				t.Errorf("%s, ttft %v, want between %v and %v", o.Status, o.TTFT.Duration(), least, most)
			}
			if o.OutputTokens != 1 || !unknown(o.TPOT) {
				t.Errorf("%v tokens, tpot %v: one token has no TPOT", o.OutputTokens, o.TPOT)
			}
		})
	}
}

func TestWholeAnswerHasOnlyE2E(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(wholeReply))
	})
	f := newFront(t, nil, e.URL)
	a, err := f.post(t, t.Context(), wholeBody)
	if got := all(t, a, err); got != wholeReply || a.ContentLength != int64(len(wholeReply)) {
		t.Errorf("got %q, length %d", got, a.ContentLength)
	}
	o := f.outcome(t)
	if o.Status != feature.OK || !unknown(o.TTFT) || !unknown(o.TPOT) || !(o.E2E > 0) || o.OutputTokens != 1 {
		t.Errorf("outcome %+v", o)
	}
}

// The tokens of several completions arrive mixed.
func TestSeveralCompletionsHaveNoTPOT(t *testing.T) {
	second := strings.Replace(tokenEvent, `"index":0`, `"index":1`, 1)
	read := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		send(w, tokenEvent+second)
		receive(t, read, "the client to read")
		send(w, tokenEvent+second+endEvent+doneEvent)
	})
	f := newFront(t, nil, e.URL)
	for n, want := range map[string]bool{"1": true, "2": false} {
		a, err := f.post(t, t.Context(), strings.Replace(chatBody, `"stream"`, `"n":`+n+`,"stream"`, 1))
		if err != nil {
			t.Fatal(err)
		}
		readExactly(t, a.Body, len(tokenEvent+second))
		read <- struct{}{}
		all(t, a, nil)
		if o := f.outcome(t); o.Status != feature.OK || unknown(o.TTFT) || unknown(o.TPOT) == want {
			t.Errorf("n %s: outcome %+v", n, o)
		}
	}
}

// Images and token ids count for their tokens in the prompt and in its prefix.
func TestWhatIsNoTextIsCountedInTokens(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) { // one that reports no usage
		streamHeaders(w)
		send(w, tokenEvent+endEvent+doneEvent)
	})
	image := `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("iVBO", 50_000) + `"}}`
	ids := strings.TrimSuffix(strings.Repeat("101325, ", 1000), ", ")
	for name, c := range map[string]struct {
		path, body       string
		tokens, cached   float64
		tokens2, cached2 float64 // of the other request
		other            string
	}{
		"image": {
			path:   "/v1/chat/completions",
			body:   `{"model":"qwen","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"what is it"},` + image + `]}]}`,
			tokens: 804, cached: 768, // 14 bytes of text
			other:   `{"model":"qwen","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"what is it"},` + strings.Replace(image, "iVBO", "abcd", 1) + `]}]}`,
			tokens2: 804, cached2: 0,
		},
		"token ids": {
			path:   "/v1/completions",
			body:   `{"model":"qwen","stream":true,"prompt":[` + ids + `]}`,
			tokens: 1000, cached: 960,
			other:   `{"model":"qwen","stream":true,"prompt":[` + ids + `,7,8,9]}`,
			tokens2: 1003, cached2: 960,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, nil, e.URL)
			post := func(body string, tokens, cached float64) {
				t.Helper()
				a, err := f.do(t, t.Context(), "POST", c.path, strings.NewReader(body))
				all(t, a, err)
				if o := f.outcome(t); o.Status != feature.OK {
					t.Fatalf("outcome %+v", o)
				}
				d := f.decided()
				if got := float64(d.ChosenVector[feature.ColumnCachedTokens]); d.PromptTokens != tokens || got != cached {
					t.Errorf("%v tokens, %v of them held; want %v and %v", d.PromptTokens, got, tokens, cached)
				}
			}
			post(c.body, c.tokens, 0)
			post(c.other, c.tokens2, c.cached2)
			post(c.body, c.tokens, c.cached)
		})
	}
}

func TestUsageAskedForHereStaysHere(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		streamHeaders(w)
		send(w, roleEvent+tokenEvent)
		send(w, endEvent+usageEvent[:20])
		send(w, usageEvent[20:]+doneEvent)
	})
	f := newFront(t, func(c *gateway.Config) { c.AskUsage = true }, e.URL)
	a, err := f.post(t, t.Context(), chatBody)
	if got, want := all(t, a, err), roleEvent+tokenEvent+endEvent+doneEvent; got != want {
		t.Errorf("got %q", got)
	}
	if _, body := e.last(); !strings.Contains(body, `"stream_options":{"include_usage":true}`) {
		t.Errorf("the engine got %s", body)
	}
	if o := f.outcome(t); o.OutputTokens != 4 || o.CachedTokens != 8 {
		t.Errorf("outcome %+v", o)
	}

	// Who asks for it gets it.
	asking := strings.Replace(chatBody, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	a, err = f.post(t, t.Context(), asking)
	if got := all(t, a, err); !strings.Contains(got, usageEvent) {
		t.Errorf("got %q", got)
	}
	if _, body := e.last(); body != asking {
		t.Errorf("the engine got %s", body)
	}
}

// What was seen of a bad answer is kept, and none of it becomes a sample.
func TestAnswersThatAreNoSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		kind   string
		body   string
		ttft   bool
		sick   bool // the endpoint, by what the pool is told
	}{
		"server error":           {500, "application/json", `{"error":{"message":"boom"}}`, false, true},
		"client's mistake":       {400, "application/json", `{"error":{"message":"too long"}}`, false, false},
		"too many":               {429, "application/json", `{"error":{"message":"later"}}`, false, false},
		"error inside a stream":  {200, "text/event-stream", roleEvent + tokenEvent + `data: {"error":{"message":"boom"}}` + "\n\n" + doneEvent, true, false},
		"stream without its end": {200, "text/event-stream", roleEvent + tokenEvent, true, true},
		"nothing":                {200, "text/event-stream", "", false, true},
		"no JSON":                {200, "text/html", "<html>", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				w.Write([]byte(c.body))
			})
			f := newFront(t, nil, e.URL, e.URL)
			a, err := f.post(t, t.Context(), chatBody)
			if got := all(t, a, err); got != c.body || a.StatusCode != c.status {
				t.Errorf("%d %q", a.StatusCode, got)
			}
			if want := c.status >= 400; (a.Header.Get("X-Spillway-Reason") == "upstream_status") != want {
				t.Errorf("x-spillway-reason %q", a.Header.Get("X-Spillway-Reason"))
			}
			o := f.outcome(t)
			if o.Status != feature.UpstreamError || o.HTTPStatus != c.status || !unknown(o.E2E) || unknown(o.TTFT) == c.ttft {
				t.Errorf("outcome %+v", o)
			}
			if e.requests() != 1 {
				t.Errorf("%d requests reached an endpoint", e.requests())
			}
			if n := f.pool.failures.Load(); (n == 1) != c.sick {
				t.Errorf("the pool heard of %d failures", n)
			}
		})
	}
}

func TestPathsThatAreNotUnderstood(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Write([]byte("<pong>"))
	})
	f := newFront(t, nil, e.URL+"/base/")
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/audio/transcriptions?x=1&y=%2F", "--multipart\xff"},
		{"POST", "/v1/tokenize", `{"model":"qwen"}`},
		{"GET", "/v1/files/a%2Fb", ""},
		{"GET", "/v1/chat/completions", ""},
		{"DELETE", "/v1/responses/r1", ""},
	} {
		a, err := f.do(t, t.Context(), c.method, c.path, strings.NewReader(c.body), "Accept-Encoding", "br")
		if got := all(t, a, err); got != "<pong>" || a.StatusCode != 200 {
			t.Errorf("%s %s: %d %q", c.method, c.path, a.StatusCode, got)
		}
		if kind := a.Header.Get("Content-Type"); kind != "" {
			t.Errorf("a content type was made up: %q", kind)
		}
		r, body := e.last()
		if r.Method != c.method || r.RequestURI != "/base"+c.path || body != c.body || r.Header.Get("Accept-Encoding") != "br" {
			t.Errorf("%s %s reached the engine as %s %s %q, accepting %q", c.method, c.path, r.Method, r.RequestURI, body, r.Header.Get("Accept-Encoding"))
		}
		if o := f.outcome(t); o.Status != feature.OK || !unknown(o.TTFT) || !(o.E2E > 0) {
			t.Errorf("outcome %+v", o)
		}
	}
}
