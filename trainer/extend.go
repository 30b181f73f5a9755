package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
)

// rescored is the reason of a served bundle's renewal after it was judged on
// newer rows, beside a candidate that was refused.
const rescored = "rescored"

// judgement is up to which row the bundle of a version was last judged, and
// whether it was then found good enough to be served.
type judgement struct {
	version int64 // 0 when nothing was served and a candidate was refused
	until   time.Time
	good    bool
}

// lastJudgement of what is served, by the newest verdict in the store, so that
// a trainer that starts anew for each cycle knows it too. False when there was
// none, the verdict is of a build that did not say, or this build can't read
// what is served: that calls for a refit whatever is new.
func (t *Trainer) lastJudgement(ctx context.Context, llm string, served Served) (judgement, bool, error) {
	version, text, err := t.store.LastVerdict(ctx, llm)
	if err != nil || version == 0 {
		return judgement{}, false, err
	}
	var v Verdict
	if json.Unmarshal(text, &v) != nil {
		return judgement{}, false, nil
	}
	j := judgement{version: served.Version, until: v.Until}
	if served.Version == 0 {
		return j, !v.Until.IsZero(), nil
	}
	b, err := bundle.Decode(served.Bytes)
	switch {
	case err != nil:
		return judgement{}, false, nil
	case served.Version == version:
		j.good = true
		if j.until.IsZero() { // no gate published it, but a person
			j.until = b.CreatedAt
		}
	case v.Until.IsZero():
		return judgement{}, false, nil
	case v.Beside != nil && v.Beside.Version == served.Version:
		j.good = v.Beside.Good
	default:
		return judgement{}, false, nil
	}
	return j, true, nil
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
	case now.Sub(last.until) > t.config.QuietMost:
		c.result.Why += fmt.Sprintf("; not extended: the newest row that judged the served bundle is older than %s", t.config.QuietMost)
		return nil
	}
	return c.lease.Revalidate(ctx, c.result.LLM, last.version, now, Quiet)
}

// beside judges the served bundle: it may stay while it beats the prior on rows
// that are not all old. Those that were there when traffic ended prove nothing
// of today, however often they are judged.
func (t *Trainer) beside(c *cycle, judge []sample, r rivals) *Beside {
	if c.served.Version == 0 {
		return nil
	}
	recent := decidedAfter(c.all, c.began.Add(-t.config.QuietMost)) >= max(1, t.config.MinNewRows)
	return &Beside{Version: c.served.Version, Good: recent && t.stillGood(judge, r)}
}

// rescore renews the served bundle when no candidate replaces it and it was
// found good.
func (t *Trainer) rescore(ctx context.Context, c *cycle) error {
	if b := c.result.Verdict.Beside; b == nil || !b.Good {
		return nil
	}
	return c.lease.Revalidate(ctx, c.result.LLM, c.served.Version, c.began, rescored)
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
