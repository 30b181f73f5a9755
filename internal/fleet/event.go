package fleet

import "time"

// EventKind says what happened to a request.
type EventKind uint8

const (
	// Token says that a request gained output tokens: one, or several at once
	// from an engine that guesses ahead. A client sees it as one event of its
	// stream.
	Token EventKind = iota
	// Finished says that a request has its whole output. It follows the last
	// Token at the same time.
	Finished
)

// Event is something that happened to a request at the end of a step.
type Event struct {
	Kind      EventKind
	Request   *Request
	At        time.Duration
	Generated int // output tokens so far: 1 at the first token
	Cached    int // prompt tokens that came from the prefix cache when the request was first admitted
	tag       int32
}
