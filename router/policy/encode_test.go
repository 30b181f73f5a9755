package policy_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// awkward are numbers that a careless encoding loses something of.
var awkward = []float64{
	0, math.Copysign(0, -1), 1, -1, 16, 0.1, 1 << 52, 1<<52 - 1, 1<<52 + 1, 1 << 53, 1 << 62, 1 << 63, 1e300,
	math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1),
	math.NaN(), math.Float64frombits(0x7ff8_0000_0000_0abc), math.Float64frombits(0xfff8_0000_0000_0001),
}

// drawAwkward draws an input in which some numbers, or all, are awkward ones.
func drawAwkward(t *rapid.T, name string) *policy.Input {
	in := drawInput(t, name)
	var all []reflect.Value
	numbers(reflect.ValueOf(in).Elem(), func(_ string, number reflect.Value) { all = append(all, number) })
	if rapid.IntRange(0, 9).Draw(t, "all awkward") == 9 {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "numbers"), 0))
		for _, number := range all {
			number.SetFloat(awkward[rng.IntN(len(awkward))])
		}
		return in
	}
	for range rapid.IntRange(0, 20).Draw(t, "awkward") {
		at := rapid.IntRange(0, len(all)-1).Draw(t, "at")
		all[at].SetFloat(rapid.SampledFrom(awkward).Draw(t, "number"))
	}
	return in
}

// stored is in as a decision row holds it: names and seed in columns of their
// own, the rest encoded.
func stored(in *policy.Input) *feature.Decision {
	d := &feature.Decision{Complete: true, PolicyVersion: policy.Version, Seed: in.Seed, States: policy.Encode(nil, in)}
	for _, c := range in.Candidates {
		d.Candidates = append(d.Candidates, feature.Candidate{Endpoint: c.Endpoint, Class: c.Class})
	}
	return d
}

// readable is what of in Decide may read: the residual and the correction of a
// candidate without a forecast decide nothing and are not written.
func readable(in *policy.Input) *policy.Input {
	c := clone(in)
	for i := range c.Candidates {
		if !c.Candidates[i].Residual.Known() {
			c.Candidates[i].Residual = feature.NoResidual
			c.Candidates[i].Correction = feature.Residual{}
		}
	}
	return c
}

func TestReplayDecidesTheSame(t *testing.T) {
	forEvery(t, func(t *testing.T, name string) {
		rapid.Check(t, func(t *rapid.T) {
			in := drawAwkward(t, name)
			again, err := policy.Replay(stored(in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(readable(in), again, bitEqual); diff != "" {
				t.Fatalf("input (-decided +replayed):\n%s", diff)
			}
			var first, second policy.Choice
			if err := policy.Decide(in, &first); err != nil {
				t.Fatal(err)
			}
			if err := policy.Decide(again, &second); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&first, &second, bitEqual); diff != "" {
				t.Fatalf("choice (-decided +replayed):\n%s", diff)
			}
		})
	})
}

// Every number of an Input must be written: this fails for a new field that
// Encode forgets, and names it.
func TestEveryNumberIsWritten(t *testing.T) {
	in := input(policy.Predicted, idles(2)...)
	next := 0.5
	numbers(reflect.ValueOf(in).Elem(), func(_ string, number reflect.Value) {
		number.SetFloat(next)
		next++
	})
	got, err := policy.Replay(stored(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, got, bitEqual); diff != "" {
		t.Errorf("input (-decided +replayed):\n%s", diff)
	}
}

// Coefficients are written once for neighbours that share them, bit for bit.
func TestCoefficientsAreShared(t *testing.T) {
	in := input(policy.TokenLoad, idles(6)...)
	zeros := []float64{0, 0, math.Copysign(0, -1), math.Copysign(0, -1), 0, math.NaN()}
	for i := range in.Candidates {
		in.Candidates[i].Coefficients.C = zeros[i]
	}
	got, err := policy.Replay(stored(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, got, bitEqual); diff != "" {
		t.Errorf("input (-decided +replayed):\n%s", diff)
	}
	one, two := policy.Encode(nil, input(policy.TokenLoad, idles(1)...)), policy.Encode(nil, input(policy.TokenLoad, idles(2)...))
	if more := len(two) - len(one); more > 45 {
		t.Errorf("a second idle candidate of the class takes %d bytes more: its coefficients alone are 45", more)
	}
}

func TestEncodeAppends(t *testing.T) {
	in := input(policy.TokenLoad, idles(2)...)
	plain := policy.Encode(nil, in)
	after := policy.Encode([]byte("before"), in)
	if string(after) != "before"+string(plain) {
		t.Error("Encode does not append")
	}
}

func TestEncodedSize(t *testing.T) {
	in := input(policy.Predicted, idles(16)...)
	for i := range in.Candidates {
		in.Candidates[i].Load.Scraped.Age = feature.Seconds(0.1 + float64(i)/100)
	}
	if n := len(policy.Encode(nil, in)); n >= 1500 {
		t.Errorf("16 idle candidates take %d bytes, want under 1,500", n)
	}
	expectAll(in, 0.1, 0.02)
	if n := len(policy.Encode(nil, in)); n >= 2500 {
		t.Errorf("16 idle candidates with forecasts take %d bytes, want under 2,500", n)
	}
}

func TestDecodeRefuses(t *testing.T) {
	in := input(policy.Predicted, idles(2)...)
	expectAll(in, 0.1, 0.02)
	good := policy.Encode(nil, in)
	for n := range good {
		if _, err := policy.Decode(good[:n]); err == nil {
			t.Fatalf("Decode accepts %d of %d bytes", n, len(good))
		}
	}
	empty := policy.Encode(nil, input(policy.Random))
	alone := policy.Encode(nil, input(policy.Random, idle("a"))) // ends with two empty histograms and a flag
	barred := input(policy.Random, idle("a"))
	barred.Candidates[0].Standing = policy.Barred + 1
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "end too early"},
		{"another version", append([]byte{9}, good[1:]...), "encoding 9"},
		{"an old version", append([]byte{1}, good[1:]...), "encoding 1, this build reads 2 to 6"},
		{"bytes left over", append(policy.Encode(nil, in), 0, 0), "2 bytes left over"},
		{"more candidates than bytes", slices.Concat(empty[:len(empty)-1], []byte{100}), "100 candidates"},
		{"too many candidates", slices.Concat(empty[:len(empty)-1], []byte{0xa1, 0x8d, 0x06}, make([]byte, 3e6)), "100001 candidates"},
		{"an endless number", append([]byte{good[0], 0, 0, 0}, bytes.Repeat([]byte{0xff}, 11)...), "number"},
		{"a number of no known form", []byte{good[0], 0, 0, 0, 0, 3}, "number"},
		{"a flag of no known value", []byte{good[0], 0, 0, 7}, "flag"},
		{"a bucket too many", slices.Concat(alone[:len(alone)-3], []byte{0x80, 0x80, 0x10, 0, 0}), "histogram"},
		{"a long name", append([]byte{good[0], 0xac, 2}, make([]byte, 300)...), "name"},
		{"an unknown standing", policy.Encode(nil, barred), "standing"},
	} {
		_, err := policy.Decode(c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestDecodeAllocatesInProportion(t *testing.T) {
	claim := policy.Encode(nil, input(policy.Random))
	claim = append(claim[:len(claim)-1], 0xd0, 0x0f) // 2,000 candidates
	for _, size := range []int{0, 2000, 27 * 2000, 100_000} {
		b := append(append([]byte{}, claim...), make([]byte, size)...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = policy.Decode(b)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64*len(b)+64<<10) {
			t.Errorf("%d bytes made Decode allocate %d", len(b), got)
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	in := input(policy.Random, idles(3)...)
	for _, c := range []struct {
		name string
		edit func(*feature.Decision)
		want string
	}{
		{"incomplete", func(d *feature.Decision) { d.Complete, d.Rest = false, 4 }, "3 of 7 candidates"},
		{"a candidate less", func(d *feature.Decision) { d.Candidates = d.Candidates[:2] }, "2 candidates stored, states for 3"},
		{"another version", func(d *feature.Decision) { d.PolicyVersion = policy.Version + 1 }, "this build has"},
		{"cut states", func(d *feature.Decision) { d.States = d.States[:20] }, "end too early"},
		{"no states", func(d *feature.Decision) { d.States = nil }, "from a file without candidates"},
	} {
		d := stored(in)
		c.edit(d)
		_, err := policy.Replay(d)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), d.ID.String()) {
			t.Errorf("%s: %v, want an error with %q and the decision's id", c.name, err, c.want)
		}
	}
}

// What a canary's coin left to the fallback has the probabilities of both, and so is
// made again by the version alone that predicted had.
func TestReplayOfACanary(t *testing.T) {
	in := input(policy.Predicted, idles(3)...)
	for i := range in.Candidates {
		expect(in, i, 0.2, 0.02)
	}
	in.Fallback, in.Forecasts, in.Canary = policy.TokenLoad, true, 0.05
	d := stored(in)
	d.Policy = policy.TokenLoad
	if _, err := policy.Replay(d); err != nil {
		t.Errorf("of this version: %v", err)
	}
	d.PolicyVersion = policy.Version - 1
	if _, err := policy.Replay(d); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is of a canary of version %d", d.PolicyVersion)) {
		t.Errorf("of the version before: %v", err)
	}
	in.Forecasts = false // nobody tossed it
	d = stored(in)
	d.Policy, d.PolicyVersion = policy.TokenLoad, policy.Version-1
	if _, err := policy.Replay(d); err != nil {
		t.Errorf("of the fallback alone: %v", err)
	}
}

// Whatever the bytes, Decode gives an error or an Input that Decide survives
// and that is written down again without loss.
func FuzzDecode(f *testing.F) {
	for _, name := range policy.Names() {
		in := input(name, idles(3)...)
		expect(in, 1, 0.2, 0.02)
		in.Candidates[2].Standing = policy.Dated
		in.Candidates[2].Load.Ledger.Remaining[3] = 2
		f.Add(policy.Encode(nil, in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := policy.Decode(b)
		if err != nil {
			return
		}
		if 27*len(in.Candidates) > len(b) {
			t.Fatalf("%d bytes became %d candidates", len(b), len(in.Candidates))
		}
		var out policy.Choice
		if err := policy.Decide(in, &out); err == nil && (out.Index < -1 || out.Index >= len(in.Candidates)) {
			t.Fatalf("chose %d of %d", out.Index, len(in.Candidates))
		}
		again, err := policy.Decode(policy.Encode(nil, in))
		if err != nil {
			t.Fatalf("what was decoded can't be written and read again: %v", err)
		}
		if diff := cmp.Diff(readable(in), again, bitEqual); diff != "" {
			t.Fatalf("decoded (-once +twice):\n%s", diff)
		}
	})
}

// A decision of the version before is still read, and made again by the
// policies that have not changed since.
func TestOldEncodingIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/state-2.hex")
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	d := &feature.Decision{
		Complete: true, PolicyVersion: 1, Policy: policy.TokenLoad, Seed: 5, States: b, Chosen: "e0001",
		Candidates: []feature.Candidate{{Endpoint: "e0000"}, {Endpoint: "e0001", Probability: 1}, {Endpoint: "e0002"}},
	}
	in, err := policy.Replay(d)
	if err != nil {
		t.Fatal(err)
	}
	out := decide(t, in)
	if err := policy.Same(d, in, out); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]float64{1000, 4100.5, 1000}, out.Costs); diff != "" {
		t.Errorf("costs (-was +now):\n%s", diff)
	}
	c := &in.Candidates[2]
	if c.ColdAgo != 1.5 || c.Load.Scraped.KVUsed != 0.25 || !c.Residual.Known() || in.Turn != 9 || in.Settings.TokensPerRequest != 8000 {
		t.Errorf("read %+v", c)
	}
	if in.Canary != 0 || in.Settings.EvictionWeight != 0 || in.Settings.Impatience != 0 || in.Settings.QueueExternality != 0 || !feature.IsUnknown(c.HotTokens) || !feature.IsUnknown(c.Load.Ledger.GeneratedTokens) {
		t.Errorf("what the encoding lacks reads as %+v and %+v", in.Settings, c)
	}
	for n := range b {
		if _, err := policy.Decode(b[:n]); err == nil {
			t.Fatalf("Decode accepts %d of %d bytes", n, len(b))
		}
	}
	d.Policy = policy.Predicted
	if _, err := policy.Replay(d); err == nil || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("a decision that predicted made in version 1: %v", err)
	}
}

func TestSameTellsWhatDiffers(t *testing.T) {
	in := input(policy.Random, idles(3)...)
	var choice policy.Choice
	if err := policy.Decide(in, &choice); err != nil {
		t.Fatal(err)
	}
	record := func() *feature.Decision {
		d := stored(in)
		d.Chosen = in.Candidates[choice.Index].Endpoint
		for i := range d.Candidates {
			d.Candidates[i].Probability = choice.Probabilities[i]
		}
		return d
	}
	if err := policy.Same(record(), in, &choice); err != nil {
		t.Errorf("the same choice: %v", err)
	}
	for _, c := range []struct {
		name string
		edit func(*feature.Decision)
		want string
	}{
		{"another endpoint", func(d *feature.Decision) { d.Chosen = "nobody" }, `stored is "nobody"`},
		{"shed", func(d *feature.Decision) { d.Chosen = "" }, `stored is ""`},
		{"the last bit of a probability", func(d *feature.Decision) {
			d.Candidates[1].Probability = math.Nextafter(d.Candidates[1].Probability, 1)
		}, "the probability"},
		{"a candidate less", func(d *feature.Decision) { d.Candidates = d.Candidates[:2] }, "number of candidates"},
	} {
		d := record()
		c.edit(d)
		if err := policy.Same(d, in, &choice); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}
