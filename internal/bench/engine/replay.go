package main

import (
	"errors"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/measured"
)

// served is when a simulated request was admitted, and had its first and last
// token, from when it was queued.
type served struct {
	wait, first, last time.Duration
}

// rank is one data-parallel engine.
type rank struct {
	*fleet.Engine
	came     []int // requests, in order
	admitted int   // of them, at least once
	ended    int
}

// load is what vLLM's balancer between ranks compares: a request that waits weighs
// as many as four that run. It counts what it has just sent as waiting.
func (r *rank) load() int {
	running := r.Metrics().Running
	return 4*(len(r.came)-r.ended-running) + running
}

// replay gives engines measured requests, which must stand in order of queueing, at
// the times they were queued. Each goes to the rank with the least load.
func replay(config fleet.Config, ranks int, requests []measured.Served) ([]served, error) {
	config.Options.LiveMetrics = true // how many run tells who was admitted
	var all []*rank
	for range ranks {
		engine, err := fleet.New(config)
		if err != nil {
			return nil, err
		}
		all = append(all, &rank{Engine: engine})
	}
	at := func(i int) time.Duration {
		return time.Duration((requests[i].Queued - requests[0].Queued) * feature.Seconds(time.Second))
	}
	out := make([]served, len(requests))
	for next, ended := 0, 0; ended < len(requests); {
		r, now := earliest(all)
		if next < len(requests) && (r == nil || at(next) <= now) {
			now = at(next)
			r = idlest(all, next)
			q := requests[next]
			prompt, output := int(q.PromptTokens), int(q.OutputTokens)
			if err := r.Submit(now, fleet.NewRequest(uint64(next), fleet.Prompt{Tokens: prompt}, output, fleet.Output{Tokens: output})); err != nil {
				return nil, err
			}
			r.came = append(r.came, next)
			next++
		} else if r == nil {
			return nil, errors.New("the engines stand still with requests in them")
		}
		for _, ev := range r.Advance(now) {
			id := int(ev.Request.ID)
			switch {
			case ev.Kind == fleet.Finished:
				ended++
				r.ended++
			case ev.Generated == 1:
				out[id].first = ev.At - at(id)
				fallthrough
			default:
				out[id].last = ev.At - at(id)
			}
		}
		// The line is first come, first served, and a preempted request stands before
		// all that were never admitted: so many have been admitted as run or have
		// ended, or as many as before.
		for upTo := r.Metrics().Running + r.ended; r.admitted < upTo; r.admitted++ {
			id := r.came[r.admitted]
			out[id].wait = now - at(id)
		}
	}
	return out, nil
}

// earliest is the rank that next does something, and when; nil when none does.
func earliest(all []*rank) (first *rank, when time.Duration) {
	for _, r := range all {
		if at, busy := r.NextEvent(); busy && (first == nil || at < when) {
			first, when = r, at
		}
	}
	return first, when
}

// idlest is the rank with the least load; of equals the one whose turn it is.
func idlest(all []*rank, turn int) *rank {
	best := all[turn%len(all)]
	for _, r := range all {
		if r.load() < best.load() {
			best = r
		}
	}
	return best
}
