package workload

import (
	"iter"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// span is a time in which sessions of one blend arrive at one rate.
type span struct {
	blend  blend
	rate   float64 // sessions a second
	length time.Duration
}

// endless is longer than any run: about 146 years.
const endless = time.Duration(math.MaxInt64 / 2)

// open plans a Poisson process at one load.
func (s Spec) open(seed uint64, load float64, duration time.Duration) Plan {
	plan := Plan{Workers: s.Workers, Warmup: s.Warmup, Timeout: s.Timeout}
	if duration > 0 {
		plan.Stages = []Stage{{Load: load, From: min(s.Warmup, duration), To: duration}}
	} else {
		duration = endless
	}
	plan.Sessions = arrivals(seed, func(yield func(span) bool) { s.spans(load, duration, yield) })
	return plan
}

// spans yields the regimes of a time in turn; false when yield wants no more.
func (s Spec) spans(load float64, length time.Duration, yield func(span) bool) bool {
	for i := 0; length > 0; i++ {
		r := s.regimes[i%len(s.regimes)]
		part := span{blend: r.blend, rate: r.rate * load / r.blend.turns(), length: length}
		if s.change > 0 {
			part.length = min(s.change, length)
		}
		if !yield(part) {
			return false
		}
		length -= part.length
	}
	return true
}

// stage is a load and how long it lasts.
type stage struct {
	load   float64
	length time.Duration
	counts bool // a warm-up does not
}

// pause is what the published ladder leaves between its stages.
const pause = 30 * time.Second

// stages plans several loads one after another.
func (s Spec) stages(seed uint64, all []stage) Plan {
	plan := Plan{Workers: s.Workers, Timeout: s.Timeout}
	at := time.Duration(0)
	for _, st := range all {
		if st.counts {
			plan.Stages = append(plan.Stages, Stage{Load: st.load, From: at, To: at + st.length})
		}
		at += st.length + pause
	}
	if len(plan.Stages) > 0 {
		plan.Warmup = plan.Stages[0].From
	}
	plan.Sessions = arrivals(seed, func(yield func(span) bool) {
		for _, st := range all {
			if !s.spans(st.load, st.length, yield) || !yield(span{length: pause}) {
				return
			}
		}
	})
	return plan
}

// arrivals draws one Poisson process of rate 1 and stretches it by the rates
// of the spans, so the same sessions come in the same order at any load.
func arrivals(seed uint64, spans iter.Seq[span]) iter.Seq[Session] {
	return func(yield func(Session) bool) {
		gaps := stream(splitmix.Mix(seed, 't'))
		speakers := map[*kind]*speaker{}
		index, wait, from := 0, gaps.ExpFloat64(), time.Duration(0)
		for sp := range spans {
			used := 0.0 // seconds of the span
			for sp.rate > 0 && wait < (sp.length.Seconds()-used)*sp.rate {
				used += wait / sp.rate
				k := sp.blend.pick(stream(splitmix.Mix(seed, 'k', uint64(index))))
				speak := speakers[k]
				if speak == nil {
					speak = newSpeaker(k, seed)
					speakers[k] = speak
				}
				s := Session{Index: index, At: from + time.Duration(used*1e9), Class: k.name, Turns: speak.session(index)}
				if !yield(s) {
					return
				}
				index++
				wait = gaps.ExpFloat64()
			}
			wait -= (sp.length.Seconds() - used) * sp.rate
			from += sp.length
		}
	}
}
