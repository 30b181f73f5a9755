package fleet

import (
	"container/heap"
	"time"

	"github.com/spillway-llm/spillway/internal/workload"
)

// client is who sends: a session of an open loop, or a client of a closed one,
// which takes session after session.
type client struct {
	session workload.Session
	turn    int // next to send
	stuck   int // endpoint its connection leads to; below 0: none yet
	talking bool

	worker *worker // that sends its requests; nil: none
	held   []int   // turns that its worker holds until an answer is there
}

// wake is a client that acts at a time of its own: it begins, or has thought.
type wake struct {
	at     time.Duration
	order  uint64 // of asking; decides between equal times
	client *client
}

// wakes is a heap of clients by time.
type wakes []wake

func (w wakes) Len() int { return len(w) }
func (w wakes) Less(i, j int) bool {
	return w[i].at < w[j].at || w[i].at == w[j].at && w[i].order < w[j].order
}
func (w wakes) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *wakes) Push(x any) { *w = append(*w, x.(wake)) }

// Pop implements heap.Interface.
func (w *wakes) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = wake{}
	*w = (*w)[:last]
	return x
}

// wakeAt lets a client act at a time.
func (w *world) wakeAt(c *client, at time.Duration) {
	w.asked++
	heap.Push(&w.wakes, wake{at, w.asked, c})
	w.agenda.set(w.actorWake, w.wakes[0].at)
}

// wakeDue lets act who is due.
func (w *world) wakeDue() error {
	for len(w.wakes) > 0 && w.wakes[0].at <= w.now {
		c := heap.Pop(&w.wakes).(wake).client
		if err := w.proceed(c); err != nil {
			return err
		}
	}
	at := never
	if len(w.wakes) > 0 {
		at = w.wakes[0].at
	}
	w.agenda.set(w.actorWake, at)
	return nil
}

// begin starts the clients of a closed loop, or waits for the first session of
// an open one.
func (w *world) begin() {
	n := w.config.Plan.Concurrency
	if n <= 0 {
		w.await()
		return
	}
	if w.shared() {
		w.share()
		return
	}
	for i := range n {
		at := time.Duration(0)
		if ramp := w.config.Plan.Ramp; ramp > 0 {
			at = time.Duration(float64(ramp) * float64(i) / float64(n))
		}
		w.wakeAt(&client{stuck: -1}, at)
	}
}

// await takes the next session of an open loop and waits for its time.
func (w *world) await() {
	at := never
	if s, ok := w.take(); ok {
		w.arriving, at = s, max(s.At, w.now)
	}
	w.awaiting = at != never
	w.agenda.set(w.actorArrival, at)
}

// arrive begins the session that was waited for.
func (w *world) arrive() error {
	c := &client{session: w.arriving, stuck: -1, talking: true, worker: w.process(&w.arriving)}
	w.sessions++
	w.await()
	return w.proceed(c)
}

// take is the plan's next session, if there is one and a request left for it.
func (w *world) take() (workload.Session, bool) {
	for !w.exhausted && !w.full() {
		s, ok := w.next()
		if !ok {
			break
		}
		if len(s.Turns) > 0 {
			return s, true
		}
	}
	if !w.exhausted {
		w.exhausted = true
		w.loadEnded = w.now
	}
	return workload.Session{}, false
}

// full reports whether all requests of the plan have been sent.
func (w *world) full() bool {
	limit := w.config.Plan.Limit
	return limit > 0 && w.sent >= limit
}

// proceed sends a client's next request. One without a session takes the next
// there is.
func (w *world) proceed(c *client) error {
	if w.shared() {
		return w.freed(c)
	}
	if !c.talking {
		s, ok := w.take()
		if !ok {
			return nil
		}
		c.session, c.turn, c.talking = s, 0, true
		w.sessions++
		if w.config.Router.Connections == PerSession {
			c.stuck = -1
		}
	}
	if c.turn >= len(c.session.Turns) { // its last request was refused
		return w.answered(c)
	}
	if w.full() {
		c.talking = false
		w.sessions--
		w.take() // notes that the load has ended
		return nil
	}
	turn := c.turn
	c.turn++
	return w.send(c, turn)
}

// answered goes on with a client whose request has ended, however it did.
func (w *world) answered(c *client) error {
	if w.shared() {
		return w.freed(c)
	}
	if c.turn < len(c.session.Turns) {
		if after := c.session.Turns[c.turn].After; after > 0 {
			w.wakeAt(c, w.now+after)
			return nil
		}
		return w.proceed(c)
	}
	c.talking = false
	w.sessions--
	if w.config.Plan.Concurrency > 0 {
		return w.proceed(c)
	}
	return nil
}
