package route_test

import (
	"testing"

	"github.com/spillway-llm/spillway/router/prefix"
	"github.com/spillway-llm/spillway/router/route"
)

// A row's digest tells how much of its prompt an earlier one began with. Routers
// with one salt write alike, and those without one each for itself.
func TestRowsTellWhatPromptsHaveInCommon(t *testing.T) {
	digests := func(salt string) (all [2]prefix.Digest) {
		w := newWorld(t, 3, func(c *route.Config) { c.Salt = salt })
		for i := range all {
			q := query("a system prompt")
			if i == 1 {
				text := make([]byte, 4000)
				copy(text, "a system prompt")
				text[2100] = 'x' // in the ninth block of 256 bytes
				q.Prompt = spans(text)
			}
			ticket := w.begin(t, q)
			ticket.End(served(1000, 10))
			var err error
			if all[i], err = prefix.ParseDigest(w.memory.decisions[ticket.ID()].PromptDigest); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	salted := digests("salt of the fleet")
	first, second := salted[0], salted[1]
	if first.Blocks != 15 || first.Known != 0 || second.Blocks != 15 || second.Known != 8 {
		t.Fatalf("digests of %d blocks, %d known, and %d, %d: want 15, 0 and 15, 8", first.Blocks, first.Known, second.Blocks, second.Known)
	}
	for i, m := range second.Marks {
		if alike := i < len(first.Marks) && first.Marks[i] == m; alike != (m.Depth <= 8) {
			t.Errorf("marks of depth %d are alike: %v", m.Depth, alike)
		}
	}
	if again := digests("salt of the fleet")[0]; again.Marks[0] != first.Marks[0] {
		t.Error("routers with one salt write the same prompt in different ways")
	}
	if one, other := digests("")[0], digests("")[0]; one.Marks[0] == other.Marks[0] {
		t.Error("routers without a salt write the same prompt alike")
	}
}
