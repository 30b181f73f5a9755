package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spillway-llm/spillway/internal/openai"
	"pgregory.net/rapid"
)

const (
	chat        = "/v1/chat/completions"
	completions = "/v1/completions"
	responses   = "/v1/responses"
	embeddings  = "/v1/embeddings"
)

// prompt renders the prompt of a request as kind:text pairs.
func prompt(body string, r openai.Request) []string {
	names := map[openai.Kind]string{
		openai.Tools: "tools", openai.System: "system", openai.Role: "role", openai.Text: "text",
		openai.Calls: "calls", openai.Media: "media", openai.Tokens: "tokens",
	}
	var out []string
	for _, s := range r.Prompt {
		out = append(out, names[s.Kind]+":"+body[s.Start:s.End])
	}
	return out
}

func TestScanReadsWhatRoutingNeeds(t *testing.T) {
	body := `{"stream": true, "model":"q\u0077en", "n":2, "max_tokens":7, "max_completion_tokens": 1e2,
		"priority":-3, "cache_salt":"s", "stream_options":{"include_usage":true, "x":[1]}, "spillway": {"priority": -1 }, "messages":[]}`
	r, err := openai.Scan([]byte(body), chat)
	if err != nil {
		t.Fatal(err)
	}
	got := scanned([]byte(body), r)
	want := facts{Model: "qwen", Salt: "s", Stream: true, IncludeUsage: true, MaxTokens: 100, N: 2, Priority: -3, HasPriority: true, Hints: `{"priority": -1 }`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPromptIsInTemplateOrder(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		want             []string
		bytes, images    int
		ids              int
	}{
		{
			name: "tools and system come first, and a role before its content", path: chat,
			body:  `{"model":"m","messages":[{"content":"hi","role":"user"},{"role":"assistant","content":null,"tool_calls":[{"id":1}]}],"system":"be kind","tools":[{"f":1}]}`,
			want:  []string{`tools:[{"f":1}]`, "system:be kind", "role:user", "text:hi", "role:assistant", `calls:[{"id":1}]`},
			bytes: 9 + 7 + 4 + 2 + 9 + 10,
		},
		{
			name: "images are no text", path: chat,
			body:   `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"see"},{"image_url":{"url":"data:image/png;base64,AAAA"}},"bare"]}]}`,
			want:   []string{"role:user", "text:see", `media:{"url":"data:image/png;base64,AAAA"}`, "text:bare"},
			bytes:  4 + 3 + 4,
			images: 1,
		},
		{
			name: "the last of a repeated key counts", path: chat,
			body:  `{"model":"m","tools":[1],"messages":[{"role":"user","content":[{"image_url":"a"}],"content":"b","role":"tool"}],"tools":[],"messages":[{"role":"x","content":"old","name":"n","content":"new"}]}`,
			want:  []string{"role:x", "text:n", "text:new"},
			bytes: 5,
		},
		{
			name: "tools without system", path: chat,
			body: `{"model":"m","messages":[{"content":"c"}],"tools":[1]}`, want: []string{"tools:[1]", "text:c"}, bytes: 4,
		},
		{name: "a string", path: completions, body: `{"model":"m","prompt":"a\nb"}`, want: []string{`text:a\nb`}, bytes: 4},
		{name: "strings", path: completions, body: `{"model":"m","prompt":["a","b"]}`, want: []string{"text:a", "text:b"}, bytes: 2},
		{name: "token ids", path: completions, body: `{"model":"m","prompt":[1, 22,333]}`, want: []string{"tokens:[1, 22,333]"}, ids: 3},
		{name: "arrays of token ids", path: embeddings, body: `{"model":"m","input":[[1,2],[3]]}`, want: []string{"tokens:[1,2]", "tokens:[3]"}, ids: 3},
		{
			name: "response items", path: responses,
			body: `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"q"},{"type":"input_image","image_url":"http://i"}]},` +
				`{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"42"}],"instructions":"short"}`,
			want:   []string{"system:short", "role:user", "text:q", "media:http://i", "text:f", "text:{}", "text:42"},
			bytes:  5 + 4 + 1 + 1 + 2 + 2,
			images: 1,
		},
		{name: "a response to a string", path: responses, body: `{"model":"m","input":"q"}`, want: []string{"text:q"}, bytes: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := openai.Scan([]byte(c.body), c.path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, prompt(c.body, r)); d != "" {
				t.Error(d)
			}
			if r.PromptBytes != c.bytes || r.Images != c.images || r.TokenIDs != c.ids {
				t.Errorf("bytes %d, images %d, ids %d; want %d, %d, %d", r.PromptBytes, r.Images, r.TokenIDs, c.bytes, c.images, c.ids)
			}
		})
	}
}

func TestScanNamesTheFault(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{``, "byte 0: expected a JSON object"},
		{`[]`, "byte 0: expected a JSON object"},
		{`{"model":"m","n":0}`, "byte 17, in `n`: must be a whole number from 1 to 128"},
		{`{"model":"m","n":10000000}`, "byte 17, in `n`: must be a whole number from 1 to 128"},
		{`{"model":"m","n":1.5}`, "byte 17, in `n`: must be a whole number"},
		{`{"model":"m","stream":"yes"}`, "byte 22, in `stream`: must be true or false"},
		{`{"model":7}`, "byte 9, in `model`: must be a string"},
		{`{"messages":[]}`, "in `model`: missing"},
		{`{"model":null}`, "in `model`: missing"},
		{`{"model":"m","messages":"hi"}`, "in `messages`: must be an array of messages"},
		{`{"model":"m","messages":[{"role":"user"]}`, "byte 39, in `messages`: expected , or }"},
		{`{"model":"m"} x`, "byte 14: unexpected bytes"},
		{`{"model":"m","spillway":"soon"}`, "in `spillway`: must be an object"},
		{`{"model":"m","stream_options":1}`, "in `stream_options`: must be an object"},
		{`{"model":"m","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "in `x`: nested too deeply"},
	} {
		_, err := openai.Scan([]byte(c.body), chat)
		var e *openai.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s\n got %v\nwant %s", c.body, err, c.want)
		}
	}
}

func TestOtherPathsMayCarryAnything(t *testing.T) {
	for _, body := range []string{"", "--multipart\r\n", `{"input":1}`, `{"model":"m"`} {
		if r, err := openai.Scan([]byte(body), "/v1/audio/speech"); err != nil || r.Model != "" || r.N != 1 {
			t.Errorf("%q: %+v, %v", body, r, err)
		}
	}
	r, err := openai.Scan([]byte(`{"model":"m","stream":true}`), "/v1/rerank")
	if err != nil || r.API != openai.Other || r.Model != "m" || !r.Stream {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAPIOf(t *testing.T) {
	for path, want := range map[string]openai.API{
		chat: openai.Chat, chat + "/": openai.Chat, completions + "?x=1": openai.Completions,
		"/team/v1/responses": openai.Responses, "/v1/responses/abc": openai.Other, "/v1/models": openai.Other,
		embeddings: openai.Embeddings, "": openai.Other,
	} {
		if got := openai.APIOf(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

// bodies draws request-like JSON with the keys that matter, repeated and of
// all types.
func bodies() *rapid.Generator[string] {
	key := rapid.SampledFrom([]string{
		"model", "messages", "prompt", "input", "stream", "stream_options", "include_usage", "n", "max_tokens",
		"max_completion_tokens", "max_output_tokens", "priority", "cache_salt", "tools", "system", "instructions", "role",
		"content", "text", "spillway", "image_url", "image", "file", "name", "tool_calls", "reasoning", "refusal", "output", `m\u006fdel`, "x",
	})
	scalar := rapid.SampledFrom([]string{
		"null", "true", "false", "0", "1", "-2", "3.0", "1e2", "2.5", "12345678901234567890", `""`, `"a"`, `"\n\u00e9\ud83d\ude00\ud800 \"q\""`,
		`"` + strings.Repeat("long ", 9) + `"`, "\"\xff\"", "[]", "{}", " [ ] ",
	})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 4).Draw(t, "kind")
			if depth == 0 || kind < 2 {
				return scalar.Draw(t, "scalar")
			}
			n := rapid.IntRange(0, 3).Draw(t, "n")
			var parts []string
			for range n {
				v := value(depth-1).Draw(t, "v")
				if kind == 2 {
					v = fmt.Sprintf("%q : %s", "K", v)
					v = strings.Replace(v, "K", key.Draw(t, "key"), 1)
				}
				parts = append(parts, v)
			}
			if kind == 2 {
				return "{" + strings.Join(parts, ",") + "}"
			}
			return "[" + strings.Join(parts, " , ") + "]"
		})
	}
	return rapid.Custom(func(t *rapid.T) string {
		parts := []string{`"model":"m"`}
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			parts = append(parts, `"`+key.Draw(t, "key")+`":`+value(4).Draw(t, "value"))
		}
		return "{" + strings.Join(parts, ",") + "}"
	})
}

func agree(t interface {
	Errorf(string, ...any)
}, body []byte, path string) {
	r, err := openai.Scan(body, path)
	want, twin := read(body, openai.APIOf(path))
	if (err != nil) != (twin != nil) {
		t.Errorf("%s %q\nScan: %v\ntwin: %v", path, body, err, twin)
		return
	}
	if err != nil {
		return
	}
	if d := cmp.Diff(want, scanned(body, r)); d != "" {
		t.Errorf("%s %q\n%s", path, body, d)
	}
	asked := r.WithUsage(body)
	if again, err := openai.Scan(asked, path); err != nil {
		t.Errorf("WithUsage(%q) = %q: %v", body, asked, err)
	} else if streams := r.API == openai.Chat || r.API == openai.Completions; streams && again.IncludeUsage != (r.IncludeUsage || r.Stream) {
		t.Errorf("WithUsage(%q) = %q", body, asked)
	} else if d := cmp.Diff(scanned(body, r).Texts, scanned(asked, again).Texts); d != "" {
		t.Errorf("WithUsage changed the prompt of %q:\n%s", body, d)
	}
}

func TestScanAgreesWithDecoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{chat, completions, responses, embeddings}).Draw(t, "path")
		agree(t, []byte(bodies().Draw(t, "body")), path)
	})
}

func FuzzScan(f *testing.F) {
	for i, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
		`{"model":"m","prompt":[1,2],"stream_options":{"include_usage":null},"stream":true}`,
		`{"model":"m","input":[{"content":[{"type":"input_image","image_url":"data:"}]}]}`,
		`{"model":"\ud83d\ude00","n":1e0,"tools":[{}],"prompt":"\\"}`, `{"a":[[[]]],"b":-0.1E-2}`,
	} {
		f.Add([]byte(body), i)
	}
	f.Fuzz(func(t *testing.T, body []byte, which int) {
		agree(t, body, []string{chat, completions, responses, embeddings}[uint(which)%4])
	})
}

func TestWithUsageInsertsBytes(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{`{"model":"m","stream":true,"stream_options":null}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"model":"m","stream":true,"stream_options":{ }}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"model":"m","stream":true,"stream_options":{"a":1}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true,"a":1}}`},
		{`{"model":"m","stream":true,"stream_options":{"include_usage": false}}`, `{"model":"m","stream":true,"stream_options":{"include_usage": true}}`},
		{`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		{`{"model":"m"}`, `{"model":"m"}`},
	} {
		r, err := openai.Scan([]byte(c.body), chat)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.WithUsage([]byte(c.body))); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.body, got, c.want)
		}
	}
}

func longBody() []byte {
	text, _ := json.Marshal(strings.Repeat("the quick brown fox ", 400))
	var b strings.Builder
	b.WriteString(`{"model":"qwen","stream":true,"tools":[{"type":"function"}],"messages":[`)
	for i := range 20 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":%s}`, text)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func TestScanAllocates(t *testing.T) {
	body := longBody()
	var r openai.Request
	if n := testing.AllocsPerRun(100, func() { _ = r.Scan(body, chat) }); n != 0 {
		t.Errorf("scanning into a used Request: %v allocations, want 0", n)
	}
	// The model's name, and the span list as it grows.
	if n := testing.AllocsPerRun(100, func() { _, _ = openai.Scan(body, chat) }); n > 9 {
		t.Errorf("scanning into a new Request: %v allocations, want at most 9", n)
	}
}

func BenchmarkScan(b *testing.B) {
	body := longBody()
	b.SetBytes(int64(len(body)))
	var r openai.Request
	for b.Loop() {
		_ = r.Scan(body, chat)
	}
}
