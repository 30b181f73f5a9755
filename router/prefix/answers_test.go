package prefix_test

import (
	"math"
	"testing"

	"github.com/spillway-llm/spillway/router/prefix"
)

func TestAnswersFollowTheirPrompts(t *testing.T) {
	var a prefix.Answers
	if got := a.After(0, 7, 100); got != 0 || a.Share() != 0 {
		t.Errorf("nothing was told, and %v tokens follow, of which %v", got, a.Share())
	}
	a.Ended(0, 7, 90)
	a.Ended(1, 7, 500)
	a.Ended(0, 8, -3)
	a.Ended(0, 9, math.NaN())
	for _, c := range []struct {
		what       string
		slot       int
		last       uint64
		rest, want float64
	}{
		{"the answer", 0, 7, 1000, 90},
		{"no more than the prompt goes on", 0, 7, 40, 40},
		{"a prompt that ends before its blocks do", 0, 7, -8, 0},
		{"that of another endpoint", 1, 7, 1000, 500},
		{"an endpoint that was not asked", 2, 7, 1000, 0},
		{"less than nothing", 0, 8, 1000, 0},
		{"nobody knows", 0, 9, 1000, 0},
	} {
		if got := a.After(c.slot, c.last, c.rest); got != c.want {
			t.Errorf("%s: %v tokens, want %v", c.what, got, c.want)
		}
	}
	a.Ended(0, 7, 30)
	if got := a.After(0, 7, 1000); got != 30 {
		t.Errorf("%v tokens follow, want the 30 of the newest answer", got)
	}
}

// The oldest go when there are too many.
func TestAnswersAreBounded(t *testing.T) {
	var a prefix.Answers
	const most = prefix.MostAnswers
	for i := range uint64(2*most + 10) {
		a.Ended(3, i, 1)
	}
	held := 0
	for i := range uint64(2*most + 10) {
		if a.After(3, i, 1) > 0 {
			held++
			if i < most+10 {
				t.Fatalf("answer %d is remembered", i)
			}
		}
	}
	if held != most {
		t.Errorf("%d are remembered, want %d", held, most)
	}
	if n := testing.AllocsPerRun(100, func() { a.Ended(3, 1<<40, 5); a.After(3, 1<<40, 9) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// The share that engines hold is believed slowly, and follows them.
func TestAnswersLearnWhatEnginesKeep(t *testing.T) {
	var a prefix.Answers
	a.Found(100, 100)
	if s := a.Share(); s <= 0 || s > 0.5 {
		t.Errorf("one answer that was found makes the share %v", s)
	}
	for range 200 {
		a.Found(100, 130) // with what filled up its last block
	}
	if s := a.Share(); s < 0.95 || s > 1 {
		t.Errorf("the share is %v where all is found", s)
	}
	a.Found(0, 10)
	a.Found(10, math.NaN())
	a.Found(10, -1)
	if s := a.Share(); s < 0.95 {
		t.Errorf("reports that say nothing made the share %v", s)
	}
	for range 200 {
		a.Found(100, 0)
	}
	if s := a.Share(); s > 0.05 {
		t.Errorf("the share is %v where nothing is", s)
	}
}
