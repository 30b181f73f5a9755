package main

import (
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/correction"
)

// failure is one way in which prediction goes wrong, from the injection on.
type failure struct {
	name string // as in the names of bars

	// answer is how asking ends so long after the injection; nil: as before.
	answer func(since time.Duration) fleet.Answer
	// spoil changes what is forecast; nil: nothing does.
	spoil func(vectors []feature.Vector, out []feature.Forecast)
	// slows makes two of the engines twice as slow, under the matched
	// configuration too: the world is no longer the one the bundle knows.
	slows bool

	// silent: no decision after the injection may be made with forecasts.
	silent bool
	// refuted: outcomes must end live operation within 2 s of the 200th bad one.
	refuted bool
	// changes is how often the state may change.
	changes int
}

const (
	bundle     = 1
	bundleMax  = 3 * time.Hour    // how old a bundle may be
	outage     = 30 * time.Second // of a predictor that comes back
	kneeShare  = 0.8
	wrongBy    = 2.0
	slowedBy   = 2.0
	noticedBy  = 200             // bad outcomes
	noticeable = 2 * time.Second // after the last of them

	// relapses is how often a state may change where forecasts are corrected
	// while they do not decide, and may decide again: there and back with holds
	// of 1, 2, 4 and 8 minutes, in the 20 minutes of the longest run.
	relapses = 8
)

func well(time.Duration) fleet.Answer { return fleet.Answer{Bundle: bundle} }

func fails(r correction.Result) func(time.Duration) fleet.Answer {
	return func(time.Duration) fleet.Answer { return fleet.Answer{Result: r, Bundle: bundle} }
}

// failures are all, in the order of the report. The first is none.
func failures() ([]failure, error) {
	below, err := trial.MarkedBelow()
	if err != nil {
		return nil, err
	}
	marked := func(v *feature.Vector) bool { return float64(v[columnKV]) < below }
	return []failure{
		{name: "none"},
		{name: "killed", answer: fails(correction.Broken), silent: true, changes: 1},
		{name: "hung", answer: fails(correction.Late), silent: true, changes: 1},
		{name: "returns", answer: func(since time.Duration) fleet.Answer {
			if since < outage {
				return fleet.Answer{Result: correction.Broken}
			}
			return well(since)
		}, changes: 2},
		{name: "stale", answer: func(time.Duration) fleet.Answer {
			return fleet.Answer{Bundle: bundle, Validated: -2 * bundleMax, MaxAge: bundleMax}
		}, silent: true, changes: 1},
		{name: "nan", spoil: each(func(_ *feature.Vector, f *feature.Forecast) { f.TTFT.P50 = feature.Seconds(feature.Unknown) }), silent: true, changes: 1},
		{name: "tenfold", spoil: each(func(_ *feature.Vector, f *feature.Forecast) { scale(f, 10) }), refuted: true, changes: 1},
		{name: "constant", spoil: each(constant), refuted: true, changes: 1},
		{name: "reversed", spoil: reversed, refuted: true, changes: 1},
		{name: "some_halved", spoil: each(func(v *feature.Vector, f *feature.Forecast) {
			if marked(v) {
				scale(f, 1/wrongBy)
			}
		}), changes: relapses},
		{name: "some_doubled", spoil: each(func(v *feature.Vector, f *feature.Forecast) {
			if marked(v) {
				scale(f, wrongBy)
			}
		}), changes: relapses},
		{name: "world_changed", slows: true, changes: relapses},
	}, nil
}

var columnKV = feature.Index("kv_capacity_tokens")

// each spoils forecasts one by one.
func each(spoil func(*feature.Vector, *feature.Forecast)) func([]feature.Vector, []feature.Forecast) {
	return func(vectors []feature.Vector, out []feature.Forecast) {
		for i := range out {
			if out[i].Known() {
				spoil(&vectors[i], &out[i])
			}
		}
	}
}

// say makes f forecast these quantiles, with the residuals that go with them.
func say(v *feature.Vector, f *feature.Forecast, ttft, tpot feature.Quantiles) {
	p := v.Prior()
	over := func(q feature.Quantiles, prior feature.Seconds) feature.LogQuantiles {
		return feature.LogQuantiles{P50: math.Log(float64(q.P50 / prior)), P90: math.Log(float64(q.P90 / prior))}
	}
	f.TTFT, f.TPOT = ttft, tpot
	f.Residual = feature.Residual{TTFT: over(ttft, p.TTFT), TPOT: over(tpot, p.TPOT)}
}

// scale multiplies all that is forecast.
func scale(f *feature.Forecast, by float64) {
	for _, q := range []*feature.Quantiles{&f.TTFT, &f.TPOT} {
		q.P50 *= feature.Seconds(by)
		q.P90 *= feature.Seconds(by)
	}
	for _, q := range []*feature.LogQuantiles{&f.Residual.TTFT, &f.Residual.TPOT} {
		q.P50 += math.Log(by)
		q.P90 += math.Log(by)
	}
}

// constant forecasts one second, and 20 ms a token, whatever is asked.
func constant(v *feature.Vector, f *feature.Forecast) {
	say(v, f, feature.Quantiles{P50: 1, P90: 2}, feature.Quantiles{P50: 0.02, P90: 0.04})
}

// reversed turns the order of the candidates round: what was the least becomes
// the greatest.
func reversed(vectors []feature.Vector, out []feature.Forecast) {
	turn := func(of func(*feature.Forecast) *feature.Quantiles) {
		var known []feature.Quantiles
		for i := range out {
			if out[i].Known() {
				known = append(known, *of(&out[i]))
			}
		}
		if len(known) == 0 {
			return
		}
		less := func(a, b feature.Quantiles) int {
			return int(math.Copysign(1, float64(a.P50-b.P50)))
		}
		least, most := slices.MinFunc(known, less), slices.MaxFunc(known, less)
		for i := range out {
			if q := of(&out[i]); out[i].Known() {
				tail := q.P90 / q.P50
				q.P50 = least.P50 * most.P50 / q.P50
				q.P90 = q.P50 * tail
			}
		}
	}
	turn(func(f *feature.Forecast) *feature.Quantiles { return &f.TTFT })
	turn(func(f *feature.Forecast) *feature.Quantiles { return &f.TPOT })
	for i := range out {
		if f := &out[i]; f.Known() {
			say(&vectors[i], f, f.TTFT, f.TPOT)
		}
	}
}

// predictor is one that is well until the injection. It is of one run.
type predictor struct {
	fleet.Forecaster
	failure *failure
	at      time.Duration // of the injection
	broken  bool
}

// Answer says how asking ends.
func (p *predictor) Answer(at time.Duration) fleet.Answer {
	p.broken = at >= p.at
	if p.broken && p.failure.answer != nil {
		return p.failure.answer(at - p.at)
	}
	return well(0)
}

// Forecast is spoiled from the injection on.
func (p *predictor) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	p.Forecaster.Forecast(vectors, out)
	if p.broken && p.failure.spoil != nil {
		p.failure.spoil(vectors, out)
	}
}
