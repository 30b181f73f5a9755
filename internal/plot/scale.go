package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// scale maps values onto a stretch of the drawing.
type scale struct {
	low, high float64 // of the values
	from, to  float64 // in pixels
	log       bool
	ticks     []float64
}

// newScale covers values from low to high with round numbers as ticks.
func newScale(low, high, from, to float64, log bool) scale {
	s := scale{low: low, high: high, from: from, to: to, log: log}
	switch {
	case log:
		if !(high > low*(1+1e-6)) {
			s.low, s.high = s.low/2, s.high*2
		}
		s.ticks = logTicks(s.low, s.high)
		s.low, s.high = min(s.low, s.ticks[0]), max(s.high, s.ticks[len(s.ticks)-1])
	default:
		// Values that hardly differ would need ticks with more digits than there are.
		if size := max(math.Abs(low), math.Abs(high)); !(high-low > 1e-6*size) {
			s.low, s.high = low-max(size, 1)/2, high+max(size, 1)/2
		}
		s.ticks = linearTicks(s.low, s.high)
	}
	return s
}

// at is where a value lies, in pixels.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// linearTicks returns about five multiples of 1, 2, 2.5 or 5 times a power of ten.
func linearTicks(low, high float64) []float64 {
	rough := (high - low) / 5
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * power
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= rough {
			step = m * power
			break
		}
	}
	var ticks []float64
	first := math.Ceil(low/step - 1e-9)
	for i := 0.0; (first+i)*step <= high+1e-9*step; i++ {
		ticks = append(ticks, (first+i)*step)
	}
	return ticks
}

// logTicks returns powers of ten, with 2 and 5 between them where few powers
// are, and linear ticks where even those are too few to read a value by.
func logTicks(low, high float64) []float64 {
	between := []float64{1, 2, 5}
	if math.Log10(high/low) > 3 {
		between = between[:1]
	}
	ticks := powerTicks(low, high, between)
	if len(ticks) < 3 {
		ticks = slices.DeleteFunc(linearTicks(low, high), func(v float64) bool { return v <= 0 })
	}
	if len(ticks) == 0 {
		ticks = append(ticks, low)
	}
	return ticks
}

func powerTicks(low, high float64, between []float64) []float64 {
	var ticks []float64
	for p := math.Floor(math.Log10(low)); p <= math.Ceil(math.Log10(high)); p++ {
		for _, m := range between {
			if v := m * math.Pow(10, p); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// label writes a tick: 1500, 20k, 1.5M, 0.25.
func label(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return short(v/1e6) + "M"
	case a >= 1e4:
		return short(v/1e3) + "k"
	}
	return short(v)
}

func short(v float64) string {
	s := strconv.FormatFloat(v, 'f', 4, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
