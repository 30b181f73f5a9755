package front

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// ReasonRoom is why a body is refused for which there is no room.
const ReasonRoom = "bodies_too_large"

// Room bounds the memory that the bodies of all requests take which a front door
// holds at once: from where they are read until the endpoint has answered. A
// bound of each body and one of requests leave too much when both are reached.
type Room struct {
	most int64 // bytes; 0: no bound
	held atomic.Int64
}

// NewRoom returns room for most bytes; 0 is no bound.
func NewRoom(most int64) *Room { return &Room{most: most} }

// Take takes n bytes, which are to be given back, or refuses.
func (r *Room) Take(n int) error {
	if held := r.held.Add(int64(n)); r.most <= 0 || held <= r.most {
		return nil
	}
	r.held.Add(-int64(n))
	f := Refuse(http.StatusServiceUnavailable, ReasonRoom, "the bodies of requests on their way take all of the "+sizeText(r.most)+" that `max_held_bytes` allows")
	f.RetryAfter = time.Second
	return f
}

// CheckRoom reports that most bytes for all bodies are too few for one of body
// bytes, whose buffer may be twice as long.
func CheckRoom(most, body int64) error {
	if most != 0 && most/2 < body {
		return fmt.Errorf("max_held_bytes: %d; it must be at least twice max_body_bytes, %d; 0 is no bound", most, body)
	}
	return nil
}

// Give gives n bytes back.
func (r *Room) Give(n int) { r.held.Add(-int64(n)) }
