package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// pace is how an endpoint departs from the engine of its class.
type pace struct {
	decode   float64 // factor of a step's time apart from prefill
	prefill  float64 // factor of a prefill token's time
	overhead float64 // seconds outside the engine
}

// of is the profile of an endpoint of that pace.
func (p pace) of(class physics.Profile, l limits) physics.Profile {
	c := &class.Coefficients
	c.A, c.D, c.E = c.A*p.decode, c.D*p.decode, c.E*p.decode
	c.B, c.C = c.B*p.prefill, c.C*p.prefill
	class.Overhead = 0
	if l.batched > 0 {
		class.MaxBatchedTokens = int(l.batched)
	}
	if l.sequences > 0 {
		class.MaxNumSeqs = int(l.sequences)
	}
	if l.cache > 0 {
		class.KVCapacityTokens = int(l.cache)
	}
	return class
}

const (
	// rounds is how often engines are driven: paces hardly move after the third.
	rounds = 3
	// fewestPaced is how many measured times an endpoint has to have a pace of its
	// own; the others have that of their class.
	fewestPaced = 60
	// mostAnswers bounds the rows that a class's step model is fitted to: those that
	// run side by side are compared pair by pair.
	mostAnswers = 20_000
	// noise is the spread of a simulated step's time around what the model says, as
	// in the profiles that come with the program.
	noise = 0.03

	leastPace, mostPace = 1.0 / 8, 8
	mostOverhead        = 2 // seconds
)

// fitted is what was found of the engines.
type fitted struct {
	classes map[string]physics.Profile
	paces   []pace   // of each endpoint
	drawn   [][]pace // the same from resampled blocks of the log
}

// fit finds the engines from the requests before until, in seconds.
func (l *log) fit(until float64, draws int, rng *rand.Rand) (*fitted, error) {
	f := &fitted{classes: map[string]physics.Profile{}, paces: make([]pace, len(l.endpoints))}
	by := make([][]int, len(l.endpoints))
	for i := range l.requests {
		if q := &l.requests[i]; q.endpoint >= 0 && q.at < until && (q.ttft > 0 || q.ok) {
			by[q.endpoint] = append(by[q.endpoint], i)
		}
	}
	for _, class := range l.classes() {
		p, overhead, err := l.class(class, by)
		if err != nil {
			return nil, fmt.Errorf("endpoints of class %q: %w", class, err)
		}
		f.classes[class] = p
		for e := range l.endpoints {
			if l.endpoints[e].class == class {
				f.paces[e] = pace{1, 1, overhead}
			}
		}
	}
	before := l.held(l.perBlock())
	f.drawn = make([][]pace, draws)
	for round := range rounds {
		pairs := make([][]pair, len(l.endpoints))
		for e := range l.endpoints {
			end := &l.endpoints[e]
			var own []warm
			for _, w := range before {
				if l.requests[w.request].endpoint == e && l.requests[w.request].at < until {
					own = append(own, w)
				}
			}
			d, err := l.drive(by[e], own, f.paces[e].of(f.classes[end.class], end.limits), seconds(f.paces[e].overhead))
			if err != nil {
				return nil, fmt.Errorf("endpoint %s: %w", end.name, err)
			}
			pairs[e] = l.pairs(by[e], d, until)
		}
		last := round == rounds-1
		if last {
			for k := range f.drawn {
				f.drawn[k] = l.repace(f.paces, resampled(pairs, until, rng))
			}
		}
		f.paces = l.repace(f.paces, pairs)
	}
	return f, nil
}

// classes are those of the endpoints, in order.
func (l *log) classes() []string {
	all := map[string]bool{}
	for i := range l.endpoints {
		all[l.endpoints[i].class] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// class fits the step model of a class to what ran side by side.
func (l *log) class(class string, by [][]int) (physics.Profile, float64, error) {
	p := physics.Profile{Name: class, Source: "fitted to logged outcomes", BlockTokens: blockTokens, NoiseStdDev: noise}
	var answers []fit.Answer
	var told limits
	for e := range l.endpoints {
		end := &l.endpoints[e]
		if end.class != class {
			continue
		}
		told = limits{max(told.batched, end.limits.batched), max(told.sequences, end.limits.sequences), max(told.cache, end.limits.cache), max(told.peak, end.limits.peak)}
		for _, i := range by[e] {
			q := &l.requests[i]
			if !(q.ttft > 0) {
				continue
			}
			cached := q.cached
			if cached != cached {
				cached = q.believed
			}
			if cached != cached {
				cached = 0
			}
			answers = append(answers, fit.Answer{
				Endpoint: end.name, Sent: feature.Seconds(q.at), PromptTokens: float64(q.prompt), UncachedTokens: max(1, float64(q.prompt)-cached),
				OutputTokens: float64(q.output), TTFT: feature.Seconds(q.ttft), TPOT: feature.Seconds(q.tpot), Ended: feature.Seconds(q.e2e), Complete: q.ok,
			})
		}
	}
	if told.cache == 0 {
		return p, 0, errors.New("no decision knows what their KV cache holds (kv_capacity_tokens)")
	}
	p.MaxBatchedTokens, p.MaxNumSeqs = int(cmp.Or(told.batched, 8192)), int(cmp.Or(told.sequences, 256))
	p.KVCapacityTokens, p.PeakPrefillThroughput = int(told.cache), told.peak
	if len(answers) > mostAnswers {
		slices.SortStableFunc(answers, func(a, b fit.Answer) int { return cmp.Compare(a.Sent, b.Sent) })
		answers = answers[len(answers)-mostAnswers:]
	}
	a, err := fit.Answers(answers, fit.Engine{KVCapacityTokens: told.cache, MaxBatchedTokens: float64(p.MaxBatchedTokens)})
	if err != nil {
		return p, 0, err
	}
	p.Coefficients = a.Coefficients
	if p.PeakPrefillThroughput <= 0 {
		p.PeakPrefillThroughput = 1 / (a.Coefficients.B + a.Coefficients.A/float64(p.MaxBatchedTokens))
	}
	return p, float64(a.Overhead), p.Check()
}

// pair is what was measured of a request and what the driven engine made of it.
type pair struct {
	at             float64
	ttft, simTTFT  float64
	tpot, simTPOT  float64
	measured, paid bool // a TTFT; a TPOT
}

// pairs are those of an endpoint, after what it was busy with when the log began.
func (l *log) pairs(of []int, d driven, until float64) (all []pair) {
	settled := settleShare * until
	for k, i := range of {
		q := &l.requests[i]
		if q.at < settled {
			continue
		}
		p := pair{at: q.at, ttft: q.ttft, simTTFT: d.ttft[k], tpot: q.tpot, simTPOT: d.tpot[k]}
		p.measured, p.paid = p.ttft > 0 && p.simTTFT > 0, q.ok && p.tpot > 0 && p.simTPOT > 0
		if p.measured || p.paid {
			all = append(all, p)
		}
	}
	return all
}

// resampled draws blocks of time, the same of every endpoint.
func resampled(pairs [][]pair, until float64, rng *rand.Rand) [][]pair {
	const blocks = 20
	var drawn [blocks]int
	for range blocks {
		drawn[rng.IntN(blocks)]++
	}
	out := make([][]pair, len(pairs))
	for e := range pairs {
		for _, p := range pairs[e] {
			for range drawn[min(blocks-1, int(p.at/until*blocks))] {
				out[e] = append(out[e], p)
			}
		}
	}
	return out
}

// repace moves every endpoint's pace by what the pairs say. One with few follows
// its class.
func (l *log) repace(paces []pace, pairs [][]pair) []pace {
	out := slices.Clone(paces)
	common := map[string][]pair{}
	for e := range pairs {
		class := l.endpoints[e].class
		common[class] = append(common[class], pairs[e]...)
	}
	for e := range out {
		own := pairs[e]
		if len(own) < fewestPaced {
			own = common[l.endpoints[e].class]
		}
		out[e] = paces[e].moved(own)
	}
	return out
}

// moved is the pace that makes of simulated times measured ones: a step's by the
// median ratio of TPOT, and overhead and prefill by the line through the TTFTs.
func (p pace) moved(pairs []pair) pace {
	var ratios []float64
	for i := range pairs {
		if pairs[i].paid {
			ratios = append(ratios, pairs[i].tpot/pairs[i].simTPOT)
		}
	}
	if n := len(ratios); n > 0 {
		slices.Sort(ratios)
		p.decode = bounded(p.decode*ratios[n/2], leastPace, mostPace)
	}
	overhead, factor, ok := line(pairs, p.overhead)
	if ok {
		p.overhead = bounded(overhead, 0, mostOverhead)
		p.prefill = bounded(p.prefill*bounded(factor, 0.5, 2), leastPace, mostPace)
	}
	return p
}

// line fits ttft = overhead + factor*(simulated - now) by least squares of relative
// errors, of which large ones count less (Huber 1964).
func line(pairs []pair, now float64) (overhead, factor float64, ok bool) {
	const (
		times = 12
		most  = 0.15 // relative error from which on it counts less
	)
	overhead, factor = now, 1
	for range times {
		var s1, sx, sxx, sy, sxy float64
		for i := range pairs {
			p := &pairs[i]
			if !p.measured {
				continue
			}
			x, w := p.simTTFT-now, 1/(p.ttft*p.ttft)
			if off := math.Abs(overhead+factor*x-p.ttft) / p.ttft; off > most {
				w *= most / off
			}
			s1, sx, sxx = s1+w, sx+w*x, sxx+w*x*x
			sy, sxy = sy+w*p.ttft, sxy+w*x*p.ttft
		}
		det := s1*sxx - sx*sx
		if !(det > 1e-9*s1*sxx) {
			return overhead, factor, false
		}
		overhead, factor = (sxx*sy-sx*sxy)/det, (s1*sxy-sx*sy)/det
	}
	return overhead, factor, factor > 0
}

func bounded(v, least, most float64) float64 { return min(most, max(least, v)) }
