package bundle

import (
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Support is the box a bundle was trained in: the smallest and the largest
// value of every feature. Both are NaN for a feature that was never known.
type Support struct {
	Min feature.Vector
	Max feature.Vector
}

// SupportOf returns the smallest box around the vectors that can be forecast.
// NaNs are left out.
func SupportOf(vectors []feature.Vector) Support {
	var s Support
	for j := range feature.Width {
		s.Min[j], s.Max[j] = float32(math.NaN()), float32(math.NaN())
	}
	for i := range vectors {
		if !Valid(&vectors[i]) {
			continue
		}
		for j, x := range vectors[i] {
			if x != x {
				continue
			}
			if !(s.Min[j] <= x) {
				s.Min[j] = x
			}
			if !(s.Max[j] >= x) {
				s.Max[j] = x
			}
		}
	}
	return s
}

func (s *Support) check() error {
	names := feature.Names()
	for j, name := range names {
		lo, hi := float64(s.Min[j]), float64(s.Max[j])
		unknown := math.IsNaN(lo) && math.IsNaN(hi)
		if !unknown && !(lo <= hi && !math.IsInf(lo, 0) && !math.IsInf(hi, 0)) {
			return fmt.Errorf("support of %s is [%v, %v], want a finite interval", name, lo, hi)
		}
	}
	for _, j := range []int{feature.ColumnPriorTTFT, feature.ColumnPriorTPOT} {
		if !(s.Min[j] > 0) {
			return fmt.Errorf("support of %s begins at %v, want a positive number", names[j], s.Min[j])
		}
	}
	return nil
}

// degenerateWidth is the share of its own size that counts as the width of a
// feature which never varied in training.
const degenerateWidth = 0.1

// of returns 1 inside the box and 1/(1+z) outside, where z is how far the
// feature that lies furthest out is from the box, in widths of the box: one
// width outside is 0.5, nine are 0.1. Unknown features say nothing.
func (s *Support) of(v *feature.Vector) float64 {
	worst := 0.0
	for j, x := range v {
		var excess float64
		switch {
		case x > s.Max[j]:
			excess = float64(x) - float64(s.Max[j])
		case x < s.Min[j]:
			excess = float64(s.Min[j]) - float64(x)
		default: // inside, or one of the three is NaN
			continue
		}
		lo, hi := float64(s.Min[j]), float64(s.Max[j])
		width := max(hi-lo, degenerateWidth*max(math.Abs(lo), math.Abs(hi)))
		if width == 0 {
			width = 1
		}
		worst = max(worst, excess/width)
	}
	return 1 / (1 + worst)
}

// interval is a range of positive numbers.
type interval struct{ min, max float64 }

// priors is the range that a fitted prior had in training, or that of the
// vectors' own prior where none was fitted.
func (s *Support) priors(c *physics.Curve, column int) interval {
	if len(c.Terms) > 0 {
		return interval{c.Min, c.Max}
	}
	return interval{float64(s.Min[column]), float64(s.Max[column])}
}

// outside returns how far the positive x is from the interval, as an absolute
// logarithm of a ratio; 0 inside.
func (i interval) outside(x float64) float64 {
	switch {
	case x > i.max:
		return math.Log(x / i.max)
	case x < i.min:
		return math.Log(i.min / x)
	default:
		return 0
	}
}
