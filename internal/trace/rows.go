package trace

import (
	"slices"
	"time"
)

// Row is one request that was served and whose prompt nobody kept: how long it
// was, and how much of it the engine found in its cache. Unknown is NaN.
type Row struct {
	At           time.Time
	PromptTokens float64
	OutputTokens float64
	CachedTokens float64 // of the prompt; unknown counts as none
}

// RowBlock is the tokens of one block of the items that FromRows makes, the
// block of a router's index. What was cached is rounded down to it.
const RowBlock = 64

// FromRows makes a trace of rows, sorted by time, the first at 0. It leaves out
// those without a prompt of 1 to MaxTokens tokens or an output of 0 to MaxTokens,
// and tells how many.
//
// Which prompts shared their text is not known, only how much of each was
// cached. So the cached parts of all begin one and the same text, and the rest
// of each is its own: an approximation that keeps how much can be found, but
// not where. In a replay any endpoint that has seen the long beginning serves
// every row from its cache, so affinity to few endpoints gains less than it did.
func FromRows(rows []Row) (items []Item, leftOut int) {
	usable := make([]Row, 0, len(rows))
	longest := 0
	for _, r := range rows {
		if !(r.PromptTokens >= 1 && r.PromptTokens <= MaxTokens && r.OutputTokens >= 0 && r.OutputTokens <= MaxTokens) {
			leftOut++
			continue
		}
		usable = append(usable, r)
		longest = max(longest, r.cachedBlocks())
	}
	if len(usable) == 0 {
		return nil, leftOut
	}
	slices.SortStableFunc(usable, func(a, b Row) int { return a.At.Compare(b.At) })
	text := make([]uint64, longest)
	for i := range text {
		text[i] = uint64(i + 1)
	}
	items = make([]Item, len(usable))
	for i, r := range usable {
		items[i] = Item{At: r.At.Sub(usable[0].At), PromptTokens: int(r.PromptTokens), OutputTokens: int(r.OutputTokens)}
		if n := r.cachedBlocks(); n > 0 {
			items[i].Blocks, items[i].BlockTokens = text[:n:n], RowBlock
		}
	}
	return items, leftOut
}

// cachedBlocks is the number of whole blocks that were cached.
func (r Row) cachedBlocks() int {
	if cached := min(r.CachedTokens, r.PromptTokens); cached > 0 { // false for NaN
		return int(cached) / RowBlock
	}
	return 0
}
