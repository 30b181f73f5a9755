package experiment

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// LeastPairs is the fewest pairs that are judged: with fewer no order of them is
// so rare that a difference could not be chance (2 in 2^6 is 3 %, 2 in 2^5 is 6 %).
const LeastPairs = 6

// The shares beyond which a burn-in is called too short.
const (
	mostLonger = 0.01
	carrySure  = 0.99
)

// judgeBlocks compares the arms of a switchback.
func (a *Analysis) judgeBlocks(r *Report, seed uint64) error {
	s, b := a.back, &a.blocks
	for len(b.open) > 0 {
		b.finish(s)
	}
	unfinished := a.latest.Before(s.End()) && a.options.Until.Before(s.End()) && !a.over()
	out := &Switchback{
		Name: s.Name, Start: s.Start.UTC(), End: s.End().UTC(), Block: feature.SecondsOf(s.Block), BurnIn: feature.SecondsOf(s.BurnIn),
		Planned: s.Pairs, Detect: a.options.Detect, Blocks: []Block{},
		Longer: feature.Number(float64(b.longer) / float64(b.ended)), HalfLife: feature.Number(b.halfLife()),
	}
	r.Switchback = out

	byNumber := map[int]*block{}
	for i := range b.closed {
		byNumber[b.closed[i].number] = &b.closed[i]
	}
	var pairs [][2]*block // in the order of the arms
	for i := range b.closed {
		x := &b.closed[i]
		other := byNumber[x.number^1]
		out.Blocks = append(out.Blocks, a.block(x, other != nil))
		switch {
		case other == nil:
			a.leave(Unpaired, x.requests)
			continue
		case x.number&1 == 0:
			both := [2]*block{x, other}
			if s.Arm(x.number) == 1 {
				both = [2]*block{other, x}
			}
			pairs = append(pairs, both)
		}
		a.judged += x.requests
	}
	out.Pairs = len(pairs)
	if unfinished && !a.options.Unfinished {
		return fmt.Errorf("%s is unfinished: %d of %d pairs are there, the last block ends at %s; looking early and stopping when it looks well finds effects that are none, so judge it then, or ask for the unfinished one",
			a.called(), len(pairs), s.Pairs, s.End().UTC().Format(time.RFC3339))
	}
	if len(pairs) < LeastPairs {
		missing := LeastPairs - len(pairs)
		return fmt.Errorf("%s has %d pairs of blocks with requests in both, and fewer than %d can't tell an effect from chance: %d more are wanted, %d blocks or %v",
			a.called(), len(pairs), LeastPairs, missing, 2*missing, time.Duration(2*missing)*s.Block)
	}
	a.effects(out, pairs, seed)
	a.warnOfBlocks(r, unfinished)
	return nil
}

// over reports whether all blocks have been begun that there will be, and the last
// one has rows to its end or nearly.
func (a *Analysis) over() bool {
	place, ok := a.back.At(a.to)
	return ok && place.Block == 2*a.back.Pairs-1 && place.Into >= a.back.Block*9/10
}

func (a *Analysis) block(x *block, paired bool) Block {
	out := Block{
		Number: x.number, At: a.back.Start.Add(time.Duration(x.number) * a.back.Block).UTC(), Arm: a.back.Arm(x.number),
		Requests: x.requests, Paired: paired, Values: []feature.Number{},
	}
	for _, v := range x.whole {
		out.Values = append(out.Values, feature.Number(v))
	}
	return out
}

// effects compares every quantity.
func (a *Analysis) effects(out *Switchback, all [][2]*block, seed uint64) {
	of := func(number func(*block) float64) (pairs []pair) {
		for _, p := range all {
			pairs = append(pairs, pair{number(p[0]), number(p[1])})
		}
		return pairs
	}
	for i, q := range Quantities() {
		e := effectOf(q, of(func(b *block) float64 { return b.whole[i] }), a.options.Detect, seed)
		e.Carry = carry(of(func(b *block) float64 { return b.halves[0][i] }), of(func(b *block) float64 { return b.halves[1][i] }))
		out.Effects = append(out.Effects, e)
	}
	kept := a.back.Kept().Seconds()
	out.Offered = effectOf("offered", of(func(b *block) float64 { return float64(b.requests) / kept }), a.options.Detect, seed)
	out.Offered.Unit = Goodput.Unit()
}

// carry is the difference in second halves less that in first ones.
func carry(first, second []pair) evaluate.Interval {
	var changes []float64
	for i := range first {
		if first[i].known() && second[i].known() {
			changes = append(changes, second[i][1]-second[i][0]-(first[i][1]-first[i][0]))
		}
	}
	return interval(changes)
}

// sure reports whether 0 is outside an interval also at 99 %.
func sure(i evaluate.Interval, values int) bool {
	if !(i.High > i.Low) || values < 2 {
		return false
	}
	freedom := float64(values - 1)
	half := float64(i.High-i.Low) / 2 * tQuantile((1+carrySure)/2, freedom) / tQuantile(0.975, freedom)
	return math.Abs(float64(i.Mean)) > half
}

// warnOfBlocks says what makes the numbers doubtful.
func (a *Analysis) warnOfBlocks(r *Report, unfinished bool) {
	s := r.Switchback
	if unfinished {
		r.warn("The experiment is unfinished (%d of %d pairs): an effect that is looked for again and again is found sooner or later, so decide nothing by this.", s.Pairs, s.Planned)
	}
	for _, e := range s.Effects {
		if sure(e.Carry, e.Pairs) {
			r.warn("The difference in %s is another in the second half of blocks than in the first: what one arm leaves behind reaches beyond the burn-in of %v; take longer blocks with a longer one.", e.Quantity, a.back.BurnIn)
			break
		}
	}
	if s.Longer > mostLonger {
		r.warn("%.1f %% of the requests took longer than the burn-in of %v: blocks begin among requests that the other arm placed.", 100*s.Longer, a.back.BurnIn)
	}
	if float64(s.HalfLife) > a.back.BurnIn.Seconds() {
		r.warn("At this rate half of what the caches hold is other text after %v, and the burn-in is %v: prefixes still lie where the other arm put them.",
			feature.Seconds(s.HalfLife).Duration().Round(time.Second), a.back.BurnIn)
	}
	if lost := s.Planned - s.Pairs; lost > 0 && !unfinished {
		r.warn("%d of %d pairs have a block without requests to judge and are left out.", lost, s.Planned)
	}
	if sure(s.Offered.Difference, s.Offered.Pairs) {
		r.warn("One arm was sent more requests than the other (%.3g a second against %.3g): clients that wait for answers send more to the faster one, so per-request numbers understate it.",
			s.Offered.Arms[1], s.Offered.Arms[0])
	}
}
