package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/spillway-llm/spillway/router/prefix"
)

// textsOf are prompts that begin with one of so many texts, of a length each, and
// go on with one of five questions, in random order. Routers had seen all of them
// before: how much of one its router knew does not say where it parts from others.
func textsOf(t *testing.T, lengths []int, rng *rand.Rand) (l *log, text []int) {
	t.Helper()
	const questions, repeats, question = 5, 4, 19
	l = &log{}
	digester := prefix.NewDigester([16]byte{1})
	for k, length := range lengths {
		for q := range questions {
			var chain []uint64
			for i := range length + question {
				id := uint64(k+1)<<32 + uint64(i)
				if i >= length {
					id += uint64(q+1) << 16
				}
				chain = append(chain, id)
			}
			d, err := prefix.ParseDigest(digester.Append(nil, chain, len(chain)))
			if err != nil {
				t.Fatal(err)
			}
			for range repeats {
				l.requests = append(l.requests, request{parent: -1, prompt: len(chain)*blockTokens + blockTokens/2, digest: d})
				text = append(text, k)
			}
		}
	}
	rng.Shuffle(len(text), func(i, j int) {
		l.requests[i], l.requests[j] = l.requests[j], l.requests[i]
		text[i], text[j] = text[j], text[i]
	})
	return l, text
}

// Prompts of which routers knew all part where engines found no more of some of
// them, or were believed to hold no more.
func TestPromptsPartWhereCachesEnd(t *testing.T) {
	for name, tell := range map[string]func(q *request, length int, rng *rand.Rand){
		"engines": func(q *request, length int, _ *rand.Rand) { q.cached = float64(length * blockTokens) },
		"beliefs": func(q *request, length int, _ *rand.Rand) {
			q.warm = append(q.warm, warm{0, float32(length * blockTokens)})
		},
		"eviction as well": func(q *request, length int, rng *rand.Rand) {
			q.cached = float64(length * blockTokens)
			q.warm = append(q.warm, warm{0, float32(rng.IntN(q.digest.Blocks) * blockTokens)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			lengths := []int{5, 8, 23, 64, 70, 93, 93, 95, 200}
			rng := rand.New(rand.NewPCG(1, 1))
			l, text := textsOf(t, lengths, rng)
			for i := range l.requests {
				if rng.IntN(3) == 0 {
					tell(&l.requests[i], lengths[text[i]], rng)
				}
			}
			l.begin()
			first := map[int]bool{}
			for i, k := range text {
				q := &l.requests[i]
				switch parted := int(q.common) < q.digest.Blocks; {
				case !first[k]:
					first[k] = true
					if q.parent >= 0 {
						t.Fatalf("request %d begins with text %d first, and its parent is %d", i, k, q.parent)
					}
				case text[q.parent] != k:
					t.Fatalf("request %d begins with text %d and its parent with %d", i, k, text[q.parent])
				case parted && int(q.common) != lengths[k]:
					t.Errorf("request %d parts from %d after %d blocks, want %d", i, q.parent, q.common, lengths[k])
				}
			}
		})
	}
}

// Where nobody tells of a text, others' length is taken where it may be its own, and
// else what all have in common for sure.
func TestPromptsPartWhereOthersDo(t *testing.T) {
	for _, c := range []struct{ length, others, want int }{
		{93, 93, 93},
		{93, 120, 64}, // theirs lies between other marks
		{93, 0, 64},   // nobody tells of any
	} {
		t.Run(fmt.Sprintf("%d among %d", c.length, c.others), func(t *testing.T) {
			l, text := textsOf(t, []int{c.length, max(c.others, 10)}, rand.New(rand.NewPCG(1, 2)))
			for i := range l.requests {
				if q := &l.requests[i]; text[i] == 1 && c.others > 0 {
					q.cached = float64(c.others * blockTokens)
				}
			}
			l.begin()
			for i := range l.requests {
				q := &l.requests[i]
				if text[i] == 0 && q.parent >= 0 && int(q.common) < q.digest.Blocks && int(q.common) != c.want {
					t.Errorf("request %d parts from %d after %d blocks, want %d", i, q.parent, q.common, c.want)
				}
			}
		})
	}
}
