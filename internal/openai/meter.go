package openai

import (
	"strings"
	"time"
)

// maxMessage is how much of an engine's error message a Meter keeps.
const maxMessage = 256

// Meter listens to one response as it passes: it notes when generated tokens
// arrive, how many, and what the engine reports at the end. It understands
// server-sent events and, where the body begins with a brace, a whole JSON
// response. Its zero value is ready; it is not safe for concurrent use.
//
// How the bytes are cut into chunks does not matter to what is found, only to
// when: an event counts at the time of the chunk that completes it. Memory is
// bounded by MaxEvent. A steady stream is metered without allocation.
type Meter struct {
	format      format
	events      events
	scratch     []byte
	body        bodyReader
	chunk       chunk
	first, last time.Time
	count       int // events with generated tokens
	drawn       int // tokens that NewTokens has handed out
	usage       Usage
	hasUsage    bool
	done        bool
	finish      string
	failed      bool
	message     string
	skipped     int
	malformed   int
}

type format uint8

const (
	undecided format = iota
	stream
	whole
)

// Write meters the next bytes of the response, received at now. It keeps no
// reference to p.
func (m *Meter) Write(p []byte, now time.Time) {
	if m.format == undecided {
		p = m.decide(p)
	}
	if m.format == whole {
		m.body.write(p, func(object []byte) { m.read(object, now) })
		m.done = m.done || m.body.closed
		return
	}
	for len(p) > 0 {
		event, rest, ok := m.events.next(p)
		if p = rest; !ok {
			return
		}
		if event == nil {
			m.skipped++
			continue
		}
		m.event(event, now)
	}
}

// decide tells the two formats apart by the first byte that is neither white
// space nor part of a byte order mark, and drops those before it.
func (m *Meter) decide(p []byte) []byte {
	for i, c := range p {
		switch c {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
			continue
		case '{':
			m.format = whole
		default:
			m.format = stream
		}
		return p[i:]
	}
	return nil
}

// Finish tells that the response ended at now. An event that lacks its closing
// empty line counts then.
func (m *Meter) Finish(now time.Time) {
	if event := m.events.last(); event != nil {
		m.event(event, now)
	}
}

// Reset makes m ready for another response, keeping its buffers.
func (m *Meter) Reset() {
	held, scratch, member := m.events.held[:0], m.scratch[:0], m.body.held[:0]
	*m = Meter{}
	m.events.held, m.scratch, m.body.held = held, scratch, member
}

func (m *Meter) event(event []byte, now time.Time) {
	var data []byte
	data, m.scratch = eventData(event, m.scratch)
	if cap(m.scratch) > keptCapacity {
		m.scratch = nil
	}
	switch string(data) {
	case "":
	case "[DONE]":
		m.done = true
	default:
		m.read(data, now)
	}
}

func (m *Meter) read(data []byte, now time.Time) {
	k := &m.chunk
	if !k.parse(data) {
		m.malformed++
		return
	}
	if k.generated {
		if m.count == 0 {
			m.first = now
		}
		m.last = now
		m.count++
	}
	if k.hasUsage {
		m.usage, m.hasUsage = k.usage, true
	}
	if k.finish != nil {
		m.finish = reason(k.finish)
	}
	if k.failed {
		m.failed = true
		m.message = cut(k.message)
	}
	m.done = m.done || k.ended
	k.finish, k.message = nil, nil // they point into data
}

// reason returns raw as a string, without allocation for the reasons there are.
func reason(raw []byte) string {
	switch string(raw) {
	case "stop":
		return "stop"
	case "length":
		return "length"
	case "tool_calls":
		return "tool_calls"
	}
	return cut(raw)
}

func cut(raw []byte) string {
	return strings.ToValidUTF8(string(unescape(nil, raw[:safeCut(raw)])), "\uFFFD")
}

// safeCut returns a length of at most maxMessage that splits no escape.
func safeCut(raw []byte) int {
	if len(raw) <= maxMessage {
		return len(raw)
	}
	n := 0
	for n < maxMessage {
		step := 1
		if raw[n] == '\\' {
			if step = 2; raw[n+1] == 'u' {
				step = 6
			}
		}
		if n+step > maxMessage {
			break
		}
		n += step
	}
	return n
}

// FirstToken returns when the first generated token of any channel (content,
// reasoning, tool call) arrived; the zero time before it and for whole
// responses. Chunks that carry only a role, or nothing, do not count.
func (m *Meter) FirstToken() time.Time { return m.first }

// LastToken returns when the latest generated token arrived.
func (m *Meter) LastToken() time.Time { return m.last }

// Events returns the number of events with generated tokens. An event may
// carry several tokens.
func (m *Meter) Events() int { return m.count }

// Usage returns the usage that the engine reported last, and whether it
// reported any.
func (m *Meter) Usage() (Usage, bool) {
	if !m.hasUsage {
		return Usage{-1, -1, -1}, false
	}
	return m.usage, true
}

// Tokens returns the number of tokens generated so far: what the engine
// reports, else the events counted. For a whole response it is 0 until the
// usage is read, and stays so without one.
func (m *Meter) Tokens() int {
	if m.hasUsage && m.usage.CompletionTokens >= 0 {
		return m.usage.CompletionTokens
	}
	return m.count
}

// NewTokens returns the number of tokens generated since it was last called.
// Should the engine report fewer than were handed out already, it returns 0
// until they are made up for.
func (m *Meter) NewTokens() int {
	n := max(m.Tokens()-m.drawn, 0)
	m.drawn += n
	return n
}

// Done reports whether the response said that it was complete: [DONE], the
// closing event of the Responses API, or the closing brace of a whole response.
// A stream that ends without it was cut off.
func (m *Meter) Done() bool { return m.done }

// Streamed reports whether the response is a stream of events.
func (m *Meter) Streamed() bool { return m.format == stream }

// FinishReason returns the finish reason seen last, "" before any.
func (m *Meter) FinishReason() string { return m.finish }

// Failure returns the message of an error that came inside the response, cut
// to 256 bytes, and whether there was one. Engines may quote the prompt in it:
// do not log it.
func (m *Meter) Failure() (message string, failed bool) { return m.message, m.failed }

// Skipped returns the number of events (or members of a whole response) that
// were too long to be read.
func (m *Meter) Skipped() int { return m.skipped + m.body.skipped }

// Malformed returns the number of events whose data was no JSON object.
func (m *Meter) Malformed() int { return m.malformed }
