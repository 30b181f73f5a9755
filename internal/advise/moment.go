package advise

import (
	"encoding/json"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Moment is how the fleet was used for some time, as shares from 0 to 1. What no
// request tells of is NaN.
type Moment struct {
	At       time.Duration // when it begins, from the first request on
	Requests int           // that were sent in it

	// Prefill and Decode are shares of the endpoints' time: what prefill takes,
	// and what decoding sequences add to the steps they are in. A prefix that
	// several sequences share counts for each of them, though an engine may read it
	// once; Decode is at most what Prefill leaves.
	Prefill, Decode float64

	// Slots and KV are how full the batches and the KV caches were of the
	// endpoints that were chosen, as these told.
	Slots, KV float64

	Binds Resource
}

// MarshalJSON writes seconds, and null for what is not known.
func (m Moment) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At       float64        `json:"at_seconds"`
		Requests int            `json:"requests"`
		Prefill  feature.Number `json:"prefill"`
		Decode   feature.Number `json:"decode"`
		Slots    feature.Number `json:"slots"`
		KV       feature.Number `json:"kv"`
		Binds    Resource       `json:"binds"`
	}{m.At.Seconds(), m.Requests, feature.Number(m.Prefill), feature.Number(m.Decode), feature.Number(m.Slots), feature.Number(m.KV), m.Binds})
}

// Span is the time from the first request that took something to the last, as
// they were sent.
func (u *Usage) Span() time.Duration {
	first, last := u.ends()
	return last - first
}

func (u *Usage) ends() (first, last time.Duration) {
	for i, p := range u.parts {
		if i == 0 {
			first, last = p.at, p.at
		}
		first, last = min(first, p.at), max(last, p.at)
	}
	return first, last
}

// Moments cuts the time in which requests were sent into pieces of that length,
// which must be above 0. What was still under way afterwards is left out.
func (u *Usage) Moments(each time.Duration) []Moment {
	if len(u.parts) == 0 {
		return nil
	}
	first, last := u.ends()
	out := make([]Moment, int((last-first)/each)+1)
	slots, kv := make([]mean, len(out)), make([]mean, len(out))
	for _, p := range u.parts {
		i := int((p.at - first) / each)
		out[i].Requests++
		slots[i].add(p.slots)
		kv[i].add(p.kv)
		begins := p.first - time.Duration(p.prefill*1e9)
		spread(begins-first, p.first-first, each, len(out), func(i int, share float64) { out[i].Prefill += p.prefill * share })
		spread(p.first-first, p.last-first, each, len(out), func(i int, share float64) { out[i].Decode += p.decode * share })
	}
	capacity := u.endpoints * each.Seconds()
	for i := range out {
		m := &out[i]
		m.At = time.Duration(i) * each
		m.Prefill = min(1, m.Prefill/capacity)
		m.Decode = min(1-m.Prefill, m.Decode/capacity)
		m.Slots, m.KV = slots[i].of(), kv[i].of()
		m.Binds = m.binds()
	}
	return out
}

// spread gives each of n pieces its share of a time; a time without length falls
// into the piece in which it is.
func spread(from, to, each time.Duration, n int, give func(i int, share float64)) {
	to = max(to, from+1)
	length := float64(to - from)
	for i := int(max(from, 0) / each); i < n; i++ {
		inside := min(to, time.Duration(i+1)*each) - max(from, time.Duration(i)*each)
		if inside <= 0 {
			return
		}
		give(i, float64(inside)/length)
	}
}

// mean leaves out what is not known.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) {
	if !math.IsNaN(v) {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m *mean) of() float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.sum / m.n
}
