package main

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/evaluate"
)

// group is the worlds that a score is of.
type group uint8

const (
	every group = iota
	specified
	misspecified
	groups
)

// String is the group as tables name it.
func (g group) String() string {
	return [groups]string{"all worlds", "worlds that the fitted model can be right about", "worlds with a mechanism that it lacks"}[g]
}

func (g group) holds(w *world) bool {
	return g == every || w.plain() == (g == specified)
}

// decisive is from what true effect on the sign counts.
const decisive = 0.05

// wanted is half of the interval that an effect is to be known within, for the
// requests that takes.
const wanted = 0.05

// score is how an instrument did on some pairs.
type score struct {
	pairs    int     // asked
	answered int     // of them
	bias     float64 // mean of estimate - truth
	rmse     float64
	median   float64 // of the absolute error
	covered  float64 // share of the intervals that hold the truth
	decisive int     // pairs whose true effect exceeds 5 %, that were answered
	right    int     // of them, with the right sign
	width    float64 // median of half of the interval
	needed   float64 // requests: median of those that would narrow it to 5 points either way, were it chance alone
}

// sign is the share of the decisive pairs with the right sign, with its 99 %
// interval.
func (s *score) sign() evaluate.Proportion {
	return evaluate.Wilson(int64(s.right), int64(s.decisive))
}

// scoreOf scores an instrument on one quantity in a group of worlds.
func scoreOf(pairs []*pair, i instrument, q quantity, g group) (s score) {
	var errs, squares, widths, needed []float64
	covered := 0
	for _, p := range pairs {
		if !g.holds(p.world) {
			continue
		}
		s.pairs++
		e, truth := &p.estimates[i][q], p.effect(i, q).Mean
		if !e.known() {
			continue
		}
		s.answered++
		err := e.effect.Mean - truth
		errs, squares = append(errs, math.Abs(err)), append(squares, err*err)
		s.bias += err
		if e.effect.Low <= truth && truth <= e.effect.High {
			covered++
		}
		if math.Abs(truth) > decisive {
			s.decisive++
			if e.effect.Mean*truth > 0 {
				s.right++
			}
		}
		half := (e.effect.High - e.effect.Low) / 2
		if half >= 0 && !math.IsInf(half, 0) {
			widths = append(widths, half)
			needed = append(needed, float64(e.requests)*half*half/(wanted*wanted))
		}
	}
	n := float64(s.answered)
	s.bias /= n
	s.rmse = math.Sqrt(meanOf(squares))
	s.median, s.width, s.needed = median(errs), median(widths), median(needed)
	s.covered = float64(covered) / n
	return s
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return evaluate.Quantile(values, 0.5)
}
