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

// moments cuts the time in which requests were sent into pieces of that length.
// What was still under way afterwards is left out.
func (u *use) moments(each time.Duration) []Moment {
	out := make([]Moment, int(u.span/each)+1)
	slots, kv := make([]mean, len(out)), make([]mean, len(out))
	for i := range u.parts {
		p := &u.parts[i]
		at := int(p.at / each)
		out[at].Requests++
		slots[at].add(p.slots)
		kv[at].add(p.kv)
		spread(p.first-seconds(p.prefill), p.first, each, len(out), func(i int, share float64) { out[i].Prefill += p.prefill * share })
		spread(p.first, p.last, each, len(out), func(i int, share float64) { out[i].Decode += p.decode * share })
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
