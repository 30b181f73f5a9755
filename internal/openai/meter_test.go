package openai_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spillway-llm/spillway/internal/openai"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// event is one server-sent event of a test stream.
func event(data string) string { return "data: " + data + "\n\n" }

// delta is an event of a chat stream with one choice.
func delta(fields string) string {
	return event(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{` + fields + `},"finish_reason":null}]}`)
}

const usageEvent = `{"id":"c","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8}}}`

// reading is everything a Meter tells.
type reading struct {
	First, Last       time.Duration // since start; -1 where there is none
	Events, Tokens    int
	Usage             openai.Usage
	HasUsage, Done    bool
	Streamed          bool
	Finish, Failure   string
	Failed            bool
	Skipped, Malformd int
}

func reads(m *openai.Meter) reading {
	r := reading{
		First: -1, Last: -1, Events: m.Events(), Tokens: m.Tokens(), Done: m.Done(), Streamed: m.Streamed(),
		Finish: m.FinishReason(), Skipped: m.Skipped(), Malformd: m.Malformed(),
	}
	if !m.FirstToken().IsZero() {
		r.First, r.Last = m.FirstToken().Sub(start), m.LastToken().Sub(start)
	}
	r.Usage, r.HasUsage = m.Usage()
	r.Failure, r.Failed = m.Failure()
	return r
}

// meter feeds chunks a second apart.
func meter(chunks ...string) *openai.Meter {
	var m openai.Meter
	now := start
	for _, c := range chunks {
		now = now.Add(time.Second)
		m.Write([]byte(c), now)
	}
	m.Finish(now)
	return &m
}

func TestMeterFindsTheFirstTokenOfAnyChannel(t *testing.T) {
	role := delta(`"role":"assistant","content":""`)
	for name, c := range map[string]struct {
		events []string
		first  int // index of the event with the first token, -1 for none
	}{
		"content":           {[]string{role, delta(`"content":"a"`), delta(`"content":"b"`)}, 1},
		"reasoning first":   {[]string{role, delta(`"reasoning_content":"hm"`), delta(`"content":"b"`)}, 1},
		"reasoning":         {[]string{role, delta(`"content":null,"reasoning":"hm"`)}, 1},
		"tool call":         {[]string{role, delta(`"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]`)}, 1},
		"empty tool call":   {[]string{delta(`"tool_calls":[{"index":0,"id":"x","function":{"arguments":""}}]`), delta(`"tool_calls":[]`)}, -1},
		"refusal":           {[]string{role, delta(`"refusal":"no"`)}, 1},
		"completions":       {[]string{event(`{"choices":[{"text":""}]}`), event(`{"choices":[{"text":"x"}]}`)}, 1},
		"responses":         {[]string{event(`{"type":"response.created","response":{}}`), event(`{"type":"response.output_text.delta","delta":"x"}`)}, 1},
		"only empty chunks": {[]string{role, delta(``), ": comment\n\n", "\n", event(`[DONE]`)}, -1},
		"two choices":       {[]string{event(`{"choices":[{"delta":{"role":"assistant"}},{"delta":{"content":"x"}}]}`)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := reads(meter(c.events...))
			want := time.Duration(c.first+1) * time.Second
			if c.first < 0 {
				want = -1
			}
			if r.First != want {
				t.Errorf("first token at %v, want %v", r.First, want)
			}
		})
	}
}

func TestMeterReadsHowAStreamEnds(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []string
		want   reading
	}{
		"usage over two chunks, CRLF": {
			[]string{strings.ReplaceAll(delta(`"content":"a"`), "\n", "\r\n"), "data: " + usageEvent[:40], usageEvent[40:] + "\r\n\r", "\n" + event("[DONE]")},
			reading{First: time.Second, Last: time.Second, Events: 1, Tokens: 5, Usage: openai.Usage{PromptTokens: 11, CachedTokens: 8, CompletionTokens: 5}, HasUsage: true, Done: true, Streamed: true},
		},
		"finish reason, no usage, null usage": {
			[]string{delta(`"content":"a"`), event(`{"choices":[{"delta":{"content":"b"},"finish_reason":"length"}],"usage":null}`)},
			reading{First: time.Second, Last: 2 * time.Second, Events: 2, Tokens: 2, Usage: openai.Usage{-1, -1, -1}, Streamed: true, Finish: "length"},
		},
		"last event without its empty line": {
			[]string{delta(`"content":"a"`), "data: [DONE]\n"},
			reading{First: time.Second, Last: time.Second, Events: 1, Tokens: 1, Usage: openai.Usage{-1, -1, -1}, Streamed: true, Done: true},
		},
		"an error inside": {
			[]string{delta(`"content":"a"`), event(`{"error":{"message":"out of \"memory\"","code":500}}`)},
			reading{First: time.Second, Last: time.Second, Events: 1, Tokens: 1, Usage: openai.Usage{-1, -1, -1}, Streamed: true, Failed: true, Failure: `out of "memory"`},
		},
		"a null error is none": {
			[]string{event(`{"error":null,"choices":[{"text":"a"}]}`)},
			reading{First: time.Second, Last: time.Second, Events: 1, Tokens: 1, Usage: openai.Usage{-1, -1, -1}, Streamed: true},
		},
		"responses": {
			[]string{event(`{"type":"response.reasoning_text.delta","delta":"a"}`), "event: response.completed\n" + event(`{"type":"response.completed","response":{"error":null,"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},"output_tokens":2}}}`)},
			reading{First: time.Second, Last: time.Second, Events: 1, Tokens: 2, Usage: openai.Usage{PromptTokens: 3, CachedTokens: 0, CompletionTokens: 2}, HasUsage: true, Done: true, Streamed: true},
		},
		"data over several lines, broken JSON": {
			[]string{"data: {\"choices\":\ndata:[{\"text\":\"a\"}]}\n\n", event(`{"choices":`)},
			reading{First: time.Second, Last: time.Second, Events: 1, Tokens: 1, Usage: openai.Usage{-1, -1, -1}, Streamed: true, Malformd: 1},
		},
		"an event that is too long": {
			[]string{event(`"` + strings.Repeat("x", openai.MaxEvent) + `"`), delta(`"content":"a"`)},
			reading{First: 2 * time.Second, Last: 2 * time.Second, Events: 1, Tokens: 1, Usage: openai.Usage{-1, -1, -1}, Streamed: true, Skipped: 1},
		},
		"a whole response": {
			[]string{"\n", `{"choices":[{"message":{"content":"say \"usage\": {"}}],"x":{"usage":{"prompt_tokens":9}},`, `"usage" : {"prompt_tokens":4,"completion_tokens":3}, "error":null}` + "\n"},
			reading{First: -1, Last: -1, Tokens: 3, Usage: openai.Usage{PromptTokens: 4, CachedTokens: -1, CompletionTokens: 3}, HasUsage: true, Done: true},
		},
		"a whole error": {
			[]string{`{"error":{"message":"no such model"}}`},
			reading{First: -1, Last: -1, Usage: openai.Usage{-1, -1, -1}, Done: true, Failed: true, Failure: "no such model"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, reads(meter(c.chunks...))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestNewTokensDrawsDownOnce(t *testing.T) {
	var m openai.Meter
	feed := func(s string) int { m.Write([]byte(s), start); return m.NewTokens() }
	got := []int{
		feed(delta(`"role":"assistant"`)), feed(delta(`"content":"a"`) + delta(`"content":"b"`)), m.NewTokens(),
		feed(event(usageEvent)), m.NewTokens(),
	}
	if d := cmp.Diff([]int{0, 2, 0, 3, 0}, got); d != "" {
		t.Error(d)
	}
	m.Reset()
	if d := cmp.Diff(reads(new(openai.Meter)), reads(&m)); d != "" || m.NewTokens() != 0 {
		t.Errorf("after Reset: %s", d)
	}
}

// streams draws response bytes: events of many sorts, and plain noise.
func streams() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		delta(`"role":"assistant"`), delta(`"content":"tok"`), delta(`"reasoning":"tok"`), event(usageEvent), event("[DONE]"),
		": ping\n\n", "\n", "\r\n", "data: x\r\n\r\n", "data: {\"choices\":\ndata: []}\n\n", "event: e\nid: 1\n", "\r", "{", `}`, `"`, `\`,
		event(`{"error":{"message":"m\u0041"}}`), `{"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `{"a":"\"{","usage":{"prompt_tokens":1},"error":"e"}`,
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
	})
}

// invariant checks that cuts do not matter to a Meter and to StripUsage.
func invariant(t interface {
	Errorf(string, ...any)
}, body []byte, next func(left int) int) {
	var whole, cut openai.Meter
	var strip, stripCut openai.StripUsage
	whole.Write(body, start)
	whole.Finish(start)
	want := string(strip.Flush(strip.Filter(nil, body)))
	var got []byte
	chunk := make([]byte, 0, len(body))
	for rest := body; len(rest) > 0; {
		n := max(1, min(next(len(rest)), len(rest)))
		chunk = append(chunk[:0], rest[:n]...)
		cut.Write(chunk, start)
		got = stripCut.Filter(got, chunk)
		for i := range chunk {
			chunk[i] = '#' // a chunk's memory is the caller's again
		}
		rest = rest[n:]
	}
	cut.Finish(start)
	got = stripCut.Flush(got)
	if d := cmp.Diff(reads(&whole), reads(&cut)); d != "" {
		t.Errorf("cuts matter to the meter of %q:\n%s", body, d)
	}
	if string(got) != want {
		t.Errorf("cuts matter to the filter of %q:\n%q\n%q", body, want, got)
	}
}

func TestCutsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := streams().Draw(t, "body")
		invariant(t, []byte(body), func(left int) int { return rapid.IntRange(1, left).Draw(t, "cut") })
	})
}

func TestCutsDoNotMatterToLongEvents(t *testing.T) {
	for _, size := range []int{openai.MaxEvent - 8, openai.MaxEvent - 7, openai.MaxEvent + 9} {
		body := "data: " + strings.Repeat("x", size-6) + "\n\n" + event(usageEvent)
		for _, step := range []int{openai.MaxEvent / 3, openai.MaxEvent - 1, 60_000} {
			invariant(t, []byte(body), func(int) int { return step })
		}
	}
	whole := `{"error":"` + strings.Repeat("x", 70_000) + `","usage":{"prompt_tokens":1}}`
	invariant(t, []byte(whole), func(int) int { return 777 })
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte(delta(`"content":"a"`)+event(usageEvent)+event("[DONE]")), uint8(3))
	f.Add([]byte("data: [DONE]\r\n\r\n"), uint8(1))
	f.Add([]byte(`{"usage":{"prompt_tokens":1}}`), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		invariant(t, body, func(int) int { return int(step) })
	})
}

// TestMeterAgreesWithDecoding compares with a twin that decodes each chunk.
func TestMeterAgreesWithDecoding(t *testing.T) {
	text := rapid.SampledFrom([]string{`""`, `null`, `"a"`, `"\u0061\n"`})
	rapid.Check(t, func(t *rapid.T) {
		var stream string
		want, finish := 0, ""
		for range rapid.IntRange(0, 8).Draw(t, "events") {
			data := fmt.Sprintf(`{"choices":[{"delta":{"content":%s,"reasoning_content":%s},"finish_reason":%s}]}`,
				text.Draw(t, "content"), text.Draw(t, "reasoning"), rapid.SampledFrom([]string{"null", `"stop"`, `"odd\u0041"`}).Draw(t, "finish"))
			var twin struct {
				Choices []struct {
					Delta struct {
						Content   string
						Reasoning string `json:"reasoning_content"`
					}
					Finish *string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal([]byte(data), &twin); err != nil {
				t.Fatal(err)
			}
			if c := twin.Choices[0]; c.Delta.Content+c.Delta.Reasoning != "" {
				want++
			}
			if c := twin.Choices[0]; c.Finish != nil {
				finish = *c.Finish
			}
			stream += event(data)
		}
		if m := meter(stream); m.Events() != want || m.FinishReason() != finish {
			t.Errorf("%d events, finish %q; want %d, %q: %q", m.Events(), m.FinishReason(), want, finish, stream)
		}
	})
}

func TestStripUsageRemovesTheExtraChunkOnly(t *testing.T) {
	kept := []string{
		delta(`"role":"assistant"`), delta(`"content":"\"usage\""`),
		event(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`),
		event(`{"choices":[],"usage":null}`), ": \"usage\"\r\n\r\n", event("[DONE]"), "data: tail",
	}
	in := strings.Join(kept[:5], "") + event(usageEvent) + strings.Join(kept[5:], "")
	var s openai.StripUsage
	got := string(s.Flush(s.Filter(nil, []byte(in))))
	if d := cmp.Diff(strings.Join(kept, ""), got); d != "" {
		t.Error(d)
	}
}

func TestLabels(t *testing.T) {
	nan := math.NaN()
	token := delta(`"content":"a"`)
	for name, c := range map[string]struct {
		chunks []string
		want   openai.Labels
	}{
		"usage counts the tokens":   {[]string{"", token, "", token, event(usageEvent)}, openai.Labels{TTFT: 2, TPOT: 0.5, E2E: 10}},
		"events where usage is not": {[]string{token, token, token}, openai.Labels{TTFT: 1, TPOT: 1, E2E: 10}},
		"one token has no TPOT":     {[]string{token}, openai.Labels{TTFT: 1, TPOT: nan, E2E: 10}},
		"all at once has no TPOT":   {[]string{token + token + event(usageEvent)}, openai.Labels{TTFT: 1, TPOT: nan, E2E: 10}},
		"whole response":            {[]string{`{"usage":{"prompt_tokens":1,"completion_tokens":9}}`}, openai.Labels{TTFT: nan, TPOT: nan, E2E: 10}},
		"nothing came":              {nil, openai.Labels{TTFT: nan, TPOT: nan, E2E: 10}},
	} {
		got := meter(c.chunks...).Labels(start, start.Add(10*time.Second))
		if d := cmp.Diff(fmt.Sprint(c.want), fmt.Sprint(got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if l := meter(token).Labels(start, time.Time{}); !math.IsNaN(l.E2E) || l.TTFT != 1 {
		t.Errorf("unfinished: %v", l)
	}
}

func TestErrorBody(t *testing.T) {
	got := string(openai.ErrorBody(429, "", "shed", `no "room"`))
	want := `{"error":{"message":"no \"room\"","type":"rate_limit_error","param":null,"code":"shed"}}`
	if got != want {
		t.Errorf("%s", got)
	}
	if got := string(openai.ErrorBody(502, "upstream", "", "m")); got != `{"error":{"message":"m","type":"upstream","param":null,"code":null}}` {
		t.Errorf("%s", got)
	}
}

func TestMeteringAllocatesNothing(t *testing.T) {
	token := []byte(delta(`"content":"tok"`))
	var m openai.Meter
	var s openai.StripUsage
	out := make([]byte, 0, 4096)
	whole := testing.AllocsPerRun(200, func() { m.Write(token, start); m.NewTokens() })
	split := testing.AllocsPerRun(200, func() { m.Write(token[:50], start); m.Write(token[50:], start) })
	strip := testing.AllocsPerRun(200, func() { out = s.Filter(s.Filter(out[:0], token[:50]), token[50:]) })
	if whole+split+strip != 0 {
		t.Errorf("allocations per event: whole %v, split %v, stripped %v; want none", whole, split, strip)
	}
}

func BenchmarkMeter(b *testing.B) {
	token := []byte(delta(`"content":"tok"`))
	b.SetBytes(int64(len(token)))
	var m openai.Meter
	for b.Loop() {
		m.Write(token, start)
	}
}
