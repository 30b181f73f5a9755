package correction_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// sorting is a Coverage of TTFT in one band that sorts what it remembers anew
// with every outcome.
type sorting struct {
	above []float32
	level float64
	goal  float64
}

func (s *sorting) add(above float32, missed, told bool) {
	at := slices.Index(s.above, float32(math.Inf(1)))
	if told && at >= 0 {
		s.above[at] = above
	} else {
		s.above = append(s.above, above)
		s.above = s.above[max(0, len(s.above)-128):]
	}
	if !told {
		by := -0.1
		if missed {
			by = 0.9
		}
		s.level = min(0.08, max(-0.05, s.level+0.01*by))
	}
	if n := len(s.above); n >= 30 {
		sorted := slices.Sorted(slices.Values(s.above))
		at := min(n, int(math.Ceil((0.9+s.level)*float64(n+1)))) - 1
		s.goal = min(1.5, max(-1.5, float64(sorted[at])+1e-3))
	}
}

func TestCoverageRemembersAsOneThatSorts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c correction.Coverage
		var s sorting
		f := forecast(1, 1)
		waiting := 0 // of those of whom it was told that they are late
		for i := range rapid.IntRange(0, 400).Draw(rt, "outcomes") {
			what := rapid.IntRange(0, 5).Draw(rt, "what")
			if what == 0 {
				c.Overdue(3)
				s.add(float32(math.Inf(1)), true, false)
				waiting++
				continue
			}
			told := what == 1 && waiting > 0
			if told {
				waiting--
			}
			ttft := f.TTFT.P90 * feature.Seconds(math.Exp(float64(rapid.IntRange(-8, 8).Draw(rt, "above"))/8))
			c.Observe(&correction.Said{Plain: f, Corrected: f, Load: 3, Overdue: told}, ttft, feature.Seconds(feature.Unknown))
			s.add(float32(math.Log(float64(ttft/f.TTFT.P90))), ttft > f.TTFT.P90, told)
			if got := c.TTFT(3); got != s.goal {
				rt.Fatalf("after %d outcomes a p90 is moved by %v, want %v", i+1, got, s.goal)
			}
		}
	})
}
