package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
)

var start = time.Unix(1_700_000_000, 0)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// remaining makes the two histograms from tokens to go and context.
func remaining(pairs ...[2]float64) (n, context [feature.RemainingBuckets]float64) {
	for _, p := range pairs {
		i := int(math.Log2(p[0]))
		n[i]++
		context[i] += p[1]
	}
	return n, context
}

func TestLifeOfARequest(t *testing.T) {
	l := ledger.New()
	h := l.Charge("a", 1, ledger.Entry{PromptTokens: 1000, UncachedTokens: 600, ExpectedOutput: 100}, at(0))

	want := feature.Ledger{
		Requests: 1, PrefillTokens: 600, SinceScrape: 1, SinceScrapeTok: 600,
		PrefillContext: 600 * 700, WaitingContext: 1000, WaitingOutput: 100, WaitingStay: 100 * (1000 + 50), SinceScrapeContext: 1000,
		HeadTokens: 600, HeadContext: 600 * 700, HeadElapsed: 2,
		PrefillRate:        600.0 / 30 * math.Exp(-2.0/30),
		PrefillContextRate: 600.0 * 700 / 30 * math.Exp(-2.0/30),
	}
	want.Remaining, want.RemainingContext = remaining([2]float64{100, 1000})
	equal(t, "charged", l.State("a", 1, at(2), at(-1)), want)

	if !l.FirstToken(h, at(3)) {
		t.Error("the first token was not taken")
	}
	if l.FirstToken(h, at(3)) {
		t.Error("a second first token was taken")
	}
	l.Tokens(h, 90, at(4))
	want = feature.Ledger{
		Requests: 1, Decoding: 1, ContextTokens: 1090, GeneratedTokens: 90,
		PrefillRate:        600.0 / 30 * math.Exp(-4.0/30),
		PrefillContextRate: 600.0 * 700 / 30 * math.Exp(-4.0/30),
	}
	want.Remaining, want.RemainingContext = remaining([2]float64{27, 1090}) // 0.3 x 90 is more than 10
	equal(t, "decoding, scraped since", l.State("a", 1, at(4), at(0)), want)

	if !l.Settle(h) || l.Settle(h) {
		t.Error("settling must count once")
	}
	if l.FirstToken(h, at(5)) || l.Tokens(h, 1, at(5)) {
		t.Error("a settled handle still moves")
	}
	equal(t, "settled", l.State("a", 1, at(4), at(0)), feature.Ledger{PrefillRate: want.PrefillRate, PrefillContextRate: want.PrefillContextRate})
}

// What prompts share is held once while any of them is in flight, wherever
// they end.
func TestSharedPromptsAreHeldOnce(t *testing.T) {
	l := ledger.New()
	text := []uint64{11, 12, 13, 14, 15, 16, 17, 18} // 8 blocks of 100 tokens
	other := []uint64{11, 12, 13, 24, 25, 26, 27, 28}
	charge := func(chain []uint64) ledger.Handle {
		return l.Charge("a", 1, ledger.Entry{PromptTokens: 100 * len(chain), Chain: chain}, at(0))
	}
	shared := func(what string, want float64) {
		t.Helper()
		if got := l.State("a", 1, at(0), at(0)).SharedContext; got != want {
			t.Errorf("%s: %v tokens are shared, want %v", what, got, want)
		}
	}
	first := charge(text)
	shared("one prompt", 0)
	second := charge(text)
	shared("twice the same", 800)
	third := charge(other)
	shared("one that begins like it", 800+300)
	charge(nil)
	charge([]uint64{91})
	shared("one of which nothing is known, and one unlike all", 800+300)
	l.Settle(first)
	shared("after the first has ended", 300)
	l.Settle(second)
	shared("after the second has ended too", 0)
	l.Settle(third)
	shared("after all have ended", 0)
}

// However far prompts have the beginning in common, most of it is found.
func TestMostOfWhatIsSharedIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ledger.New()
		common := rapid.IntRange(1, 2000).Draw(t, "blocks in common")
		for text := range uint64(2) {
			chain := make([]uint64, common+rapid.IntRange(0, 500).Draw(t, "blocks more"))
			for i := range chain {
				chain[i] = uint64(i + 1)
				if i >= common {
					chain[i] += 10_000 * (text + 1)
				}
			}
			l.Charge("a", 1, ledger.Entry{PromptTokens: 64 * len(chain), Chain: chain}, at(0))
		}
		most := float64(64 * common)
		if got := l.State("a", 1, at(0), at(0)).SharedContext; got > most || got < 8./9*most {
			t.Fatalf("of %v tokens in common %v are found", most, got)
		}
	})
}

func TestHeadIsCreditedSinceTheLastFirstToken(t *testing.T) {
	l := ledger.New()
	first := l.Charge("a", 1, ledger.Entry{PromptTokens: 10, UncachedTokens: 10}, at(0))
	l.Charge("a", 1, ledger.Entry{PromptTokens: 20, UncachedTokens: 20}, at(1))
	l.FirstToken(first, at(4))
	l.Charge("a", 1, ledger.Entry{PromptTokens: 30, UncachedTokens: 30}, at(5))
	s := l.State("a", 1, at(6), at(0))
	if s.HeadTokens != 20 || s.HeadElapsed != 2 {
		t.Errorf("head: %v tokens for %v s, want 20 for 2", s.HeadTokens, s.HeadElapsed)
	}
}

func TestNonStreamingMovesWhenDue(t *testing.T) {
	l := ledger.New()
	h := l.Charge("a", 1, ledger.Entry{PromptTokens: 10, UncachedTokens: 10, MoveAt: at(3)}, at(0))
	l.Charge("a", 1, ledger.Entry{PromptTokens: 10, UncachedTokens: 10, MoveAt: at(5)}, at(1))
	for _, step := range []struct{ at, decoding float64 }{{2.9, 0}, {3, 1}, {4.9, 1}, {5, 2}} {
		if s := l.State("a", 1, at(step.at), at(0)); s.Decoding != step.decoding {
			t.Errorf("after %v s: %v decoding, want %v", step.at, s.Decoding, step.decoding)
		}
	}
	if !l.Settle(h) {
		t.Error("a moved entry must be settled like any other")
	}
}

// An endpoint that restarts begins empty; late news of its former life must
// not reach the new one's counters.
func TestRestartStartsFromNothing(t *testing.T) {
	l := ledger.New()
	old := l.Charge("a", 1, ledger.Entry{PromptTokens: 500, UncachedTokens: 500}, at(0))
	l.Forget("a", 1)
	equal(t, "new life", l.State("a", 2, at(1), at(0)), feature.Ledger{})

	l.Charge("a", 2, ledger.Entry{PromptTokens: 70, UncachedTokens: 70}, at(1))
	before := l.State("a", 2, at(2), at(0))
	l.FirstToken(old, at(2))
	l.Tokens(old, 5, at(2))
	if !l.Settle(old) {
		t.Error("the old entry was lost")
	}
	equal(t, "after the old entry ended", l.State("a", 2, at(2), at(0)), before)
	equal(t, "old life", l.State("a", 1, at(2), at(0)), feature.Ledger{})
	if l.Open() != 1 {
		t.Errorf("%d open, want 1", l.Open())
	}
}

// An endpoint that leaves and comes back as the same process is still at work
// on what it had.
func TestFlapKeepsOpenEntries(t *testing.T) {
	l := ledger.New()
	h := l.Charge("a", 1, ledger.Entry{PromptTokens: 500, UncachedTokens: 400}, at(0))
	l.Forget("a", 1)
	l.Charge("a", 1, ledger.Entry{PromptTokens: 50, UncachedTokens: 40}, at(600))
	if s := l.State("a", 1, at(600), at(600)); s.Requests != 2 || s.PrefillTokens != 440 {
		t.Errorf("%v requests, %v tokens, want 2 and 440", s.Requests, s.PrefillTokens)
	}
	l.Settle(h)
	if s := l.State("a", 1, at(600), at(600)); s.Requests != 1 || s.PrefillTokens != 40 {
		t.Errorf("%v requests, %v tokens, want 1 and 40", s.Requests, s.PrefillTokens)
	}
}

// Without a scrape for long, the count of what was sent stays whole although
// the log of when is bounded.
func TestSinceScrapeStaysWhole(t *testing.T) {
	l := ledger.New()
	for i := range 10_000 {
		l.Settle(l.Charge("a", 1, ledger.Entry{UncachedTokens: 3}, at(float64(i))))
	}
	if s := l.State("a", 1, at(10_000), time.Time{}); s.SinceScrape != 10_000 || s.SinceScrapeTok != 30_000 {
		t.Errorf("%v requests, %v tokens since no scrape, want 10000 and 30000", s.SinceScrape, s.SinceScrapeTok)
	}
	if s := l.State("a", 1, at(10_000), at(9_899)); s.SinceScrape != 100 {
		t.Errorf("%v requests since the scrape, want 100", s.SinceScrape)
	}
}

func TestOutOfRangeTokensAreBounded(t *testing.T) {
	l := ledger.New()
	h := l.Charge("a", 1, ledger.Entry{PromptTokens: -5, UncachedTokens: math.MaxInt, ExpectedOutput: math.MaxInt}, at(0))
	l.Tokens(h, math.MaxInt, at(1))
	l.Tokens(h, math.MaxInt, at(1))
	l.Tokens(h, -7, at(1))
	if s := l.State("a", 1, at(1), at(0)); s.ContextTokens != ledger.MaxTokens {
		t.Errorf("context %v, want %v", s.ContextTokens, ledger.MaxTokens)
	}
	l.Settle(h)
	equal(t, "settled", l.State("a", 1, at(1e6), at(0)), feature.Ledger{})
}

func TestZeroHandleNamesNothing(t *testing.T) {
	l := ledger.New()
	l.Charge("a", 1, ledger.Entry{}, at(0))
	if l.Settle(ledger.Handle{}) || l.FirstToken(ledger.Handle{}, at(0)) || l.Tokens(ledger.Handle{}, 1, at(0)) {
		t.Error("the zero handle moved something")
	}
}

func TestAgainstTwin(t *testing.T) {
	type open struct {
		h ledger.Handle
		w *twinEntry
	}
	endpoints := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		l, w := ledger.New(), newTwin()
		var entries []open // settled ones too: they are tried again
		now, scraped := start, start
		incarnation := map[string]uint64{}
		endpoint := rapid.SampledFrom(endpoints)
		pick := func(t *rapid.T) open {
			if len(entries) == 0 {
				t.Skip("nothing was charged")
			}
			return rapid.SampledFrom(entries).Draw(t, "entry")
		}
		t.Repeat(map[string]func(*rapid.T){
			"charge": func(t *rapid.T) {
				e := ledger.Entry{
					PromptTokens:   rapid.IntRange(0, 100_000).Draw(t, "prompt"),
					ExpectedOutput: rapid.IntRange(0, 300_000).Draw(t, "expected"),
				}
				if rapid.Bool().Draw(t, "chained") {
					e.Chain = story(rapid.IntRange(1, 40).Draw(t, "blocks"), rapid.IntRange(0, 5).Draw(t, "text"))
					e.PromptTokens = twinBlock * len(e.Chain)
				}
				e.UncachedTokens = max(16, rapid.IntRange(0, e.PromptTokens).Draw(t, "uncached"))
				if rapid.Bool().Draw(t, "moves") {
					e.MoveAt = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
				}
				to := endpoint.Draw(t, "endpoint")
				entries = append(entries, open{l.Charge(to, incarnation[to], e, now), w.charge(to, incarnation[to], e, now)})
			},
			"first": func(t *rapid.T) {
				e := pick(t)
				// A move that came due but was not read yet is no news.
				l.State(e.w.of.endpoint, e.w.of.incarnation, now, scraped)
				w.state(e.w.of.endpoint, e.w.of.incarnation, now, scraped)
				if got, want := l.FirstToken(e.h, now), w.first(e.w, now); got != want {
					t.Fatalf("first token taken: %v, want %v", got, want)
				}
			},
			"tokens": func(t *rapid.T) {
				e, n := pick(t), rapid.IntRange(1, 2000).Draw(t, "n")
				if got, want := l.Tokens(e.h, n, now), w.tokens(e.w, n, now); got != want {
					t.Fatalf("tokens taken: %v, want %v", got, want)
				}
			},
			"settle": func(t *rapid.T) {
				e := pick(t)
				if got, want := l.Settle(e.h), w.settle(e.w); got != want {
					t.Fatalf("settled: %v, want %v", got, want)
				}
			},
			"restart": func(t *rapid.T) {
				e := endpoint.Draw(t, "endpoint")
				if rapid.Bool().Draw(t, "told") {
					l.Forget(e, incarnation[e])
					w.forget(e, incarnation[e])
				}
				incarnation[e]++
			},
			"flap": func(t *rapid.T) {
				e := endpoint.Draw(t, "endpoint")
				l.Forget(e, incarnation[e])
				w.forget(e, incarnation[e])
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"scrape": func(t *rapid.T) {
				scraped = scraped.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "part") * float64(now.Sub(scraped))))
			},
			"": func(t *rapid.T) {
				for _, e := range endpoints {
					for i := range incarnation[e] + 1 {
						got := l.State(e, i, now, scraped)
						if diff := cmp.Diff(w.state(e, i, now, scraped), got, approximately); diff != "" {
							t.Fatalf("%s, incarnation %d (-want +got):\n%s", e, i, diff)
						}
					}
				}
			},
		})
		for _, e := range entries {
			l.Settle(e.h)
			w.settle(e.w)
		}
		for _, e := range endpoints {
			s := l.State(e, incarnation[e], now, now)
			s.PrefillRate, s.PrefillContextRate = 0, 0
			if s != (feature.Ledger{}) {
				t.Fatalf("%s is not empty after all ended: %+v", e, s)
			}
		}
		if l.Open() != 0 {
			t.Fatalf("%d open after all ended", l.Open())
		}
	})
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	l := ledger.New()
	now := start
	for range 300 { // grow slots and logs
		l.Settle(l.Charge("a", 1, ledger.Entry{}, now))
		now = now.Add(time.Millisecond)
	}
	chain := story(100, 1)
	n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		h := l.Charge("a", 1, ledger.Entry{PromptTokens: 100, UncachedTokens: 50, ExpectedOutput: 9, Chain: chain}, now)
		l.FirstToken(h, now)
		l.Tokens(h, 3, now)
		sink = l.State("a", 1, now, now)
		l.Settle(h)
	})
	if n != 0 {
		t.Errorf("%v allocations for the life of a request, want 0", n)
	}
}

var sink feature.Ledger

func BenchmarkState(b *testing.B) {
	l := ledger.New()
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprintf("10.0.0.%d:8000", i)
		for j := range 64 {
			h := l.Charge(names[i], 1, ledger.Entry{PromptTokens: 1000, UncachedTokens: 500, ExpectedOutput: 300}, at(float64(j)))
			if j%2 == 0 {
				l.FirstToken(h, at(float64(j)))
			}
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		sink = l.State(names[i%len(names)], 1, at(70), at(69))
		i++
	}
}

func BenchmarkRequest(b *testing.B) {
	l := ledger.New()
	b.ReportAllocs()
	for b.Loop() {
		h := l.Charge("a", 1, ledger.Entry{PromptTokens: 1000, UncachedTokens: 500, ExpectedOutput: 300}, start)
		l.FirstToken(h, start)
		l.Tokens(h, 10, start)
		l.Settle(h)
	}
}

// approximately compares numbers that twin and ledger add in another order.
var approximately = cmp.Comparer(func(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
})

func equal(t *testing.T, when string, got, want feature.Ledger) {
	t.Helper()
	if diff := cmp.Diff(want, got, approximately); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}
