package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/fleet/server"
	"github.com/spillway-llm/spillway/internal/physics"
)

// quick steps in about a millisecond, without noise.
func quick() physics.Profile {
	return physics.Profile{
		Name:                  "quick",
		Coefficients:          physics.Coefficients{A: 0.001},
		MaxBatchedTokens:      8192,
		MaxNumSeqs:            64,
		KVCapacityTokens:      1 << 20,
		BlockTokens:           16,
		PeakPrefillThroughput: 15928,
	}
}

// serve runs a fleet until the test ends.
func serve(t *testing.T, cfg server.Config) *server.Server {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "m"
	}
	if cfg.Groups == nil {
		cfg.Groups = []server.Group{{Profile: quick(), Count: 1}}
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

type object = map[string]any

func send(t *testing.T, ctx context.Context, method, url string, body any) (*http.Response, error) {
	t.Helper()
	data, ok := body.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return http.DefaultClient.Do(req)
}

// post returns the decoded answer.
func post(t *testing.T, url string, body any) (int, object) {
	t.Helper()
	resp, err := send(t, t.Context(), "POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got object
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, got
}

// events reads a stream to its end: the decoded events before [DONE].
func events(t *testing.T, body io.Reader) (all []object) {
	t.Helper()
	sc := bufio.NewScanner(body)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			if sc.Text() != "" {
				t.Fatalf("line %q is no event", sc.Text())
			}
			continue
		}
		if data == "[DONE]" {
			return all
		}
		var ev object
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		all = append(all, ev)
	}
	t.Fatalf("the stream ended without [DONE] after %d events: %v", len(all), sc.Err())
	return nil
}

func stream(t *testing.T, url string, body object) []object {
	t.Helper()
	body["stream"] = true
	resp, err := send(t, t.Context(), "POST", url, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		t.Errorf("content type %q", got)
	}
	return events(t, resp.Body)
}

// at walks into decoded JSON; a missing step gives nil.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func TestCompletionStreams(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0] + "/v1/completions"
	ask := func() object {
		return object{"model": "m", "prompt": strings.Repeat("p", 101), "max_tokens": 30, "ignore_eos": true, "stream_options": object{"include_usage": true}}
	}
	evs := stream(t, url, ask())
	if len(evs) != 31 {
		t.Fatalf("%d events, want 30 tokens and the usage", len(evs))
	}
	var text strings.Builder
	for i, ev := range evs[:30] {
		token, _ := at(ev, "choices", 0, "text").(string)
		if len(token) != 4 || token[0] != ' ' {
			t.Errorf("token %d is %q", i, token)
		}
		text.WriteString(token)
		want := any(nil)
		if i == 29 {
			want = "length"
		}
		if got := at(ev, "choices", 0, "finish_reason"); got != want {
			t.Errorf("token %d: finish_reason %v, want %v", i, got, want)
		}
	}
	usage := object{
		"prompt_tokens": 26.0, "completion_tokens": 30.0, "total_tokens": 56.0,
		"prompt_tokens_details": object{"cached_tokens": 0.0},
	}
	if diff := cmp.Diff(usage, at(evs[30], "usage")); diff != "" {
		t.Error(diff)
	}
	if got := at(evs[30], "choices"); !cmp.Equal(got, []any{}) {
		t.Errorf("choices beside the usage: %v", got)
	}

	status, whole := post(t, url, ask())
	if status != 200 || at(whole, "choices", 0, "text") != text.String() {
		t.Errorf("status %d, the whole text differs from the stream: %v", status, whole)
	}
	usage["prompt_tokens_details"] = object{"cached_tokens": 16.0}
	if diff := cmp.Diff(usage, at(whole, "usage")); diff != "" {
		t.Errorf("second time: %s", diff)
	}
}

func TestChatStreamsRoleThenReasoningThenContent(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0] + "/v1/chat/completions"
	ask := object{
		"model": "m", "messages": []object{{"role": "user", "content": "why?"}},
		"max_completion_tokens": 10, "ignore_eos": true, "chat_template_kwargs": object{"enable_thinking": true},
	}
	evs := stream(t, url, ask)
	var kinds []string
	for _, ev := range evs {
		delta, _ := at(ev, "choices", 0, "delta").(object)
		for _, k := range []string{"role", "reasoning_content", "content"} {
			if delta[k] != nil {
				kinds = append(kinds, k)
				break
			}
		}
	}
	want := strings.Fields("role" + strings.Repeat(" reasoning_content", 5) + strings.Repeat(" content", 5))
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if got := at(evs[0], "choices", 0, "delta", "content"); got != "" {
		t.Errorf("the role comes with content %v", got)
	}
	ask["stream"] = false
	_, whole := post(t, url, ask)
	message, _ := at(whole, "choices", 0, "message").(object)
	if len(message["reasoning_content"].(string)) != 20 || len(message["content"].(string)) != 20 || message["role"] != "assistant" {
		t.Errorf("message %v", message)
	}
	if at(whole, "usage", "prompt_tokens") != 2.0 { // "userwhy?"
		t.Errorf("usage %v", whole["usage"])
	}
}

func TestPrefixCacheOverTheAPI(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0] + "/v1/chat/completions"
	question := object{"role": "user", "content": strings.Repeat("a long question ", 100)}
	ask := func(salt string, messages ...object) object {
		_, got := post(t, url, object{"model": "m", "messages": messages, "max_tokens": 100, "ignore_eos": true, "cache_salt": salt})
		return got
	}
	cached := func(answer object) float64 {
		return at(answer, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	}
	first := ask("", question) // 401 tokens
	if got := cached(first); got != 0 {
		t.Errorf("first request: cached %v", got)
	}
	if got := cached(ask("", question)); got != 400 {
		t.Errorf("same request: cached %v, want 400", got)
	}
	if got := cached(ask("salt", question)); got != 0 {
		t.Errorf("other salt: cached %v", got)
	}
	reply := at(first, "choices", 0, "message").(object)
	next := ask("", question, object{"role": "assistant", "content": reply["content"]}, object{"role": "user", "content": "go on"})
	if got := cached(next); got != 496 { // of 401 + 99 computed
		t.Errorf("next turn: cached %v, want 496", got)
	}
}

func TestOutputLengthIsTheSameEverywhere(t *testing.T) {
	s := serve(t, server.Config{Groups: []server.Group{{Profile: quick(), Count: 2}}, Seed: 3, MedianOutput: 20})
	lengths := map[float64]bool{}
	for i := range 10 {
		ask := object{"model": "m", "prompt": strings.Repeat("x", i+1)}
		_, a := post(t, s.URLs()[0]+"/v1/completions", ask)
		_, b := post(t, s.URLs()[1]+"/v1/completions", ask)
		if diff := cmp.Diff(a["choices"], b["choices"]); diff != "" {
			t.Error(diff)
		}
		if got := at(a, "choices", 0, "finish_reason"); got != "stop" {
			t.Errorf("finish_reason %v", got)
		}
		lengths[at(a, "usage", "completion_tokens").(float64)] = true
		ask["max_tokens"] = 2
		if _, c := post(t, s.URLs()[0]+"/v1/completions", ask); at(c, "usage", "completion_tokens").(float64) > 2 {
			t.Errorf("max_tokens 2: %v", c["usage"])
		}
	}
	if len(lengths) < 5 {
		t.Errorf("ten prompts have output lengths %v", lengths)
	}
}

func TestRefusesBadRequests(t *testing.T) {
	url := serve(t, server.Config{MaxTokens: 1000}).URLs()[0]
	chat := []object{{"role": "user", "content": "hi"}}
	cases := []struct {
		name, path string
		body       any
		status     int
	}{
		{"malformed JSON", "completions", []byte(`{"model":`), 400},
		{"other LLM", "completions", object{"model": "other", "prompt": "x"}, 404},
		{"no prompt", "completions", object{"model": "m"}, 400},
		{"two prompts", "completions", object{"model": "m", "prompt": []string{"a", "b"}}, 400},
		{"nested prompt", "completions", []byte(`{"prompt":[[[1]]]}`), 400},
		{"two choices", "completions", object{"model": "m", "prompt": "x", "n": 2}, 400},
		{"no output", "completions", object{"model": "m", "prompt": "x", "max_tokens": 0}, 400},
		{"context length", "completions", object{"model": "m", "prompt": strings.Repeat("x", 3000), "max_tokens": 251}, 400},
		{"endless output", "completions", object{"model": "m", "prompt": "x", "max_tokens": 1 << 30, "ignore_eos": true}, 400},
		{"prompt alone too long", "completions", object{"model": "m", "prompt": strings.Repeat("x", 4000)}, 400},
		{"no messages", "chat/completions", object{"model": "m", "messages": []object{}}, 400},
		{"an image", "chat/completions", object{"model": "m", "messages": []object{{"role": "user", "content": []object{{"type": "image_url"}}}}}, 400},
		{"max_tokens as text", "chat/completions", object{"model": "m", "messages": chat, "max_tokens": "7"}, 400},
		{"too large", "completions", make([]byte, 64<<20+1), 413},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, got := post(t, url+"/v1/"+c.path, c.body)
			if status != c.status || at(got, "error", "code") != float64(c.status) || at(got, "error", "message") == "" {
				t.Errorf("status %d, body %v, want %d", status, got, c.status)
			}
		})
	}
	for _, ok := range []any{
		object{"model": "m", "prompt": []int{1, 2, 3}, "max_tokens": 1},
		object{"model": "m", "prompt": []any{[]int{1, 2, 3}}, "max_tokens": 1},
		object{"model": "m", "prompt": []string{"twelve bytes"}, "max_tokens": 1},
	} {
		if status, got := post(t, url+"/v1/completions", ok); status != 200 || at(got, "usage", "prompt_tokens") != 3.0 {
			t.Errorf("%v: status %d, %v", ok, status, got)
		}
	}
	parts := []object{{"role": "user", "content": []object{{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}}}, {"role": "x", "content": nil}}
	if status, got := post(t, url+"/v1/chat/completions", object{"messages": parts, "max_tokens": 1}); status != 200 || at(got, "usage", "prompt_tokens") != 3.0 {
		t.Errorf("parts: status %d, %v", status, got)
	}
}

func TestModelsAndHealth(t *testing.T) {
	url := serve(t, server.Config{MaxTokens: 4096}).URLs()[0]
	resp, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got object
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if at(got, "data", 0, "id") != "m" || at(got, "data", 0, "max_model_len") != 4096.0 {
		t.Errorf("models %v", got)
	}
	health, err := http.Get(url + "/health")
	if err != nil || health.StatusCode != 200 {
		t.Fatalf("health: %v %v", health, err)
	}
	health.Body.Close()
}

func TestDisconnectFreesTheEngine(t *testing.T) {
	p := quick()
	p.MaxNumSeqs = 1
	url := serve(t, server.Config{Groups: []server.Group{{Profile: p, Count: 1}}}).URLs()[0]
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := send(t, ctx, "POST", url+"/v1/completions", object{"model": "m", "prompt": "x", "max_tokens": 500000, "ignore_eos": true, "stream": true})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	// Only one request runs at a time: this one ends because the first is gone.
	if status, _ := post(t, url+"/v1/completions", object{"model": "m", "prompt": "y", "max_tokens": 2}); status != 200 {
		t.Errorf("status %d", status)
	}
	if got := one(t, scrape(t, url), "vllm:kv_cache_usage_perc").value; got != 0 {
		t.Errorf("%v of the cache is still held", got)
	}
}

func TestRunEndsEverything(t *testing.T) {
	s, err := server.New(server.Config{Model: "m", Groups: []server.Group{{Profile: quick(), Count: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	resp, err := send(t, t.Context(), "POST", s.URLs()[1]+"/v1/completions", object{"model": "m", "prompt": "x", "max_tokens": 500000, "ignore_eos": true, "stream": true})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were complete")
	}
	for _, u := range s.URLs() {
		ln, err := net.Listen("tcp", strings.TrimPrefix(u, "http://"))
		if err != nil {
			t.Errorf("the port is not free: %v", err)
			continue
		}
		ln.Close()
	}
}

func TestNewRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	one := []server.Group{{Profile: quick(), Count: 1}}
	for _, c := range []struct {
		name string
		cfg  server.Config
		want error
	}{
		{"no endpoints", server.Config{Model: "m"}, nil},
		{"no model", server.Config{Groups: one}, nil},
		{"ports past the end", server.Config{Model: "m", Groups: []server.Group{{Profile: quick(), Count: 2}}, Port: 65535}, nil},
		{"bad profile", server.Config{Model: "m", Groups: []server.Group{{Count: 1}}}, nil},
		{"port in use", server.Config{Model: "m", Groups: one, Port: taken.Addr().(*net.TCPAddr).Port}, syscall.EADDRINUSE},
	} {
		_, err := server.New(c.cfg)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
