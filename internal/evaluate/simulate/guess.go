package simulate

import (
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

var columnSpeed = feature.Index("speed_factor")

const (
	// fewestGuessed is from how many tokens a step on an engine is taken to guess
	// ahead: less may be what a router has not yet learned of its speed.
	fewestGuessed = 1.25
	mostGuessed   = 8
)

// guess finds how many tokens an engine of a class yields in a step: the router
// learns from its streams' events how long steps are, compared with what it
// believes, and the fit finds how long a token takes. 1: it guesses none ahead.
func (f *fitted) guess(l *log, class string) float64 {
	believed, ok := l.setting.believed[class]
	if !ok || believed.A <= 0 {
		return 1
	}
	var all []float64
	for e := range l.endpoints {
		end := &l.endpoints[e]
		if end.class != class || len(end.speeds) == 0 || f.thetas[e][perStep] <= 0 {
			continue
		}
		late := slices.Clone(end.speeds[len(end.speeds)/2:])
		slices.Sort(late)
		all = append(all, late[len(late)/2]*believed.A/f.thetas[e][perStep])
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	if n := all[len(all)/2]; n >= fewestGuessed && n <= mostGuessed {
		return n
	}
	return 1
}

// stepping turns the time of a token into that of a step which yields so many.
func (t theta) stepping(tokens float64) theta {
	t[perStep], t[perDecoding], t[perRead] = t[perStep]*tokens, t[perDecoding]*tokens, t[perRead]*tokens
	return t
}
