package trainer

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
)

// rescored is the reason of a served bundle's renewal after it was judged on
// newer rows, beside a candidate that was refused.
const rescored = "rescored"

// judgement is when the bundle of a version was last judged, and whether it
// was then found good enough to be served.
type judgement struct {
	version int64 // 0 when nothing was served and a candidate was refused
	at      time.Time
	good    bool
}

// lastJudgement of what is served: this trainer's own, or else that of the
// gate when the bundle was published. False when there was none, or this build
// can't read the bundle, which calls for a refit whatever is new.
func (t *Trainer) lastJudgement(llm string, served Served) (judgement, bool) {
	if j, ok := t.judged[llm]; ok && j.version == served.Version {
		return j, true
	}
	if served.Version == 0 {
		return judgement{}, false
	}
	b, err := bundle.Decode(served.Bytes)
	if err != nil {
		return judgement{}, false
	}
	return judgement{served.Version, b.CreatedAt, true}, true
}

// extend keeps a served bundle fresh when there is too little news to judge it
// by, for a bounded time after it was last judged, unless that judgement went
// against it.
func (t *Trainer) extend(ctx context.Context, c *cycle, last judgement) error {
	now := time.Now()
	switch {
	case last.version == 0:
		return nil
	case !last.good:
		c.result.Why += "; not extended: the served bundle was found no better than the prior"
		return nil
	case now.Sub(last.at) > t.config.QuietMost:
		c.result.Why += fmt.Sprintf("; not extended: the served bundle was last judged more than %s ago", t.config.QuietMost)
		return nil
	}
	return c.lease.Revalidate(ctx, c.result.LLM, last.version, now, Quiet)
}

// rescore judges the served bundle when no candidate replaces it, and renews
// it when it still beats the prior on rows that are not all old: those that
// were there when traffic ended prove nothing of today, however often they are
// judged.
func (t *Trainer) rescore(ctx context.Context, c *cycle, judge []sample, r rivals) error {
	recent := decidedAfter(c.all, c.began.Add(-t.config.QuietMost)) >= max(1, t.config.MinNewRows)
	good := recent && t.stillGood(judge, r)
	if good {
		if err := c.lease.Revalidate(ctx, c.result.LLM, c.served.Version, c.began, rescored); err != nil {
			return err
		}
	}
	t.judged[c.result.LLM] = judgement{c.served.Version, c.began, good}
	return nil
}

// decidedAfter counts the samples decided after from.
func decidedAfter(all []sample, from time.Time) int {
	n := 0
	for i := range all {
		if all[i].Decided.After(from) {
			n++
		}
	}
	return n
}
