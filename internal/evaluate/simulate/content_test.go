package simulate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// namesOf is what ids appends, found block by block: who brought it is the first of
// the parents that does not share it.
func (l *log) namesOf(r, n int) (out []uint64) {
	for i := range n {
		at := r
		for l.requests[at].parent >= 0 && i < int(l.requests[at].shared) {
			at = int(l.requests[at].parent)
		}
		out = append(out, splitmix.Mix(uint64(at)+1)+uint64(i))
	}
	return out
}

// Blocks have the names that whoever brought them gave them, also where many parents
// that only repeat them lie between.
func TestIDsAreOfWhoBroughtThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &log{}
		for i := range rapid.IntRange(1, 40).Draw(t, "requests") {
			q := request{parent: -1}
			if i > 0 && rapid.IntRange(0, 9).Draw(t, "begins") > 0 {
				q.parent, q.shared = int32(rapid.IntRange(0, i-1).Draw(t, "parent")), int32(rapid.IntRange(0, 6).Draw(t, "shared"))
				q.origin = l.originOf(&q)
			}
			l.requests = append(l.requests, q)
		}
		for r := range l.requests {
			n := rapid.IntRange(0, 10).Draw(t, "blocks")
			if got, want := l.ids(nil, r, n, false), l.namesOf(r, n); !slices.Equal(got, want) {
				t.Fatalf("request %d: %v, want %v", r, got, want)
			}
		}
	})
}

// Of prompts that all begin alike, each finds who brought that at once.
func TestManyPromptsThatBeginAlike(t *testing.T) {
	l := &log{requests: []request{{parent: -1}}}
	for i := range 1000 {
		q := request{parent: int32(i), shared: 4}
		q.origin = l.originOf(&q)
		if q.origin != 0 {
			t.Fatalf("request %d takes them from %d, want from the first", i+1, q.origin)
		}
		l.requests = append(l.requests, q)
	}
}
