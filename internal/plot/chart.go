package plot

import (
	"cmp"
	"math"
	"slices"
)

// Point is one value, perhaps with an interval around it.
type Point struct {
	X, Y      float64
	Low, High float64 // of the interval around Y; none where they are equal, not numbers, or Y lies outside
}

// Line is points that belong together. Points whose X or Y is no finite number are
// left out, and so are those at or below 0 of a logarithmic chart; the line is
// broken there.
type Line struct {
	Name   string
	Points []Point
	Color  int // index into the palette, modulo its length
	Dashed bool
	Hollow bool // markers with an open middle: for what others measured
	Bare   bool // no markers: for series of many points
	Thin   bool // for many lines on top of each other
}

// Chart is one drawing. The zero values of sizes are 460 x 300 pixels.
type Chart struct {
	Title         string
	X, Y          string // what the axes count, with the unit
	Lines         []Line
	LogY          bool
	Unnamed       bool    // no legend
	Tight         bool    // a linear Y axis need not reach 0
	Most          float64 // the Y axis reaches at least this, so that charts can be compared
	Width, Height int
}

// palette is Okabe and Ito's, which colour-blind readers can tell apart, without
// its yellow, which is hard to see on white.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555"}

// banded is up to how many lines intervals are shaded: more shades than that hide
// each other, and the whiskers say the same.
const banded = 3

// Color is the palette's i-th colour, as CSS.
func Color(i int) string { return palette[((i%len(palette))+len(palette))%len(palette)] }

func (c Chart) usable(p Point) bool {
	return finite(p.X) && finite(p.Y) && (!c.LogY || p.Y > 0)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// extent is the least and greatest x and y that have to be visible, false when
// there is nothing to see.
func (c Chart) extent() (x, y [2]float64, any bool) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	stretch := func(r *[2]float64, v float64) { r[0], r[1] = min(r[0], v), max(r[1], v) }
	for _, line := range c.Lines {
		for _, p := range line.Points {
			if !c.usable(p) {
				continue
			}
			any = true
			stretch(&x, p.X)
			stretch(&y, p.Y)
			if p.interval() {
				stretch(&y, p.High)
				if !c.LogY || p.Low > 0 {
					stretch(&y, p.Low)
				}
			}
		}
	}
	if any {
		y[1] = max(y[1], c.Most)
		if !c.LogY && !c.Tight {
			y[0] = min(y[0], 0)
		}
	}
	return x, y, any
}

func (p Point) interval() bool {
	return finite(p.Low) && finite(p.High) && p.High > p.Low && p.Low <= p.Y && p.Y <= p.High
}

// pieces splits a line where points are left out.
func (c Chart) pieces(line Line) [][]Point {
	var pieces [][]Point
	start := 0
	cut := func(end int) {
		if end > start {
			pieces = append(pieces, line.Points[start:end])
		}
		start = end + 1
	}
	for i, p := range line.Points {
		if !c.usable(p) {
			cut(i)
		}
	}
	cut(len(line.Points))
	return pieces
}

// Sorted returns points in order of X.
func Sorted(points []Point) []Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	return points
}
