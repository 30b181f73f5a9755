package fleet

import "slices"

// queue is a first-in-first-out line that also takes back at its front.
type queue struct {
	items []*sequence
	head  int // items before it have left
}

func (q *queue) len() int         { return len(q.items) - q.head }
func (q *queue) all() []*sequence { return q.items[q.head:] }
func (q *queue) front() *sequence { return q.items[q.head] }
func (q *queue) pushBack(s *sequence) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, s)
}

func (q *queue) pushFront(s *sequence) {
	if q.head == 0 {
		q.items = slices.Insert(q.items, 0, s)
		return
	}
	q.head--
	q.items[q.head] = s
}

func (q *queue) popFront() *sequence {
	s := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return s
}

// remove takes s out and reports whether it was there.
func (q *queue) remove(s *sequence) bool {
	i := slices.Index(q.all(), s)
	if i < 0 {
		return false
	}
	q.items = slices.Delete(q.items, q.head+i, q.head+i+1)
	return true
}
