package prefix_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/router/prefix"
)

// chains draws two chains that have their first blocks in common, and how many.
func chains(t *rapid.T) (a, b []uint64, common int) {
	a = rapid.SliceOfNDistinct(rapid.Uint64(), 1, 300, rapid.ID).Draw(t, "a")
	common = rapid.IntRange(0, len(a)).Draw(t, "common")
	b = slices.Clone(a[:common])
	for range rapid.IntRange(0, 300).Draw(t, "own") {
		own := uint64(len(b))<<40 + 7
		if len(b) < len(a) && a[len(b)] == own { // small numbers are drawn often
			own++
		}
		b = append(b, own)
	}
	return a, b, common
}

// Two digests have a mark in common exactly where both have one and the prompts
// have that much in common; the grid leaves less than a third of it untold, and
// what the index knew nothing.
func TestDigestsTellWhatPromptsShare(t *testing.T) {
	d := prefix.NewDigester([16]byte{1})
	rapid.Check(t, func(t *rapid.T) {
		a, b, common := chains(t)
		if len(b) == 0 {
			return
		}
		knew := rapid.Bool().Draw(t, "knew")
		known := 0
		if knew {
			known = common
		}
		var read [2]prefix.Digest
		for i, chain := range [][]uint64{a, b} {
			bytes := d.Append(nil, chain, known)
			if len(bytes) > prefix.MaxDigest {
				t.Fatalf("%d bytes", len(bytes))
			}
			var err error
			if read[i], err = prefix.ParseDigest(bytes); err != nil {
				t.Fatal(err)
			}
			if read[i].Blocks != len(chain) || read[i].Known != known {
				t.Fatalf("read %d blocks, %d of them known, of %d and %d", read[i].Blocks, read[i].Known, len(chain), known)
			}
		}
		told := 0
		for _, m := range read[0].Marks {
			for _, n := range read[1].Marks {
				if m.Depth != n.Depth {
					continue
				}
				if (m.Tag == n.Tag) != (m.Depth <= common) {
					t.Fatalf("marks of depth %d are %x and %x with %d blocks in common", m.Depth, m.Tag, n.Tag, common)
				}
				if m.Tag == n.Tag {
					told = m.Depth
				}
			}
		}
		if knew && told != common || 3*told < 2*common-1 {
			t.Fatalf("marks tell of %d blocks in common and there are %d", told, common)
		}
	})
}

func TestDigestsOfOtherKeysHaveNothingInCommon(t *testing.T) {
	chain := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	one, other := prefix.NewDigester([16]byte{1}), prefix.NewDigester([16]byte{2})
	a, err := prefix.ParseDigest(one.Append(nil, chain, 0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := prefix.ParseDigest(other.Append(nil, chain, 0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.Marks {
		if a.Marks[i].Tag == b.Marks[i].Tag {
			t.Errorf("equal marks at depth %d", a.Marks[i].Depth)
		}
	}
}

func TestADigestOfTheLongestPromptsHasItsBound(t *testing.T) {
	d := prefix.NewDigester([16]byte{})
	chain := make([]uint64, 1<<20)
	bytes := d.Append(nil, chain, 1<<20-1)
	if len(bytes) > prefix.MaxDigest {
		t.Errorf("%d bytes", len(bytes))
	}
	if got, err := prefix.ParseDigest(bytes); err != nil || got.Blocks != len(chain) {
		t.Errorf("read %d blocks: %v", got.Blocks, err)
	}
	if n := testing.AllocsPerRun(100, func() { bytes = d.Append(bytes[:0], chain, 17) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if d.Append(nil, nil, 3) != nil {
		t.Error("no chain has a digest")
	}
}

func FuzzParseDigest(f *testing.F) {
	d := prefix.NewDigester([16]byte{1})
	f.Add(d.Append(nil, []uint64{1, 2, 3, 4, 5}, 5))
	f.Add([]byte{1, 3, 4})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := prefix.ParseDigest(b)
		if err != nil || len(b) == 0 {
			return
		}
		last := 0
		for _, m := range got.Marks {
			if m.Depth <= last {
				t.Fatalf("depth %d behind %d", m.Depth, last)
			}
			last = m.Depth
		}
		if last != got.Blocks {
			t.Fatalf("%d blocks, told of to %d", got.Blocks, last)
		}
	})
}
