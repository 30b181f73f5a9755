package pool

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// member is one endpoint in the pool. Its fields are guarded by Pool.mu.
type member struct {
	endpoint Endpoint
	state    State // as the next snapshot shows it
	life     life
	health   health

	late     bool      // it joined after the pool began, or did not answer at the first try
	modelsAt time.Time // when it last said what it serves

	alarmed       string // what was last logged of its metrics page
	alarmedModels bool   // it was logged that it does not say what it serves

	cancel context.CancelFunc // of its scrape loop; nil while there is none
}

func newMember(e Endpoint) *member {
	nan := math.NaN()
	m := &member{state: State{
		ID: e.ID, URL: e.URL,
		Started: nan,
		Waiting: nan, Running: nan, KVUsed: nan,
		KVCapacityTokens: nan, BlockTokens: nan, MaxNumSeqs: nan,
	}}
	m.configure(e)
	return m
}

// configure takes over what can change without another engine being meant.
func (m *member) configure(e Endpoint) {
	if len(e.LLMs) > 0 {
		m.state.LLMs = sorted(e.LLMs)
	} else if len(m.endpoint.LLMs) > 0 {
		m.state.LLMs, m.modelsAt = nil, time.Time{} // ask for them now
	}
	m.endpoint = e
	m.state.Class, m.state.Profile, m.state.Draining = e.Class, e.Profile, e.Draining
}

func (m *member) stop() {
	if m.cancel != nil {
		m.cancel()
	}
}

// life is one incarnation and the facts it is told apart by, NaN while
// unknown.
type life struct {
	incarnation uint64
	url         string
	startTime   float64
	capacity    float64
	block       float64
	work        float64
}

func lifeOf(e Endpoint, incarnation uint64) life {
	nan := math.NaN()
	return life{incarnation, e.URL, nan, nan, nan, nan}
}

// startTimeSlack in seconds is how far one start time may be read differently
// twice.
const startTimeSlack = 1.0

// SameLife reports whether two start times, in Unix seconds, may be of one life of
// an endpoint: they are near, or one of them is not known.
func SameLife(a, b float64) bool { return !(math.Abs(a-b) > startTimeSlack) }

// learn takes a reading in and says why it belongs to another life, or "".
// What was not known before proves nothing.
func (l *life) learn(r Reading) (ended string) {
	switch {
	case !SameLife(r.StartTime, l.startTime):
		ended = "its process start time changed"
	case r.KVCapacityTokens != l.capacity && known(r.KVCapacityTokens, l.capacity),
		r.BlockTokens != l.block && known(r.BlockTokens, l.block):
		ended = "its cache configuration changed"
	case r.Work < l.work:
		ended = "its counters went back"
	}
	update := func(fact *float64, read float64) {
		if known(read) {
			*fact = read
		}
	}
	if ended != "" {
		*l = life{l.incarnation, l.url, math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	update(&l.startTime, r.StartTime)
	update(&l.capacity, r.KVCapacityTokens)
	update(&l.block, r.BlockTokens)
	update(&l.work, r.Work)
	return ended
}

func known(values ...float64) bool {
	return !slices.ContainsFunc(values, math.IsNaN)
}

// departed remembers the last life of endpoints that left, so that one that
// comes back unchanged goes on with it. It holds maxDeparted, the earliest to
// leave goes first.
type departed struct {
	lives map[string]life
	order []string
}

const maxDeparted = 1024

func (d *departed) put(id string, l life) {
	if d.lives == nil {
		d.lives = make(map[string]life)
	}
	d.order = append(slices.DeleteFunc(d.order, func(x string) bool { return x == id }), id)
	d.lives[id] = l
	if len(d.order) > maxDeparted {
		delete(d.lives, d.order[0])
		d.order = d.order[1:]
	}
}

func (d *departed) take(id string) (life, bool) {
	l, ok := d.lives[id]
	if ok {
		delete(d.lives, id)
		d.order = slices.DeleteFunc(d.order, func(x string) bool { return x == id })
	}
	return l, ok
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sorted(names []string) []string {
	s := slices.Clone(names)
	slices.Sort(s)
	return slices.Compact(s)
}
