package route

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/router/correction"
)

const (
	// mostLLMs bounds the LLMs a router keeps apart. While an endpoint does
	// not say what it serves, clients choose the names, and each has a state
	// and labels of its own.
	mostLLMs = 256
	// otherLLMs is what the rest share, with requests that name none. It is
	// never asked about, so it stays cold.
	otherLLMs = "(other)"
	// listedFor is how long an LLM counts as listed after a tick found it in
	// an endpoint's list.
	listedFor = 5 * time.Second
)

// llm returns what is known of an LLM. Called under mu.
func (r *Router) llm(name string, now time.Time) *llm {
	switch l, ok := r.llms[name]; {
	case ok:
		return l
	case name == "" || len(r.llms) >= mostLLMs:
		if r.others == nil {
			r.others = r.meetLLM(otherLLMs, now)
		}
		return r.others
	}
	l := r.meetLLM(name, now)
	r.llms[name] = l
	return l
}

func (r *Router) meetLLM(name string, now time.Time) *llm {
	r.metrics.state(name, correction.Cold)
	return newLLM(name, &r.config, now)
}

// listed takes note that an endpoint says it serves an LLM. Where there is no
// room, a name that no endpoint lists gives its place up: the one asked for
// longest ago.
func (r *Router) listed(name string, now time.Time) {
	if !nameable(name) {
		return
	}
	if _, ok := r.llms[name]; !ok && len(r.llms) >= mostLLMs {
		var victim *llm
		for _, l := range r.llms {
			if now.Sub(l.listed) > listedFor && (victim == nil || older(l, victim)) {
				victim = l
			}
		}
		if victim == nil {
			return
		}
		delete(r.llms, victim.name)
		r.metrics.forget(victim.name)
	}
	r.llm(name, now).listed = now
}

func older(a, b *llm) bool {
	return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) < 0
}

// sorted returns the LLMs that are kept apart, by name.
func (r *Router) sorted() []*llm {
	all := make([]*llm, 0, len(r.llms))
	for _, name := range slices.Sorted(maps.Keys(r.llms)) {
		all = append(all, r.llms[name])
	}
	return all
}
