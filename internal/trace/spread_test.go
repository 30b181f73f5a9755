package trace_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/trace"
)

func TestSpreadKeepsOrderAndGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []trace.Item
		at := time.Duration(0)
		for i := range rapid.IntRange(0, 30).Draw(t, "items") {
			if rapid.Bool().Draw(t, "later") {
				at += time.Duration(rapid.IntRange(1, 5).Draw(t, "seconds")) * time.Second
			}
			items = append(items, trace.Item{At: at, Line: i})
		}
		seed := rapid.Uint64().Draw(t, "seed")
		out := trace.Spread(items, rand.New(rand.NewPCG(seed, 1)))
		again := trace.Spread(items, rand.New(rand.NewPCG(seed, 1)))
		for i := range out {
			if out[i].Line != items[i].Line {
				t.Fatalf("item %d became item %d", items[i].Line, out[i].Line)
			}
			if i > 0 && out[i].At < out[i-1].At {
				t.Fatal("not sorted any more")
			}
			if out[i].At < items[i].At {
				t.Fatal("an item moved to an earlier time")
			}
			for _, later := range items[i:] {
				if later.At > items[i].At {
					if out[i].At > later.At {
						t.Fatal("an item moved past the next time")
					}
					break
				}
			}
			if out[i].At != again[i].At {
				t.Fatal("the same seed gave other times")
			}
		}
	})
}

func TestRounded(t *testing.T) {
	at := func(seconds ...int) (items []trace.Item) {
		for _, s := range seconds {
			items = append(items, trace.Item{At: time.Duration(s) * time.Second})
		}
		return items
	}
	for _, c := range []struct {
		items []trace.Item
		want  bool
	}{{nil, false}, {at(0, 1, 2, 3), false}, {at(0, 0, 0, 3, 3, 6), true}, {at(0, 1, 1, 2, 3, 4), false}} {
		if got := trace.Rounded(c.items); got != c.want {
			t.Errorf("Rounded(%v) = %v", c.items, got)
		}
	}
}
