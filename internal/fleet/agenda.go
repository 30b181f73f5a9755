package fleet

import (
	"math"
	"time"
)

// never is when an actor acts that has nothing to do.
const never = time.Duration(math.MaxInt64)

// agenda knows when each of a fixed number of actors acts next: a binary heap
// that also finds an actor's place, so that setting one anew is a short way up
// or down. Of actors that act at one time the lower number comes first, which
// keeps a run the same every time.
type agenda struct {
	at   []time.Duration // by actor
	heap []int32         // actors, earliest first
	pos  []int32         // of each actor in heap
}

func newAgenda(actors int) *agenda {
	a := &agenda{at: make([]time.Duration, actors), heap: make([]int32, actors), pos: make([]int32, actors)}
	for i := range actors {
		a.at[i], a.heap[i], a.pos[i] = never, int32(i), int32(i)
	}
	return a
}

// next is the actor that acts next, and when.
func (a *agenda) next() (actor int, at time.Duration) {
	actor = int(a.heap[0])
	return actor, a.at[actor]
}

// set says when an actor acts next.
func (a *agenda) set(actor int, at time.Duration) {
	was := a.at[actor]
	a.at[actor] = at
	switch {
	case at < was:
		a.up(a.pos[actor])
	case at > was:
		a.down(a.pos[actor])
	}
}

func (a *agenda) before(x, y int32) bool {
	if a.at[x] != a.at[y] {
		return a.at[x] < a.at[y]
	}
	return x < y
}

func (a *agenda) up(i int32) {
	x := a.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !a.before(x, a.heap[parent]) {
			break
		}
		a.place(a.heap[parent], i)
		i = parent
	}
	a.place(x, i)
}

func (a *agenda) down(i int32) {
	x, n := a.heap[i], int32(len(a.heap))
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && a.before(a.heap[child+1], a.heap[child]) {
			child++
		}
		if !a.before(a.heap[child], x) {
			break
		}
		a.place(a.heap[child], i)
		i = child
	}
	a.place(x, i)
}

func (a *agenda) place(actor, i int32) {
	a.heap[i], a.pos[actor] = actor, i
}
