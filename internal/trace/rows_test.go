package trace_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/trace"
)

func TestFromRows(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	unknown := math.NaN()
	items, leftOut := trace.FromRows([]trace.Row{
		{At: noon.Add(2 * time.Second), PromptTokens: 300, OutputTokens: 20, CachedTokens: 200},
		{At: noon, PromptTokens: 100, OutputTokens: 10, CachedTokens: unknown},
		{At: noon.Add(time.Second), PromptTokens: 1000, OutputTokens: 0, CachedTokens: 63},
		{At: noon.Add(2 * time.Second), PromptTokens: 130, OutputTokens: 5, CachedTokens: 1e9},
		{At: noon, PromptTokens: unknown, OutputTokens: 10},
		{At: noon, PromptTokens: 100, OutputTokens: unknown},
		{At: noon, PromptTokens: 0, OutputTokens: 1},
		{At: noon, PromptTokens: math.Inf(1), OutputTokens: 1},
		{At: noon, PromptTokens: 1, OutputTokens: -1},
	})
	want := []trace.Item{
		{PromptTokens: 100, OutputTokens: 10},
		{At: time.Second, PromptTokens: 1000},
		{At: 2 * time.Second, PromptTokens: 300, OutputTokens: 20, Blocks: []uint64{1, 2, 3}, BlockTokens: trace.RowBlock},
		{At: 2 * time.Second, PromptTokens: 130, OutputTokens: 5, Blocks: []uint64{1, 2}, BlockTokens: trace.RowBlock},
	}
	if diff := cmp.Diff(want, items); diff != "" || leftOut != 5 {
		t.Errorf("%d left out, want 5 (-want +got):\n%s", leftOut, diff)
	}
	if items, leftOut := trace.FromRows(nil); items != nil || leftOut != 0 {
		t.Errorf("of nothing: %v, %d", items, leftOut)
	}
}

// Any two items share exactly what the smaller of their cached parts holds in
// whole blocks.
func TestFromRowsShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trace.Row {
			return trace.Row{
				At:           time.Unix(rapid.Int64Range(0, 100).Draw(t, "at"), 0),
				PromptTokens: float64(rapid.IntRange(1, 5000).Draw(t, "prompt")),
				OutputTokens: float64(rapid.IntRange(0, 500).Draw(t, "output")),
				CachedTokens: float64(rapid.IntRange(0, 6000).Draw(t, "cached")),
			}
		}), 1, 20).Draw(t, "rows")
		items, leftOut := trace.FromRows(rows)
		if leftOut != 0 || len(items) != len(rows) || items[0].At != 0 {
			t.Fatalf("%d items, %d left out of %d", len(items), leftOut, len(rows))
		}
		wanted, got := map[[2]int]int{}, map[[2]int]int{} // prompt and shared tokens
		for _, r := range rows {
			wanted[[2]int{int(r.PromptTokens), int(min(r.CachedTokens, r.PromptTokens)) / 64 * 64}]++
		}
		for i, item := range items {
			got[[2]int{item.PromptTokens, len(item.Blocks) * item.BlockTokens}]++
			if i > 0 && item.At < items[i-1].At {
				t.Fatal("not in order of time")
			}
			for j, id := range item.Blocks {
				if id != uint64(j+1) {
					t.Fatalf("block %d is %d", j, id)
				}
			}
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Fatal(diff)
		}
	})
}
