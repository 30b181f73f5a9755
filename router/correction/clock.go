package correction

import "time"

// Clock turns what the streams of one endpoint did between two ticks into
// evidence for its Speed. Its unit is the engine's step, and what shows a step
// from outside is an event of a stream, however many tokens it carries: an
// engine that decodes speculatively streams several at once and is no faster
// per step for it. The stream with the most events is believed, since every
// decoding stream has one event in each step and some are held up on the way.
//
// The zero value has seen nothing.
type Clock struct {
	events   int64
	from, to time.Time
	silent   time.Time // when the last of the streams that had no event had its last one
	prefills []prefill
}

// prefill is one prompt whose prefill ended.
type prefill struct {
	at   time.Time
	work float64
}

// Mark is how far a stream was at the last tick. The zero value is a stream
// that has not begun.
type Mark struct {
	events int64
	at     time.Time
}

// Prefilled says that the first token of a prompt came at a time, and how many
// seconds the step model gives for its prefill.
func (c *Clock) Prefilled(at time.Time, work float64) {
	c.prefills = append(c.prefills, prefill{at, work})
}

// Begin marks a stream whose first event came at a time.
func (m *Mark) Begin(at time.Time) { *m = Mark{1, at} }

// Stream says that a stream has had so many events by now, the latest at last.
// Every stream is to be shown once before each Tick. The order is no matter.
func (c *Clock) Stream(m *Mark, events int64, last time.Time) {
	n := events - m.events
	if n == 0 && m.at.After(c.silent) {
		c.silent = m.at
	}
	if !m.at.IsZero() && n > 0 && c.better(n, m.at, last) {
		c.events, c.from, c.to = n, m.at, last
	}
	if events > 0 {
		*m = Mark{events, last}
	}
}

// better orders streams: more events first, then those that were done
// earlier, then those that took less time for it.
func (c *Clock) better(n int64, from, to time.Time) bool {
	switch {
	case n != c.events:
		return n > c.events
	case !to.Equal(c.to):
		return to.Before(c.to)
	}
	return from.After(c.from)
}

// Stalled tells s, before a Tick, of a step that every stream is still waiting
// for: since when, and that it takes at most longest seconds by the step model.
func (c *Clock) Stalled(now time.Time, longest float64, s *Speed) {
	if c.events > 0 || c.silent.IsZero() {
		s.Waiting(0, 0)
		return
	}
	s.Waiting(now.Sub(c.silent).Seconds(), longest)
}

// Tick ends the time since the last tick: step is the seconds that the step
// model gives for one decode step of the endpoint as it is now. What the
// streams took, and what they should have taken with the prefills that fell
// into that time, goes to s.
func (c *Clock) Tick(now time.Time, step float64, s *Speed) {
	expected := 0.0
	if c.events > 0 {
		expected = float64(c.events) * step
		for _, p := range c.prefills {
			if p.at.After(c.from) && !p.at.After(c.to) {
				expected += p.work
			}
		}
	}
	s.Observe(now, c.to.Sub(c.from).Seconds(), expected)
	s.steps += float64(c.events)
	c.events, c.from, c.to, c.silent = 0, time.Time{}, time.Time{}, time.Time{}
	c.prefills = c.prefills[:0]
}

// Streaming reports whether a stream had events since the last tick: whether
// Tick needs a step time.
func (c *Clock) Streaming() bool { return c.events > 0 }
