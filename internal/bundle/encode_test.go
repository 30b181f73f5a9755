package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

func encoded(t testing.TB, b *bundle.Bundle) []byte {
	t.Helper()
	data, err := bundle.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	b := bundleOf(t)
	data := encoded(t, b)
	if again := encoded(t, bundleOf(t)); !bytes.Equal(data, again) {
		t.Error("the same bundle gave other bytes")
	}
	got, err := bundle.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range b.Known {
		if !b.Known[i].Vector.Equal(&got.Known[i].Vector) {
			t.Errorf("known answer %d has other bits", i)
		}
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	if again := encoded(t, got); !bytes.Equal(data, again) {
		t.Error("encoding the decoded bundle gave other bytes")
	}
}

// seal replaces the checksum of data with the right one.
func seal(data []byte) []byte {
	body := data[:len(data)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func TestDecodeRefuses(t *testing.T) {
	good := encoded(t, bundleOf(t))
	inHeader := func(old, new string) func([]byte) []byte {
		return func(data []byte) []byte {
			if !bytes.Contains(data, []byte(old)) {
				t.Fatalf("no %s in the header", old)
			}
			changed := bytes.Replace(data, []byte(old), []byte(new), 1)
			size := binary.LittleEndian.Uint32(changed[12:])
			binary.LittleEndian.PutUint32(changed[12:], size+uint32(len(new)-len(old)))
			return seal(changed)
		}
	}
	foreign := feature.Schema
	foreign[3]++
	for _, c := range []struct {
		name, want string
		change     func([]byte) []byte
	}{
		{"empty", "truncated", func([]byte) []byte { return nil }},
		{"too large", "at most", func(d []byte) []byte { return make([]byte, bundle.MaxSize+1) }},
		{"magic", "magic", func(d []byte) []byte { d[0] = 'S'; return seal(d) }},
		{"format version", "format version 3", func(d []byte) []byte { d[8] = 3; return seal(d) }},
		{"truncated", "checksum", func(d []byte) []byte { return d[:len(d)-1] }},
		{"trailing", "checksum", func(d []byte) []byte { return append(d, 0) }},
		{"trailing, sealed", "left over", func(d []byte) []byte { return seal(append(d, 0)) }},
		{"forests missing", "truncated: forest", func(d []byte) []byte { return seal(d[:len(d)-200]) }},
		{"header size", "truncated: header", func(d []byte) []byte { d[15] = 0xff; return seal(d) }},
		{"header not JSON", "header", func(d []byte) []byte { d[16] = '['; return seal(d) }},
		{"unknown field", "unknown field", inHeader(`"llm":`, `"lllm":1,"llm":`)},
		{"three heads", "head 0", inHeader(`"ttft_p50"`, `"tpot_p50"`)},
		{"negative size", "truncated: forest", inHeader(`"target":"ttft_p50","size":`, `"target":"ttft_p50","size":-`)},
		{"another schema", "another schema", inHeader(feature.Schema.String(), foreign.String())},
		{"bad schema", "fingerprint", inHeader(feature.Schema.String(), "x")},
		{"no known vector", "known answer 0", inHeader(`"known":[`, `"known":[{},`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := bundle.Decode(c.change(bytes.Clone(good)))
			if err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v and error %v, want an error about %q", b, err, c.want)
			}
			if got := errors.Is(err, bundle.ErrSchema); got != (c.name == "another schema") {
				t.Errorf("ErrSchema: %v", got)
			}
		})
	}
}

func TestDecodeRefusesEveryChangedByte(t *testing.T) {
	good := encoded(t, bundleOf(t))
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(good)
		i := rapid.IntRange(0, len(bad)-1).Draw(t, "at")
		bad[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if _, err := bundle.Decode(bad); err == nil {
			t.Fatalf("byte %d changed, and it decoded", i)
		}
		if _, err := bundle.Decode(good[:i]); err == nil {
			t.Fatalf("decoded %d of %d bytes", i, len(good))
		}
	})
}

// FuzzDecode gives every input the right checksum, or nothing would get past
// it; what decodes and passes its check must evaluate and survive a round trip.
func FuzzDecode(f *testing.F) {
	good := encoded(f, bundleOf(f))
	f.Add(good[:len(good)-sha256.Size])
	f.Add([]byte("spillway\x01\x00\x00\x00\x02\x00\x00\x00{}"))
	vectors := vectorsOf(1, 9)
	out := make([]feature.Forecast, len(vectors))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = bundle.Decode(body)
		b, err := bundle.Decode(seal(append(body, make([]byte, sha256.Size)...)))
		if err != nil {
			return
		}
		data, err := bundle.Encode(b)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		if _, err := bundle.Decode(data); err != nil {
			t.Fatalf("encoded, but does not decode: %v", err)
		}
		if e, err := b.Evaluator(); err == nil {
			e.Evaluate(vectors, out)
		}
	})
}
