package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

// blocks holds what is known of each block of a switchback.
type blocks struct {
	closed []block      // in order
	open   []*openBlock // at most a few: rows come in order of time

	longer, ended int64 // requests that took longer than the burn-in, and all that ended
	first, last   time.Time
	capacity      map[string]float64 // tokens of each endpoint's cache
	written       float64            // tokens that caches took in
}

// block is what one came to: a value of each quantity, as a whole and by halves.
type block struct {
	number   int
	requests int64
	whole    []float64    // in the order of Quantities
	halves   [2][]float64 // the same of what is kept, before and after its middle; NaN of those that have none
}

// openBlock is one that rows may still come of.
type openBlock struct {
	number   int
	requests int64
	halves   [2][ofRequest]mean
	ttfts    []float64
}

// mean is a sum and of how many.
type mean struct {
	sum float64
	n   float64
}

func (m *mean) add(v float64) {
	if v == v {
		m.sum += v
		m.n++
	}
}

func (m mean) and(o mean) mean { return mean{m.sum + o.sum, m.n + o.n} }

// value is NaN of nothing.
func (m mean) value() float64 { return m.sum / m.n }

// addBlock adds a request to its block.
func (a *Analysis) addBlock(d *feature.Decision, v [ofRequest]float64, why LeftOut) error {
	place, ok := a.back.At(d.DecidedAt)
	if !ok || a.back.Arms[place.Arm] != d.Arm {
		want := "none"
		if ok {
			want = a.back.Arms[place.Arm]
		}
		return fmt.Errorf("a decision of %s was made by arm %q, and by the design it is the time of %s: a clock jumped, or rows were changed",
			d.DecidedAt.UTC().Format(time.RFC3339Nano), d.Arm, want)
	}
	b := &a.blocks
	b.close(a.back, d.DecidedAt)
	b.cache(d)
	if why != "" {
		a.leave(why, 1)
		return nil
	}
	if e2e := v[ofE2E]; e2e == e2e {
		b.ended++
		if e2e > a.back.BurnIn.Seconds() {
			b.longer++
		}
	}
	if !place.Kept {
		a.leave(Burning, 1)
		return nil
	}
	o := b.at(place.Block)
	o.requests++
	for i := range v {
		of := a.back.Kept()
		if i == ofTPOT || i == ofE2E {
			of -= runsOn(a.back)
		}
		switch into := place.Into - a.back.BurnIn; {
		case into < of/2:
			o.halves[0][i].add(v[i])
		case into < of:
			o.halves[1][i].add(v[i])
		}
	}
	if ttft := v[ofTTFT]; ttft == ttft {
		o.ttfts = append(o.ttfts, ttft)
	}
	return nil
}

// runsOn is how much of the end of each block is not judged by how long answers
// took: the other arm decides already about the requests beside which they end.
// Burn-ins are taken to be as long as requests are; half of a block's rest is
// judged at least.
func runsOn(s *design.Switchback) time.Duration { return min(s.BurnIn, s.Kept()/2) }

// kvCapacity is the column of a vector that tells how much a cache holds.
var kvCapacity = slices.IndexFunc(feature.Table(), func(f feature.Feature) bool { return f.Name == "kv_capacity_tokens" })

// cache counts what a request makes a cache take in: what is computed of its
// prompt, and its answer as it was expected.
func (b *blocks) cache(d *feature.Decision) {
	if b.first.IsZero() {
		b.first, b.capacity = d.DecidedAt, map[string]float64{}
	}
	b.last = d.DecidedAt
	uncached, capacity := float64(d.ChosenVector[feature.ColumnUncachedTokens]), float64(d.ChosenVector[kvCapacity])
	if d.Chosen == "" || !(uncached >= 0) || !(capacity > 0) {
		return
	}
	b.capacity[d.Chosen] = capacity
	b.written += uncached
	if d.ExpectedOutputTokens > 0 {
		b.written += d.ExpectedOutputTokens
	}
}

// halfLife is after how many seconds half of what caches hold is other text, if
// what they take in takes the place of what is there at random.
func (b *blocks) halfLife() float64 {
	var holds float64
	for _, c := range b.capacity {
		holds += c
	}
	if !(holds > 0) {
		return feature.Unknown
	}
	const ln2 = 0.6931471805599453
	return ln2 * holds / b.written * b.last.Sub(b.first).Seconds()
}

func (b *blocks) at(number int) *openBlock {
	for _, o := range b.open {
		if o.number == number {
			return o
		}
	}
	o := &openBlock{number: number}
	b.open = append(b.open, o)
	return o
}

// close finishes the blocks of which no row can come any more.
func (b *blocks) close(s *design.Switchback, now time.Time) {
	for len(b.open) > 0 {
		end := s.Start.Add(time.Duration(b.open[0].number+1) * s.Block)
		if now.Before(end.Add(clockSlack)) {
			return
		}
		b.finish(s)
	}
}

// finish closes the earliest open block.
func (b *blocks) finish(s *design.Switchback) {
	slices.SortFunc(b.open, func(x, y *openBlock) int { return x.number - y.number })
	o := b.open[0]
	b.open = slices.Delete(b.open, 0, 1)
	x := block{number: o.number, requests: o.requests}
	kept := s.Kept().Seconds()
	var whole [ofRequest]mean
	for i := range whole {
		whole[i] = o.halves[0][i].and(o.halves[1][i])
	}
	slices.Sort(o.ttfts)
	x.whole = inOrder(whole, evaluate.Quantile(o.ttfts, 0.9), kept)
	for h := range o.halves {
		x.halves[h] = inOrder(o.halves[h], feature.Unknown, kept/2)
	}
	b.closed = append(b.closed, x)
}

// inOrder is means in the order of Quantities.
func inOrder(m [ofRequest]mean, p90, seconds float64) []float64 {
	goodput := feature.Unknown
	if m[ofAttained].n > 0 {
		goodput = m[ofAttained].sum / seconds
	}
	return []float64{m[ofTTFT].value(), p90, m[ofTPOT].value(), m[ofE2E].value(), m[ofAttained].value(), goodput, m[ofFailed].value()}
}
