package fleet

import (
	"math"
	"time"
)

// never is when an actor acts that has nothing to do.
const never = time.Duration(math.MaxInt64)

// agenda knows when each of a fixed number of actors acts next: a heap of four
// branches, whose siblings share a line of memory, that also finds an actor's
// place, so that setting one anew is a short way up or down. Of actors that act
// at one time the lower number comes first, which keeps a run the same every
// time.
type agenda struct {
	heap []appointment // earliest first
	pos  []int32       // of each actor in heap
}

type appointment struct {
	at    time.Duration
	actor int32
}

const branches = 4

func newAgenda(actors int) *agenda {
	a := &agenda{heap: make([]appointment, actors), pos: make([]int32, actors)}
	for i := range actors {
		a.heap[i], a.pos[i] = appointment{never, int32(i)}, int32(i)
	}
	return a
}

// next is the actor that acts next, and when.
func (a *agenda) next() (actor int, at time.Duration) {
	return int(a.heap[0].actor), a.heap[0].at
}

// at is when an actor acts next.
func (a *agenda) at(actor int) time.Duration { return a.heap[a.pos[actor]].at }

// set says when an actor acts next.
func (a *agenda) set(actor int, at time.Duration) {
	i := a.pos[actor]
	x := appointment{at, int32(actor)}
	switch was := a.heap[i].at; {
	case at < was:
		a.up(x, i)
	case at > was:
		a.down(x, i)
	}
}

func (x appointment) before(y appointment) bool {
	return x.at < y.at || x.at == y.at && x.actor < y.actor
}

// up puts x where i is free, or before.
func (a *agenda) up(x appointment, i int32) {
	for i > 0 {
		parent := (i - 1) / branches
		if !x.before(a.heap[parent]) {
			break
		}
		a.place(a.heap[parent], i)
		i = parent
	}
	a.place(x, i)
}

// down puts x where i is free, or behind.
func (a *agenda) down(x appointment, i int32) {
	n := int32(len(a.heap))
	for {
		first := branches*i + 1
		if first >= n {
			break
		}
		least := first
		for child := first + 1; child < min(first+branches, n); child++ {
			if a.heap[child].before(a.heap[least]) {
				least = child
			}
		}
		if !a.heap[least].before(x) {
			break
		}
		a.place(a.heap[least], i)
		i = least
	}
	a.place(x, i)
}

func (a *agenda) place(x appointment, i int32) {
	a.heap[i], a.pos[x.actor] = x, i
}
