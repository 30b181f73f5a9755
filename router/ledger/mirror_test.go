package ledger_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
)

// A decision sees what others have in flight; what is this router's own stays
// apart, and a router that is gone leaves nothing.
func TestMirrorCountsBesideTheOwn(t *testing.T) {
	l := ledger.New()
	m := ledger.NewMirror(l)
	own := l.Charge("a", 1, ledger.Entry{PromptTokens: 100, UncachedTokens: 100, ExpectedOutput: 10}, at(0))
	m.Charge(7, "a", 1, ledger.Entry{PromptTokens: 1000, UncachedTokens: 400, ExpectedOutput: 50, Chain: []uint64{1, 2}}, at(1))
	m.Charge(8, "b", 1, ledger.Entry{PromptTokens: 30, UncachedTokens: 30, ExpectedOutput: 5}, at(1))

	s := l.State("a", 1, at(1), at(0.5))
	if s.Requests != 2 || s.PrefillTokens != 500 || s.SinceScrape != 1 || s.SinceScrapeTok != 400 {
		t.Errorf("endpoint a is seen as %+v", s)
	}
	if l.Own("a", 1) != 1 || l.Own("b", 1) != 0 || l.Own("c", 1) != 0 || l.Open() != 1 || l.Foreign() != 2 {
		t.Errorf("own %d at a and %d at b, %d open, %d foreign", l.Own("a", 1), l.Own("b", 1), l.Open(), l.Foreign())
	}
	if !m.Computing("a", 1, 2, 1) || m.Computing("a", 1, 2, 0) || m.Computing("a", 1, 2, 2) || m.Computing("b", 1, 2, 1) || m.Computing("a", 2, 2, 1) {
		t.Error("who computes block 2 is not known")
	}
	if e, first := m.Generated(7, 1, at(2)); !first || e.UncachedTokens != 400 || m.Computing("a", 1, 2, 1) {
		t.Errorf("the first token ended the prefill of %+v, %t", e, first)
	}
	if _, first := m.Generated(7, 40, at(3)); first {
		t.Error("a prefill ended twice")
	}
	if s := l.State("a", 1, at(3), at(0)); s.Decoding != 1 || s.ContextTokens != 1040 || s.PrefillTokens != 100 {
		t.Errorf("endpoint a is seen as %+v", s)
	}
	if ended := m.Clear(); ended != 2 || m.Len() != 0 || l.Foreign() != 0 || l.Open() != 1 {
		t.Errorf("%d ended, %d held, %d foreign, %d open", ended, m.Len(), l.Foreign(), l.Open())
	}
	if s := l.State("a", 1, at(3), at(0)); s.Requests != 1 {
		t.Errorf("%v requests are left at a", s.Requests)
	}
	if m.Settle(7) || !l.Settle(own) || l.Open() != 0 {
		t.Error("the own request was not the one that was left")
	}
}

// A mirror holds no more than it may.
func TestMirrorIsBounded(t *testing.T) {
	l := ledger.New()
	m := ledger.NewMirror(l)
	for i := range uint64(ledger.MostMirrored) {
		m.Charge(i, "a", 1, ledger.Entry{}, at(0))
	}
	if m.Charge(1<<40, "a", 1, ledger.Entry{}, at(0)) || l.Foreign() != ledger.MostMirrored {
		t.Errorf("%d are held", l.Foreign())
	}
}

// Told in any order, twice or not at all, a mirror holds what a plain map would
// and the ledger counts it so.
func TestMirrorAgainstAPlainMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type request struct {
			endpoint                    string
			prompt, expected, generated int
		}
		l := ledger.New()
		m := ledger.NewMirror(l)
		want, told := map[uint64]request{}, map[uint64]bool{}
		restating := false
		for step := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now := at(float64(step))
			number := rapid.Uint64Range(1, 8).Draw(t, "number")
			have, held := want[number]
			switch rapid.SampledFrom([]string{"charge", "charge", "tokens", "settle", "restate", "restated", "clear"}).Draw(t, "what") {
			case "charge":
				r := request{endpoint: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "endpoint"), prompt: rapid.IntRange(1, 100).Draw(t, "prompt"), expected: 10}
				if m.Charge(number, r.endpoint, 1, ledger.Entry{PromptTokens: r.prompt, UncachedTokens: r.prompt, ExpectedOutput: r.expected}, now) == held {
					t.Fatalf("charge of %d, held %t", number, held)
				}
				told[number] = true
				if !held {
					want[number] = r
				}
			case "tokens":
				n := rapid.IntRange(0, 40).Draw(t, "tokens")
				if _, first := m.Generated(number, n, now); first != (held && have.generated == 0 && n > 0) {
					t.Fatalf("tokens of %d, held %t, %d before: first is %t", number, held, have.generated, first)
				}
				if held {
					have.generated = max(have.generated, n)
					want[number] = have
				}
			case "settle":
				if m.Settle(number) != held {
					t.Fatalf("settle of %d, held %t", number, held)
				}
				delete(want, number)
			case "restate":
				m.Restate()
				restating, told = true, map[uint64]bool{}
			case "restated":
				if !restating {
					continue
				}
				m.Restated()
				for n := range want {
					if !told[n] {
						delete(want, n)
					}
				}
			case "clear":
				m.Clear()
				want = map[uint64]request{}
			}
			for _, endpoint := range []string{"a", "b"} {
				var requests, prefill, decoding, context float64
				longest := 0
				for _, r := range want {
					switch {
					case r.endpoint != endpoint:
						continue
					case r.generated > 0:
						decoding++
						context += float64(r.prompt + r.generated)
					default:
						prefill += float64(r.prompt)
						longest = max(longest, r.prompt)
					}
					requests++
				}
				if got := m.Longest(endpoint, 1); got != longest {
					t.Fatalf("%s: %d tokens in the longest prompt that waits, want %d", endpoint, got, longest)
				}
				var got feature.Ledger = l.State(endpoint, 1, now, now)
				if got.Requests != requests || got.PrefillTokens != prefill || got.Decoding != decoding || got.ContextTokens != context || l.Own(endpoint, 1) != 0 {
					t.Fatalf("%s: %+v, want %v requests, %v to prefill, %v decoding %v", endpoint, got, requests, prefill, decoding, context)
				}
			}
			if m.Len() != len(want) || l.Foreign() != len(want) || l.Open() != 0 {
				t.Fatalf("%d held, %d foreign, %d open, want %d", m.Len(), l.Foreign(), l.Open(), len(want))
			}
		}
	})
}

// What another router sent is heard of late, in any order, and counts as of when it
// was sent: what a scrape has seen not again, and in the rates as far as it has faded.
func TestDispatchesHeardLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, number := ledger.New(), uint64(0)
		m := ledger.NewMirror(l)
		type dispatch struct{ at, tokens float64 }
		var sent []dispatch
		scraped := 0.0
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now := float64(step)
			tokens := rapid.IntRange(1, 1000).Draw(t, "tokens")
			e := ledger.Entry{PromptTokens: tokens, UncachedTokens: tokens}
			switch rapid.SampledFrom([]string{"own", "late", "late", "scrape"}).Draw(t, "what") {
			case "own":
				l.Charge("a", 1, e, at(now))
				sent = append(sent, dispatch{now, float64(tokens)})
			case "late":
				ago := rapid.Float64Range(0, 90).Draw(t, "ago")
				number++
				m.Charge(number, "a", 1, e, at(now-ago))
				sent = append(sent, dispatch{now - ago, float64(tokens)})
			case "scrape":
				scraped = now - 0.5
			}
			requests, since, rate := 0.0, 0.0, 0.0
			for _, d := range sent {
				if d.at > scraped {
					requests, since = requests+1, since+d.tokens
				}
				rate += d.tokens * math.Exp(-(now-d.at)/30) / 30
			}
			s := l.State("a", 1, at(now), at(scraped))
			if s.SinceScrape != requests || s.SinceScrapeTok != since {
				t.Fatalf("%v requests of %v tokens since the scrape, want %v of %v", s.SinceScrape, s.SinceScrapeTok, requests, since)
			}
			if math.Abs(s.PrefillRate-rate) > 1e-6*(1+rate) {
				t.Fatalf("prefill rate %v, want %v", s.PrefillRate, rate)
			}
		}
	})
}
