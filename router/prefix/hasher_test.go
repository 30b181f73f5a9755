package prefix_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/router/prefix"
)

func chainOf(seed prefix.Seed, block int, text string) []uint64 {
	var h prefix.Hasher
	h.Reset(seed, block)
	h.WriteString(text)
	return slices.Clone(h.Chain())
}

func TestChainDropsThePartialBlock(t *testing.T) {
	for _, c := range []struct{ bytes, blocks int }{{0, 0}, {255, 0}, {256, 1}, {511, 1}, {512, 2}} {
		if got := len(chainOf(prefix.Seed{}, 0, strings.Repeat("x", c.bytes))); got != c.blocks {
			t.Errorf("%d bytes: %d blocks, want %d", c.bytes, got, c.blocks)
		}
	}
}

// Everything that forbids an engine to share a cache entry must change the
// first hash.
func TestSeedSeparates(t *testing.T) {
	text := strings.Repeat("x", 256)
	seeds := []prefix.Seed{
		{}, {LLM: "a"}, {Salt: "a"}, {LoRA: "a"}, {LLM: "ab"}, {LLM: "a", Salt: "b"},
		{LLM: "a", LoRA: "b"}, {Salt: "ab"}, {LLM: "b", Salt: "a"}, {Deployment: "a"}, {Deployment: "a", LLM: "a"}, {Deployment: "aa"},
	}
	seen := map[uint64]prefix.Seed{}
	for _, s := range seeds {
		first := chainOf(s, 256, text)[0]
		if other, ok := seen[first]; ok {
			t.Errorf("%+v and %+v have the same chain", s, other)
		}
		seen[first] = s
	}
	if chainOf(prefix.Seed{}, 128, text)[0] == chainOf(prefix.Seed{}, 256, text)[0] {
		t.Error("another block size gives the same hash")
	}
}

func TestChainIsOfThePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.IntRange(1, 40).Draw(t, "block")
		a := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 200, -1).Draw(t, "a")
		b := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 200, -1).Draw(t, "b")
		if rapid.Bool().Draw(t, "shared") {
			b = a[:rapid.IntRange(0, len(a)).Draw(t, "length")] + b
		}
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		x, y := chainOf(prefix.Seed{}, block, a), chainOf(prefix.Seed{}, block, b)
		for i := range min(len(x), len(y)) {
			if got, want := x[i] == y[i], (i+1)*block <= same; got != want {
				t.Fatalf("block %d equal: %v, want %v (%d bytes are shared)", i, got, want, same)
			}
		}
	})
}

func TestPiecesDoNotMatter(t *testing.T) {
	var h prefix.Hasher // one for all: Reset must leave nothing behind
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 500).Draw(t, "text")
		block := rapid.IntRange(1, 64).Draw(t, "block")
		seed := prefix.Seed{LLM: rapid.String().Draw(t, "llm")}
		h.Reset(seed, block)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "piece")
			if rapid.Bool().Draw(t, "string") {
				h.WriteString(string(rest[:n]))
			} else {
				h.Write(rest[:n])
			}
			rest = rest[n:]
			if n == 0 {
				h.Write(rest)
				rest = nil
			}
		}
		if want := chainOf(seed, block, string(text)); !slices.Equal(h.Chain(), want) {
			t.Fatalf("chain in pieces %x, whole %x", h.Chain(), want)
		}
	})
}

// An opaque piece counts for the bytes it is said to have, and the blocks
// before it are those of the text alone.
func TestOpaquePiecesCountAsToldAndTellPromptsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.IntRange(1, 40).Draw(t, "block")
		before := rapid.StringN(0, 100, -1).Draw(t, "before")
		after := rapid.StringN(0, 100, -1).Draw(t, "after")
		size := rapid.IntRange(0, 200).Draw(t, "size")
		chain := func(piece string) []uint64 {
			var h prefix.Hasher
			h.Reset(prefix.Seed{}, block)
			h.WriteString(before)
			h.WriteOpaque([]byte(piece), size)
			h.WriteString(after)
			return slices.Clone(h.Chain())
		}
		a, b := chain("a cat"), chain("a dog, much larger")
		if want := (len(before) + size + len(after)) / block; len(a) != want || len(b) != want {
			t.Fatalf("%d and %d blocks, want %d", len(a), len(b), want)
		}
		if !slices.Equal(a, chain("a cat")) {
			t.Fatal("the same prompt has two chains")
		}
		text := chainOf(prefix.Seed{}, block, before)
		for i := range a {
			if shared := i < len(text); (a[i] == b[i]) != shared || shared && a[i] != text[i] {
				t.Fatalf("block %d of %d before the piece: %x, %x", i, len(text), a[i], b[i])
			}
		}
	})
}

func TestHashingDoesNotAllocate(t *testing.T) {
	var h prefix.Hasher
	text := []byte(strings.Repeat("The quick brown fox. ", 1600))
	if n := testing.AllocsPerRun(100, func() {
		h.Reset(prefix.Seed{LLM: "qwen3-32b", Salt: "s"}, 0)
		h.WriteString("user")
		h.Write(text)
		h.WriteOpaque(text[:9], 700)
	}); n != 0 {
		t.Errorf("%v allocations a prompt, want 0", n)
	}
}

func BenchmarkHash32KB(b *testing.B) {
	var h prefix.Hasher
	text := make([]byte, 32<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		h.Reset(prefix.Seed{LLM: "qwen3-32b"}, 0)
		h.Write(text)
	}
}
