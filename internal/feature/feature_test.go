package feature_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
)

// The fingerprint changes only on purpose: bundles of another one are refused.
func TestSchemaFingerprint(t *testing.T) {
	const golden = "1c172a4cd8f436ad"
	if got := feature.Schema.String(); got != golden {
		t.Errorf("schema fingerprint is %s, want %s: when the table changed on purpose, raise SchemaVersion and put the new one here", got, golden)
	}
	back, err := feature.ParseFingerprint(golden)
	if err != nil || back != feature.Schema {
		t.Errorf("ParseFingerprint(%q) = %v, %v", golden, back, err)
	}
	if _, err := feature.ParseFingerprint("xyz"); err == nil {
		t.Error("ParseFingerprint accepts nonsense")
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for i, f := range feature.Table() {
		if f.Name == "" || f.Unit == "" || f.Source == "" || f.Meaning < 1 || !(f.Min < f.Max) {
			t.Errorf("feature %d is incomplete: %+v", i, f)
		}
		if seen[f.Name] {
			t.Errorf("feature %q stands twice", f.Name)
		}
		seen[f.Name] = true
		if feature.Index(f.Name) != i {
			t.Errorf("Index(%q) = %d, want %d", f.Name, feature.Index(f.Name), i)
		}
	}
	for name, column := range map[string]int{
		"prompt_tokens": feature.ColumnPromptTokens, "cached_tokens": feature.ColumnCachedTokens,
		"uncached_tokens": feature.ColumnUncachedTokens, "expected_output_tokens": feature.ColumnExpectedOutputTokens,
		"prior_ttft": feature.ColumnPriorTTFT, "prior_tpot": feature.ColumnPriorTPOT,
	} {
		if feature.Index(name) != column {
			t.Errorf("column of %s is %d, want %d", name, feature.Index(name), column)
		}
	}
	if feature.Index("nonsense") != -1 {
		t.Error("Index finds nonsense")
	}
}

func number(t *rapid.T, name string) float64 {
	return rapid.OneOf(
		rapid.Float64Range(0, 1e7),
		rapid.Just(math.NaN()),
		rapid.Just(0.0),
		rapid.Just(math.Inf(1)),
	).Draw(t, name)
}

// A vector survives its encoding bit for bit, whatever is in it.
func TestVectorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := feature.Request{PromptTokens: number(t, "prompt"), CachedTokens: number(t, "cached"), ExpectedOutputTokens: number(t, "output"), MaxOutputTokens: number(t, "max"), Completions: number(t, "n")}
		l := feature.Load{}
		l.Scraped.Waiting = number(t, "waiting")
		l.Scraped.Age = feature.Seconds(number(t, "age"))
		l.Ledger.Requests = number(t, "requests")
		l.Profile.SpeedFactor = number(t, "speed")
		p := feature.Prior{TTFT: feature.Seconds(number(t, "ttft")), TPOT: feature.Seconds(number(t, "tpot"))}
		v := feature.Of(r, l, p)
		again := feature.Of(r, l, p)
		if !v.Equal(&again) {
			t.Fatal("the same inputs made two vectors")
		}
		back, err := feature.DecodeVector(v.Append(nil))
		if err != nil || !back.Equal(&v) {
			t.Fatalf("decoded %v, %v; want %v", back, err, v)
		}
		var wide [feature.Width]float64
		v.Wide(wide[:])
		for i, x := range wide {
			if float32(x) != v[i] && x == x {
				t.Fatalf("widening changed %v to %v", v[i], x)
			}
		}
	})
	if _, err := feature.DecodeVector(make([]byte, 3)); err == nil {
		t.Error("DecodeVector accepts 3 bytes")
	}
}

// Every number of a vector stands in the column that the table gives its name.
func TestVectorFollowsTheTable(t *testing.T) {
	r := feature.Request{PromptTokens: 100, CachedTokens: 30, ExpectedOutputTokens: 3, MaxOutputTokens: 4, Completions: 5}
	l := feature.Load{
		Scraped: feature.Scraped{Waiting: 6, Running: 7, KVUsed: 8, Age: 9},
		Ledger:  feature.Ledger{Requests: 10, PrefillTokens: 11, Decoding: 12, ContextTokens: 13, SinceScrape: 14, SinceScrapeTok: 15},
		Profile: feature.Profile{PeakPrefillThroughput: 16, MaxBatchedTokens: 17, MaxNumSeqs: 18, KVCapacityTokens: 19, SpeedFactor: 20},
	}
	p := feature.Prior{TTFT: 90, TPOT: 22, Queue: 24, Admission: 25, Interference: 26}
	want := map[string]float32{
		"prompt_tokens": 100, "cached_tokens": 30, "uncached_tokens": 70, "expected_output_tokens": 3, "max_output_tokens": 4, "completions": 5,
		"waiting": 6, "running": 7, "kv_used": 8, "scrape_age": 9,
		"inflight_requests": 10, "inflight_prefill_tokens": 11, "inflight_decoding": 12, "inflight_context_tokens": 13,
		"dispatched_since_scrape": 14, "dispatched_tokens_since_scrape": 15,
		"peak_prefill_throughput": 16, "max_batched_tokens": 17, "max_num_seqs": 18, "kv_capacity_tokens": 19, "speed_factor": 20,
		"prior_ttft": 90, "prior_tpot": 22, "prior_prefill": 41, "prior_queue": 24, "prior_admission": 25, "prior_interference": 26,
	}
	v := feature.Of(r, l, p)
	for i, f := range feature.Table() {
		if x, ok := want[f.Name]; !ok || v[i] != x {
			t.Errorf("%s is %v, want %v", f.Name, v[i], x)
		}
	}
	if q := v.Prior(); q != p {
		t.Errorf("read back, the prior is %+v, want %+v", q, p)
	}
}

func TestUncachedTokens(t *testing.T) {
	for _, c := range []struct{ prompt, cached, want float64 }{
		{1000, 0, 1000}, {1000, 600, 400}, {1000, 1000, 16}, {1000, 1200, 16}, {4, 0, 16},
	} {
		r := feature.Request{PromptTokens: c.prompt, CachedTokens: c.cached}
		if got := r.UncachedTokens(); got != c.want {
			t.Errorf("prompt %v cached %v: uncached %v, want %v", c.prompt, c.cached, got, c.want)
		}
	}
}

func TestID(t *testing.T) {
	const s = "0193750b-8f3a-7cc4-9d55-0a1b2c3d4e5f"
	id, err := feature.ParseID(s)
	if err != nil || id.String() != s {
		t.Errorf("ParseID(%q).String() = %q, %v", s, id, err)
	}
	for _, bad := range []string{"", "0193750b", s + "0", "0193750b-8f3a-7cc4-9d55-0a1b2c3d4e5g", "0193750b_8f3a-7cc4-9d55-0a1b2c3d4e5f"} {
		if _, err := feature.ParseID(bad); err == nil {
			t.Errorf("ParseID accepts %q", bad)
		}
	}
}

func TestSeconds(t *testing.T) {
	if got := feature.SecondsOf(1500 * time.Millisecond); got != 1.5 || got.Duration() != 1500*time.Millisecond {
		t.Errorf("1.5 s became %v", got)
	}
	b, err := json.Marshal(struct {
		A, B feature.Seconds
		C    feature.Number
	}{1.5, feature.Seconds(feature.Unknown), feature.Number(math.Inf(1))})
	if err != nil || string(b) != `{"A":1.5,"B":null,"C":null}` {
		t.Errorf("JSON is %s, %v", b, err)
	}
}

func TestMakingAVectorAllocatesNothing(t *testing.T) {
	var v feature.Vector
	if n := testing.AllocsPerRun(100, func() {
		v = feature.Of(feature.Request{PromptTokens: 10}, feature.Load{}, feature.Prior{TTFT: 1})
	}); n != 0 {
		t.Errorf("Of allocates %v times", n)
	}
	_ = v
}
