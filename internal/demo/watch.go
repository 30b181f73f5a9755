package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

const (
	killAt    = 0.55 // of the duration: when the predictor is killed, at the earliest
	killUntil = 0.84 // and at the latest, so that there is time to come back
	liveLeast = 10 * time.Second
	downShare = 0.08 // of the duration: how long it stays gone
)

// watch follows the run until the load ends: it tells of state changes and
// refits, kills the predictor once forecasts have decided for a while, and
// starts it again.
func (r *run) watch() error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var liveSince time.Time
	seen := map[string]bool{}
	bundles := time.Now()
	for {
		select {
		case <-r.ctx.Done():
			return errInterrupted
		case <-r.load.Done():
			if r.load.Err() != nil {
				return r.load.Failure()
			}
			return nil
		case <-tick.C:
		}
		for _, p := range []*child.Process{r.fleet, r.trainer, r.routerProcess} {
			if p.Ended() {
				return p.Failure()
			}
		}
		now := time.Now()
		state, err := r.followState(seen)
		if err != nil {
			continue // the router is busy: the next tick asks again
		}
		if now.Sub(bundles) > time.Second {
			bundles = now
			r.followRefits(seen)
		}
		if state != "live" {
			liveSince = time.Time{}
		} else if liveSince.IsZero() {
			liveSince = now
		}
		gone := now.Sub(r.began).Seconds() / r.Duration.Seconds()
		switch {
		case r.killed.IsZero() && gone > killAt && gone < killUntil && !liveSince.IsZero() && now.Sub(liveSince) > liveLeast:
			r.predictor.Kill()
			r.killed = time.Now()
			r.say("predictor killed (SIGKILL)")
		case !r.killed.IsZero() && r.restored.IsZero() && now.Sub(r.killed).Seconds() > downShare*r.Duration.Seconds():
			r.restored = time.Now()
			if r.predictor, err = r.verb("predictor"); err != nil {
				return err
			}
			r.say("predictor started again")
		}
	}
}

// status is the part of the router's status that the timeline tells.
type status struct {
	LLMs []struct {
		LLM   string `json:"llm"`
		State string `json:"state"`
	} `json:"llms"`
	Changes []struct {
		At     time.Time `json:"at"`
		From   string    `json:"from"`
		To     string    `json:"to"`
		Reason string    `json:"reason"`
	} `json:"changes"`
}

// followState tells of the changes not told yet and returns the present state.
func (r *run) followState(seen map[string]bool) (string, error) {
	page, err := child.Tell(r.ctx, r.admin, "/status.json")
	if err != nil {
		return "", err
	}
	var s status
	if err := json.Unmarshal(page, &s); err != nil {
		return "", err
	}
	for _, c := range s.Changes {
		key := "change " + c.At.String()
		if !seen[key] {
			seen[key] = true
			r.say("%s -> %s: %s", c.From, c.To, c.Reason)
		}
	}
	state := "cold"
	for _, l := range s.LLMs {
		if l.LLM == model {
			state = l.State
		}
	}
	if !seen["state"] {
		seen["state"] = true
		r.say("%s: the matched configuration decides until a bundle is accepted", state)
	}
	return state, nil
}

// followRefits tells of the bundles stored since.
func (r *run) followRefits(seen map[string]bool) {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
	defer cancel()
	bundles, err := r.store.Bundles(ctx, model, 50)
	if err != nil {
		return // told by the report in the end, if it lasts
	}
	for i := len(bundles) - 1; i >= 0; i-- {
		b := &bundles[i]
		key := fmt.Sprintf("bundle %d", b.Version)
		if !seen[key] {
			seen[key] = true
			r.say("%s", bundleLine(b))
		}
	}
}

// bundleLine tells of one refit.
func bundleLine(b *featurestore.Bundle) string {
	v, err := readVerdict(b)
	if err != nil {
		return fmt.Sprintf("bundle %d: %v", b.Version, err)
	}
	if !b.Accepted {
		return fmt.Sprintf("bundle %d refused: %v", b.Version, v.Reasons)
	}
	return fmt.Sprintf("bundle %d accepted: judged on %d later rows, median APE of TTFT %.1f %% (prior %.1f %%), TPOT %.1f %% (prior %.1f %%)",
		b.Version, v.HeldOut, 100*v.TTFT, 100*v.PriorTTFT, 100*v.TPOT, 100*v.PriorTPOT)
}
