package correction

import "math"

const (
	lineMemory = 64   // outcomes that are remembered
	lineShrink = 4.0  // outcomes' worth of belief that nothing remains
	lineRounds = 3    // rounds of the fit for an outcome; each begins where the last ended
	lineUnit   = 0.1  // seconds: extras are of this order
	lineNear   = 0.05 // errors below this share count alike
	lineSteep  = 4.0  // most that an extra weighs, in forecasts
	leastScale = 0.3  // a line rises
)

// line is how the last outcomes of an endpoint lie to their forecasts:
// outcome = scale*forecast + extra seconds, with the least mean of
// |line/forecast - outcome/forecast|, so that the few that were held up by what
// nobody could know move it little. The zero value is outcome = forecast.
type line struct {
	kept       [lineMemory]point
	n, next    int
	less, more float64 // scale - 1, and extra in lineUnits
}

// point is an outcome, in forecasts, and lineUnit in forecasts.
type point struct{ y, x float32 }

// observe takes in an outcome. An extra is believed in only where it may be
// told from a scale.
func (l *line) observe(forecast, actual float64, extra bool) {
	y := actual / forecast
	if !(forecast > 0) || !(actual > 0) || math.IsInf(y, 0) {
		return
	}
	p := point{y: float32(min(y, math.Exp(2*offsetMost)))}
	if extra {
		p.x = float32(min(lineUnit/forecast, lineSteep))
	}
	l.kept[l.next] = p
	l.next = (l.next + 1) % lineMemory
	l.n = min(l.n+1, lineMemory)
	for range lineRounds {
		l.fit()
	}
}

// fit is one round of least squares with weights that make it a least sum of
// absolute errors.
func (l *line) fit() {
	// The belief counts as outcomes do, the less the further it is off: else the
	// noisier an endpoint's outcomes, the less of a plain error would be put right.
	w, x, xx, y, xy := lineShrink*nearness(l.less), 0.0, lineShrink/4*nearness(l.more), 0.0, 0.0
	for _, p := range l.kept[:l.n] {
		px, py := float64(p.x), float64(p.y)-1
		by := nearness(py - l.less - l.more*px)
		w += by
		x += by * px
		xx += by * px * px
		y += by * py
		xy += by * px * py
	}
	d := w*xx - x*x
	l.less, l.more = max(leastScale-1, (y*xx-x*xy)/d), (w*xy-x*y)/d
}

// nearness is what an error weighs in a round, from 0 to 1.
func nearness(err float64) float64 { return lineNear / max(lineNear, math.Abs(err)) }

// log is what is added to the logarithm of a forecast, within +-offsetMost. The
// forecast that it gives never falls while the forecast it is given rises.
func (l *line) log(forecast float64) float64 {
	if !(forecast > 0) {
		return 0
	}
	to := 1 + l.less + l.more*min(lineUnit/forecast, lineSteep)
	return math.Log(min(math.Exp(offsetMost), max(math.Exp(-offsetMost), to)))
}

// forget keeps the newest quarter.
func (l *line) forget() {
	n := l.n / 4
	var newest [lineMemory]point
	for i := range n {
		newest[i] = l.kept[(l.next-n+i+lineMemory)%lineMemory]
	}
	l.kept, l.n, l.next = newest, n, n
	for range lineRounds {
		l.fit()
	}
}
