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
