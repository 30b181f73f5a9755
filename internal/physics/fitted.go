package physics

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Fitted is a prior that was fitted to measured rows: it reads a vector, the
// analytic prior in it included, and says what rows like it came to. Like the
// analytic prior it extrapolates, and it never falls while a feature moves the
// way that its sign in feature.Table calls slower.
type Fitted struct {
	// Peak is the peak prefill throughput, in tokens/s, of the endpoints that
	// the terms' seconds stand for; they shrink on faster ones and stretch on
	// slower ones. 0 when it was not known.
	Peak float64 `json:"peak,omitempty"`
	TTFT Curve   `json:"ttft"`
	TPOT Curve   `json:"tpot"`
}

// Curve is one latency as a sum of terms, in seconds. Without terms it is the
// analytic prior of the vector.
type Curve struct {
	Terms []Term `json:"terms,omitempty"`

	// Min and Max are its least and its greatest value, in seconds, over the
	// rows it was fitted to; both are 0 when there were none.
	Min float64 `json:"min,omitempty"`
	Max float64 `json:"max,omitempty"`
}

// Term is Seconds times its ramp, and times the second ramp where there is one.
// Seconds is not negative, so that a sum of terms never falls where no ramp
// does.
type Term struct {
	Seconds float64 `json:"seconds"`
	Ramp    Ramp    `json:"ramp"`
	Times   *Ramp   `json:"times,omitempty"`
}

// Constant is the column of a ramp that is 1 for every vector.
const Constant = -1

// Ramp is how far a column of a vector is past From: 0 before it and where the
// column is unknown, To-From after To. Open ramps have To 0 and go on for ever.
type Ramp struct {
	Column int     `json:"column"` // of feature.Vector, or Constant
	From   float64 `json:"from,omitempty"`
	To     float64 `json:"to,omitempty"`
}

// At is the ramp's height for v.
func (r Ramp) At(v *feature.Vector) float64 {
	if r.Column == Constant {
		return 1
	}
	x := float64(v[r.Column]) - r.From
	if !(x > 0) { // or unknown
		return 0
	}
	if r.To > 0 {
		return min(x, r.To-r.From)
	}
	return x
}

// own reports whether the term reads an analytic prior, which knows the speed
// of its endpoint already.
func (t *Term) own() bool {
	switch t.Ramp.Column {
	case feature.ColumnPriorTTFT, feature.ColumnPriorTPOT, feature.ColumnPriorPrefill, feature.ColumnPriorQueue, feature.ColumnPriorAdmission, feature.ColumnPriorInterference:
		return true
	}
	return false
}

// At is what the term adds for v, on an endpoint that takes pace times as long
// as those the seconds stand for.
func (t *Term) At(v *feature.Vector, pace float64) float64 {
	x := t.Seconds * t.Ramp.At(v)
	if t.Times != nil {
		x *= t.Times.At(v)
	}
	if t.own() {
		return x
	}
	return x * pace
}

// The columns that tell how fast an endpoint is.
var (
	columnPeak  = feature.Index("peak_prefill_throughput")
	columnSpeed = feature.Index("speed_factor")
)

// Pace is how many times as long the endpoint of v takes for the same work as
// those that f was fitted to: its speed factor times what its class is slower.
// What is unknown counts as 1.
func (f *Fitted) Pace(v *feature.Vector) float64 {
	pace := 1.0
	if s := float64(v[columnSpeed]); s > 0 {
		pace = s
	}
	if peak := float64(v[columnPeak]); peak > 0 && f.Peak > 0 {
		pace *= f.Peak / peak
	}
	return pace
}

// Estimate is the fitted prior of v; a curve without terms gives the prior of
// the vector.
func (f *Fitted) Estimate(v *feature.Vector) feature.Prior {
	p := v.Prior()
	pace := f.Pace(v)
	if len(f.TTFT.Terms) > 0 {
		p.TTFT = f.TTFT.at(v, pace)
	}
	if len(f.TPOT.Terms) > 0 {
		p.TPOT = f.TPOT.at(v, pace)
	}
	return p
}

func (c *Curve) at(v *feature.Vector, pace float64) feature.Seconds {
	sum := 0.0
	for i := range c.Terms {
		sum += c.Terms[i].At(v, pace)
	}
	return feature.Seconds(sum)
}

// maxTerms is far more than any fit makes.
const maxTerms = 1024

// Check reports what would let f fall with load, or say a latency that is not
// positive.
func (f *Fitted) Check() error {
	if !(f.Peak >= 0) || math.IsInf(f.Peak, 0) {
		return fmt.Errorf("fitted prior: peak throughput %v, want tokens/s or 0", f.Peak)
	}
	for _, c := range []struct {
		name  string
		curve *Curve
		own   []int // columns that are above 0 for every vector
	}{
		{"TTFT", &f.TTFT, []int{feature.ColumnPriorTTFT, feature.ColumnPriorPrefill}},
		{"TPOT", &f.TPOT, []int{feature.ColumnPriorTPOT}},
	} {
		if err := c.curve.check(c.own); err != nil {
			return fmt.Errorf("fitted prior of %s: %w", c.name, err)
		}
	}
	return nil
}

func (c *Curve) check(own []int) error {
	if len(c.Terms) == 0 {
		return nil
	}
	if len(c.Terms) > maxTerms {
		return fmt.Errorf("%d terms, want at most %d", len(c.Terms), maxTerms)
	}
	positive := false
	for i, t := range c.Terms {
		if !(t.Seconds >= 0) || math.IsInf(t.Seconds, 0) {
			return fmt.Errorf("term %d has %v seconds: want a number from 0", i, t.Seconds)
		}
		ramps := []Ramp{t.Ramp}
		if t.Times != nil {
			ramps = append(ramps, *t.Times)
		}
		for _, r := range ramps {
			if err := r.check(); err != nil {
				return fmt.Errorf("term %d: %w", i, err)
			}
		}
		// One of these is above 0 for every vector that can be forecast.
		always := t.Ramp.Column == Constant || slices.Contains(own, t.Ramp.Column) && t.Ramp.From == 0
		positive = positive || always && t.Times == nil && t.Seconds > 0
	}
	if !positive {
		return fmt.Errorf("no term is positive for every vector")
	}
	if !(c.Min > 0 && c.Min <= c.Max) || math.IsInf(c.Max, 0) {
		return fmt.Errorf("range %v to %v: want positive seconds in order", c.Min, c.Max)
	}
	return nil
}

func (r Ramp) check() error {
	if r.Column == Constant {
		return nil
	}
	if r.Column < 0 || r.Column >= feature.Width {
		return fmt.Errorf("column %d, want 0 to %d, or %d for none", r.Column, feature.Width-1, Constant)
	}
	if name := names[r.Column]; signs[r.Column] != feature.Plus {
		return fmt.Errorf("ramp on %s: a latency need not rise with it", name)
	}
	if !(r.From >= 0) || math.IsInf(r.From, 0) || r.To != 0 && !(r.To > r.From) || math.IsInf(r.To, 0) {
		return fmt.Errorf("ramp on %s from %v to %v: want numbers from 0 in order, or no end", names[r.Column], r.From, r.To)
	}
	return nil
}

var (
	names = feature.Names()
	signs = func() [feature.Width]feature.Sign {
		var all [feature.Width]feature.Sign
		for i, f := range feature.Table() {
			all[i] = f.Sign
		}
		return all
	}()
)
