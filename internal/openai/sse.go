package openai

import "bytes"

// MaxEvent is the longest server-sent event, in bytes, that is understood. The
// longest real ones are the closing events of the Responses API, which repeat
// the whole output. Longer events are counted and skipped by the Meter and
// passed on by StripUsage.
const MaxEvent = 1 << 20

// boundary finds the ends of server-sent events in a stream cut into arbitrary
// chunks. An event ends with an empty line; lines end with LF or CRLF. (The
// standard also allows a lone CR, which no server of this API writes.)
type boundary struct {
	line int  // bytes of the current line so far
	cr   bool // its first byte is CR
}

// find returns the length of the part of p up to and including the first end
// of an event, or -1 if the event goes on after p.
func (b *boundary) find(p []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(p[i:], '\n')
		rest := p[i:]
		if n >= 0 {
			rest = rest[:n]
		}
		if b.line == 0 && len(rest) > 0 {
			b.cr = rest[0] == '\r'
		}
		b.line += len(rest)
		if n < 0 {
			return -1
		}
		i += n + 1
		empty := b.line == 0 || b.line == 1 && b.cr
		b.line = 0
		if empty {
			return i
		}
	}
}

// events cuts a stream into events. It holds at most one partial event.
type events struct {
	boundary boundary
	held     []byte // the current event so far, where earlier chunks began it
	size     int    // its length so far, also when it is too long to hold
}

// keptCapacity is how much of the buffer is kept between events.
const keptCapacity = 64 << 10

// next takes one event from the front of p. It returns the raw event with its
// line ends and the rest of p; ok is false when p ended first. An event longer
// than MaxEvent is returned as nil with ok true. The event is valid until the
// next call.
func (e *events) next(p []byte) (event, rest []byte, ok bool) {
	if e.size == 0 {
		if cap(e.held) > keptCapacity {
			e.held = nil
		}
		e.held = e.held[:0]
	}
	n := e.boundary.find(p)
	if n < 0 {
		if e.size += len(p); e.size <= MaxEvent {
			e.held = append(e.held, p...)
		} else {
			e.held = nil
		}
		return nil, nil, false
	}
	event, rest = p[:n], p[n:]
	size := e.size + n
	if size > MaxEvent {
		event = nil
	} else if e.size > 0 {
		e.held = append(e.held, event...)
		event = e.held
	}
	e.size = 0
	return event, rest, true
}

// last returns the event that the end of the stream cut off, if any.
func (e *events) last() []byte {
	if e.size == 0 || e.size > MaxEvent {
		return nil
	}
	e.size = 0
	return e.held
}

// eventData returns the data of a raw event: the values of its data lines,
// joined by LF. Nearly always that is one line, returned in place; otherwise
// the lines are joined in scratch, which is returned for reuse.
func eventData(event, scratch []byte) (data, reuse []byte) {
	lines := 0
	for len(event) > 0 {
		var line []byte
		if n := bytes.IndexByte(event, '\n'); n >= 0 {
			line, event = event[:n], event[n+1:]
		} else {
			line, event = event, nil
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimSuffix(value, []byte("\r"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch lines++; lines {
		case 1:
			data = value
			continue
		case 2:
			scratch = append(scratch[:0], data...)
		}
		scratch = append(scratch, '\n')
		scratch = append(scratch, value...)
		data = scratch
	}
	return data, scratch
}
