package main

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
)

// bandit is a problem without interference: every decision has a scale, every
// arm is so many times as long, and noise multiplies it. The log's policy
// prefers the longer arms, the target the shortest.
type bandit struct {
	name     string
	forecast float64 // over the truth
	alike    float64 // correlation of the noise from one decision to the next
	judged   bool    // its coverage is promised
}

var bandits = []bandit{
	{"right_forecasts", 1, 0, true},
	{"wrong_forecasts", 0.6, 0, true},
	{"correlated_noise", 1, 0.9, false},
}

const (
	banditRows = 3000
	banditMost = 20 // no value is larger
)

var (
	armLength = [4]float64{1, 2, 3, 4}
	armLogged = [4]float64{0.15, 0.2, 0.3, 0.35}
	armTarget = [4]float64{0.7, 0.1, 0.1, 0.1}
)

// effect is the truth: the scale, and the noise, are 1 on average.
func effect() (v float64) {
	for k, length := range armLength {
		v += (armTarget[k] - armLogged[k]) * length
	}
	return v
}

// covered is how often intervals covered the truth of a bandit.
type covered struct {
	Name       string      `json:"name"`
	Judged     bool        `json:"judged"`
	Repeats    int         `json:"repeats"`
	Truth      float64     `json:"truth"`
	Estimators []estimated `json:"estimators"`
	Sequence   float64     `json:"sequence"` // share of logs in which it held at every moment
	Width      float64     `json:"sequence_width"`
}

type estimated struct {
	Name     string  `json:"name"`
	Bias     float64 `json:"bias"`
	RMSE     float64 `json:"rmse"`
	Coverage float64 `json:"coverage"`
}

// told is what one log came to.
type told struct {
	estimates []offpolicy.Estimate
	held      bool
	width     float64
}

func (b *bandit) log(seed uint64) told {
	rng := rand.New(rand.NewPCG(seed, 0x62616e64))
	e := offpolicy.NewEstimators(banditMost)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	out := told{held: true}
	const spread = 0.3
	noise := rng.NormFloat64()
	s := offpolicy.Sample{Actions: make([]offpolicy.Action, len(armLength))}
	for range banditRows {
		at = at.Add(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		scale := 0.5 + rng.Float64()
		noise = b.alike*noise + math.Sqrt(1-b.alike*b.alike)*rng.NormFloat64()
		s.At, s.Chosen = at, len(armLength)-1
		u := rng.Float64()
		for k := range armLength {
			s.Actions[k] = offpolicy.Action{Logged: armLogged[k], Target: armTarget[k], Model: b.forecast * scale * armLength[k]}
			if u >= 0 && u < armLogged[k] {
				s.Chosen = k
			}
			u -= armLogged[k]
		}
		s.Value = min(banditMost, scale*armLength[s.Chosen]*math.Exp(spread*noise-spread*spread/2))
		if err := e.Add(&s); err != nil {
			panic(err) // its numbers are sound
		}
		low, high, _ := e.Sequence()
		out.held = out.held && low <= effect() && effect() <= high
		out.width = high - low
	}
	out.estimates = e.Estimates(seed)
	return out
}

// cover makes many logs of every bandit, on all processors.
func cover(seed uint64, repeats int) []covered {
	done := bench.Progress("logs of bandits", repeats*len(bandits))
	var out []covered
	for i := range bandits {
		b := &bandits[i]
		all := make([]told, repeats)
		var work sync.WaitGroup
		for first := range runtime.GOMAXPROCS(0) {
			work.Go(func() {
				for k := first; k < repeats; k += runtime.GOMAXPROCS(0) {
					all[k] = b.log(seed<<20 + uint64(k))
					done()
				}
			})
		}
		work.Wait()
		out = append(out, b.told(all))
	}
	return out
}

func (b *bandit) told(all []told) covered {
	c := covered{Name: b.name, Judged: b.judged, Repeats: len(all), Truth: effect()}
	n := float64(len(all))
	for k, name := range []string{offpolicy.DirectAll, offpolicy.Direct, offpolicy.IPS, offpolicy.SNIPS, offpolicy.DR, offpolicy.SwitchDR} {
		x := estimated{Name: name}
		for i := range all {
			e := &all[i].estimates[k]
			miss := float64(e.Effect.Mean) - c.Truth
			x.Bias += miss / n
			x.RMSE += miss * miss / n
			if float64(e.Effect.Low) <= c.Truth && c.Truth <= float64(e.Effect.High) {
				x.Coverage += 1 / n
			}
		}
		x.RMSE = math.Sqrt(x.RMSE)
		direct := name == offpolicy.DirectAll || name == offpolicy.Direct
		if name == offpolicy.DirectAll || direct && b.forecast != 1 { // of all is of these; wrong forecasts mislead it
			continue
		}
		c.Estimators = append(c.Estimators, x)
	}
	for i := range all {
		if all[i].held {
			c.Sequence += 1 / n
		}
		c.Width += all[i].width / n
	}
	return c
}

// identifier is a name as bars have it.
func identifier(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "-", "_")
}
