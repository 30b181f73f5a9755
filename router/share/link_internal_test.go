package share

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/proto/gen/sharev1"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// still is a pool of one endpoint.
type still struct{ snapshot pool.Snapshot }

func (s *still) Snapshot() *pool.Snapshot      { return &s.snapshot }
func (*still) ReportFailure(string)            {}
func (*still) ReportSuccess(string)            {}
func (*still) RecordDecision(feature.Decision) {}
func (*still) RecordOutcome(feature.Outcome)   {}

// listening is a link that hears what a test gives it.
func listening(t testing.TB) *link {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	s := &still{pool.Snapshot{Endpoints: []pool.State{{ID: "x", Incarnation: 1, Healthy: true, ScrapedAt: time.Now(), Started: feature.Unknown, KVCapacityTokens: 1 << 14}}}}
	c := route.Defaults()
	c.Name, c.DefaultProfile = "test", p
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	r, err := route.New(c, s, nil, s, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	sc := Defaults()
	sc.Salt = []byte("a salt of more than sixteen bytes")
	n, err := New(sc, r, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	return newLink(n, place{"10.0.0.9:1", "10.0.0.9"})
}

func (l *link) elsewhere() int { return int(l.node.router.Status().Endpoints[0].Elsewhere) }

// messages tell of requests of which two are left.
func messages() (all []*sharev1.Words) {
	for i := range uint64(6) {
		all = append(all, &sharev1.Words{Words: []*sharev1.Word{{Kind: sharev1.Kind_KIND_CHARGED, Number: i, Endpoint: "x", PromptTokens: 100, UncachedTokens: 100, ExpectedOutput: 10, Chain: []uint64{i}}}})
		if i%3 > 0 {
			all = append(all, &sharev1.Words{Words: []*sharev1.Word{{Kind: sharev1.Kind_KIND_GENERATED, Number: i, Tokens: 3}, {Kind: sharev1.Kind_KIND_SETTLED, Number: i}}})
		}
	}
	for i, m := range all {
		m.Life, m.Sequence = 77, uint64(i+1)
	}
	return all
}

// What is heard twice is heard once; what comes before what it follows ends the
// stream, and the next one begins with all that is in flight.
func TestDuplicatesAndGaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := listening(t)
		now := time.Now()
		said := messages()
		at, begun := 0, uint64(0)
		for at < len(said) {
			m := proto.CloneOf(said[at])
			m.Sequence -= begun
			switch rapid.SampledFrom([]string{"next", "next", "next", "twice", "old", "early"}).Draw(rt, "message") {
			case "twice":
				if err := l.take(m, now); err != nil {
					rt.Fatal(err)
				}
				fallthrough
			case "next":
				if err := l.take(m, now); err != nil {
					rt.Fatal(err)
				}
				at++
			case "old":
				if at > 0 {
					old := proto.CloneOf(said[at-1])
					old.Sequence -= begun
					if err := l.take(old, now); err != nil {
						rt.Fatal(err)
					}
				}
			case "early":
				m.Sequence++
				if err := l.take(m, now); !errors.Is(err, errGap) {
					rt.Fatalf("after a gap: %v", err)
				}
				// The next stream says all that there is before it goes on.
				l.sequence, begun = 0, uint64(at)-1
				whole := &sharev1.Words{Life: 77, Sequence: 1, Words: []*sharev1.Word{{Kind: sharev1.Kind_KIND_RESTATING}}}
				open := map[uint64]*sharev1.Word{}
				for _, m := range said[:at] {
					for _, w := range m.Words {
						switch w.Kind {
						case sharev1.Kind_KIND_CHARGED:
							open[w.Number] = w
						case sharev1.Kind_KIND_SETTLED:
							delete(open, w.Number)
						}
					}
				}
				for _, w := range open {
					whole.Words = append(whole.Words, w)
				}
				whole.Words = append(whole.Words, &sharev1.Word{Kind: sharev1.Kind_KIND_RESTATED})
				if err := l.take(whole, now); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if got := l.elsewhere(); got != 2 {
			rt.Fatalf("%d requests are left, want 2", got)
		}
	})
}

// Another life of the peer begins with nothing.
func TestAnotherLife(t *testing.T) {
	l := listening(t)
	for _, m := range messages() {
		if err := l.take(m, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	first := messages()[0]
	first.Life = 78
	if err := l.take(first, time.Now()); err != nil || l.elsewhere() != 1 {
		t.Errorf("%v, %d requests", err, l.elsewhere())
	}
	first.Life = l.node.life
	if err := l.take(first, time.Now()); !errors.Is(err, errSelf) {
		t.Errorf("its own words: %v", err)
	}
}

var sameSeconds = cmp.Comparer(func(a, b feature.Seconds) bool { return a == b || a != a && b != b })

// A word comes out of a message as it went in, but for what no clock may tell.
func TestWordsOverTheWire(t *testing.T) {
	now := time.Now()
	name := rapid.SampledFrom([]string{"", "x", "10.0.0.1:8000"})
	count := rapid.IntRange(0, ledger.MaxTokens)
	latency := rapid.SampledFrom([]feature.Seconds{feature.Seconds(math.NaN()), 0.01, 3})
	rapid.Check(t, func(t *rapid.T) {
		w := route.Word{Kind: route.WordKind(rapid.IntRange(0, len(route.WordKinds)-1).Draw(t, "kind"))}
		w.At, w.Started = now, feature.Unknown
		if w.Kind != route.Restating && w.Kind != route.Restated {
			w.Number, w.Endpoint, w.LLM = rapid.Uint64().Draw(t, "number"), name.Draw(t, "endpoint"), name.Draw(t, "llm")
			w.Tokens = count.Draw(t, "tokens")
			w.At = now.Add(-time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "age")))
		}
		chain := rapid.SliceOfN(rapid.Uint64(), 0, 5).Draw(t, "chain")
		switch w.Kind {
		case route.Charged:
			w.Entry = ledger.Entry{PromptTokens: count.Draw(t, "prompt"), UncachedTokens: count.Draw(t, "uncached"), ExpectedOutput: count.Draw(t, "output"), Chain: chain}
			w.Wait, w.Started = time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "wait")), rapid.SampledFrom([]float64{feature.Unknown, 1e9}).Draw(t, "started")
		case route.Disbelieved:
			w.Chain = chain
		case route.Taught:
			w.Last, w.Follows = rapid.Uint64().Draw(t, "last"), rapid.Float64Range(-100, 1e6).Draw(t, "follows")
			w.Lesson = correction.Lesson{PromptTokens: float64(count.Draw(t, "p")), OutputTokens: feature.Unknown, Bundle: rapid.Int64().Draw(t, "bundle"),
				ForecastTTFT: latency.Draw(t, "f"), ForecastTPOT: latency.Draw(t, "g"), TTFT: latency.Draw(t, "h"), TPOT: latency.Draw(t, "i")}
		}
		body, err := proto.Marshal(encode(&w, now))
		if err != nil {
			t.Fatal(err)
		}
		m := &sharev1.Word{}
		if err := proto.Unmarshal(body, m); err != nil {
			t.Fatal(err)
		}
		got, ok := decode(m, now)
		if d := cmp.Diff(w, got, cmpopts.EquateNaNs(), sameSeconds, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)); !ok || d != "" {
			t.Fatalf("%t %s", ok, d)
		}
	})
}

// Followers read every word once and in order, or are told that some are gone.
func TestJournalAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := newJournal()
		var said []uint64
		chain := make([]uint64, 300)
		type reader struct {
			f  *follower
			at int
		}
		var readers []*reader
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if len(readers) < 3 {
					f, ok := j.join()
					if !ok {
						t.Fatal("no room")
					}
					readers = append(readers, &reader{f, len(said)})
				}
			},
			"leave": func(t *rapid.T) {
				if len(readers) > 0 {
					j.leave(readers[0].f)
					readers = readers[1:]
				}
			},
			"tell": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 3, 5000}).Draw(t, "words") {
					n := uint64(len(said))
					said = append(said, n)
					j.tell(&route.Word{Kind: route.Settled, Number: n, Entry: ledger.Entry{Chain: chain}})
				}
			},
			"read": func(t *rapid.T) {
				if len(readers) == 0 {
					return
				}
				r := readers[rapid.IntRange(0, len(readers)-1).Draw(t, "reader")]
				words, whole := j.read(r.f, nil, rapid.SampledFrom([]int{1, 500, 1 << 20}).Draw(t, "most"))
				if !whole {
					if len(said)-r.at < mostHashes/300/2 {
						t.Fatalf("a follower %d words behind has lost some", len(said)-r.at)
					}
					j.skip(r.f)
					r.at = len(said)
					return
				}
				for _, w := range words {
					if w.Number != said[r.at] {
						t.Fatalf("read %d, want %d", w.Number, said[r.at])
					}
					r.at++
				}
			},
			"": func(t *rapid.T) {
				if len(j.words) > mostWords || j.hashes > mostHashes || len(readers) == 0 && len(j.words) > 0 {
					t.Fatalf("%d words with %d hashes wait for %d", len(j.words), j.hashes, len(readers))
				}
			},
		})
	})
}

// Whatever a peer sends, the router goes on, and what the peer has in flight is
// within bounds and gone with it.
func FuzzWords(f *testing.F) {
	for _, m := range messages() {
		body, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	l := listening(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &sharev1.Words{}
		if proto.Unmarshal(body, m) != nil {
			return
		}
		m.Life, m.Sequence = 77, l.sequence+1
		if err := l.take(m, time.Now()); err != nil {
			t.Fatal(err)
		}
		l.node.restore.try(l.node, time.Now())
		if l.elsewhere() != l.peer.InFlight() {
			t.Fatalf("%d requests at the endpoint, %d of the peer", l.elsewhere(), l.peer.InFlight())
		}
		l.peer.Forget(false)
		if l.elsewhere() != 0 {
			t.Fatalf("%d requests are left", l.elsewhere())
		}
	})
}

// A snapshot is read as it was written or not at all.
func FuzzSnapshot(f *testing.F) {
	s := &sharev1.Snapshot{Version: version, Holdings: []*sharev1.Holding{{Endpoint: "x", Blocks: []uint64{1, 2}, Ages: []uint32{3}}}}
	text, err := packSnapshot(s)
	if err != nil {
		f.Fatal(err)
	}
	read, err := readSnapshot(bytes.NewReader(text))
	if err != nil || !proto.Equal(read, s) {
		f.Fatalf("%v: %v", err, read)
	}
	f.Add(text[:len(text)-1], uint64(0))
	f.Add([]byte(magic), uint64(0))
	f.Add(slices.Repeat([]byte{0}, headBytes), uint64(1))
	f.Fuzz(func(t *testing.T, body []byte, where uint64) {
		if _, err := readSnapshot(bytes.NewReader(body)); err == nil {
			t.Fatal("bytes of chance were taken for a snapshot")
		}
		s := &sharev1.Snapshot{Version: version, Router: string(bytes.ToValidUTF8(body, nil)), Holdings: []*sharev1.Holding{{Blocks: []uint64{rand.Uint64()}}}}
		text, err := packSnapshot(s)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := readSnapshot(bytes.NewReader(text)); err != nil || !proto.Equal(read, s) {
			t.Fatalf("%v: %v", err, read)
		}
	})
}
