package trainer

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// sample is one row a refit can use.
type sample = learn.Sample

// samples reads the window of one LLM, in order of decision, and looks for rows
// that can't be what they claim.
func (t *Trainer) samples(ctx context.Context, c *cycle) error {
	for row, err := range t.store.Window(ctx, c.result.LLM, c.began.Add(-t.config.Window), c.began, t.config.WindowRows) {
		if err != nil {
			return err
		}
		s, ok := learn.SampleOf(&row)
		if !ok {
			continue
		}
		if row.DecidedAt.After(c.newest) {
			c.newest = row.DecidedAt
		}
		flaw := flawOf(&row)
		c.flaws.add(flaw, math.Exp2(-c.began.Sub(row.DecidedAt).Seconds()/t.config.HalfLife.Seconds()))
		if flaw == "" {
			c.all = append(c.all, s)
		}
	}
	slices.SortStableFunc(c.all, func(a, b sample) int { return cmp.Compare(a.Decided.UnixNano(), b.Decided.UnixNano()) })
	t.forget(c)
	return nil
}

const (
	// sinceMoved is how many rows, in MinHeldOut, must have come since outcomes
	// moved: half judges, half teaches.
	sinceMoved = 2
	// movedRows is how many rows since then are enough to learn from them alone.
	movedRows = 1000
)

// forget leaves out the rows of before outcomes of their endpoint class moved,
// where enough came since. Where they are fewer, but so many that some can judge
// and some teach, the others are outdated, and only what came since judges.
func (t *Trainer) forget(c *cycle) {
	w := t.watched[c.result.LLM]
	if w == nil {
		return
	}
	for _, class := range slices.Sorted(maps.Keys(w.moved)) {
		since := w.moved[class]
		before := func(s *sample) bool { return s.Class == class && s.Decided.Before(since) }
		old, after := 0, 0
		for i := range c.all {
			switch {
			case before(&c.all[i]):
				old++
			case c.all[i].Class == class:
				after++
			}
		}
		switch {
		case old == 0 || after < sinceMoved*t.config.MinHeldOut:
			continue
		case after >= max(movedRows, int(float64(t.config.MinHeldOut)/t.config.HeldOutShare)):
			c.all = slices.DeleteFunc(c.all, func(s sample) bool { return before(&s) })
		default:
			for i := range c.all {
				c.all[i].Outdated = c.all[i].Outdated || before(&c.all[i])
			}
			if since.After(c.judgeFrom) {
				c.judgeFrom = since
			}
		}
	}
}

// split cuts the samples by time. Where a part is outdated, only what came since
// judges: half of it at most, or there would be nothing to learn from.
func (t *Trainer) split(c *cycle) (past, judge []sample) {
	share := t.config.HeldOutShare
	if !c.judgeFrom.IsZero() {
		after := decidedAfter(c.all, c.judgeFrom.Add(-1))
		judges := max(share*float64(after), float64(t.enough(c.all[len(c.all)-after/2:])))
		share = min(share, judges/float64(len(c.all)))
	}
	return learn.Split(c.all, share)
}

// enough is how many of the latest samples must judge so that MinHeldOut of them
// have a TTFT, and a TPOT unless that is rare: all where fewer have one.
func (t *Trainer) enough(all []sample) int {
	n := 0
	for _, target := range []bundle.Target{bundle.TTFTP50, bundle.TPOTP50} {
		if target == bundle.TPOTP50 && float64(measured(target, all)) < rare*float64(len(all)) {
			continue
		}
		from := len(all)
		for missing := t.config.MinHeldOut; missing > 0 && from > 0; {
			from--
			if y := all[from].Label(target); y == y {
				missing--
			}
		}
		n = max(n, len(all)-from)
	}
	return n
}
