package ledger

import "time"

// The entries of an account that have no first token form a list, oldest
// charge first: its head is the one the engine must be prefilling now.

// startWaiting appends a slot to its account's list.
func (l *Ledger) startWaiting(slot int32) {
	e := &l.entries[slot]
	a := e.account
	e.waiting = true
	e.prev, e.next = a.last, none
	if a.last == none {
		a.first = slot
	} else {
		l.entries[a.last].next = slot
	}
	a.last = slot

	a.waiting++
	a.prefill += e.uncached
	a.work += e.work()
	a.waitingContext += e.prompt
	a.waitingOutput += e.expected
	a.waitingStay += e.stay()
	if !e.moveAt.IsZero() && (a.nextMove.IsZero() || e.moveAt.Before(a.nextMove)) {
		a.nextMove = e.moveAt
	}
}

// unlink takes a slot out of its account's list.
func (l *Ledger) unlink(slot int32) {
	e := &l.entries[slot]
	a := e.account
	if e.prev == none {
		a.first = e.next
	} else {
		l.entries[e.prev].next = e.next
	}
	if e.next == none {
		a.last = e.prev
	} else {
		l.entries[e.next].prev = e.prev
	}
	e.waiting = false

	a.waiting--
	a.prefill -= e.uncached
	a.work -= e.work()
	a.waitingContext -= e.prompt
	a.waitingOutput -= e.expected
	a.waitingStay -= e.stay()
}

// stopWaiting moves a slot from prefill to decode.
func (l *Ledger) stopWaiting(slot int32, at time.Time) {
	l.unlink(slot)
	e := &l.entries[slot]
	a := e.account
	a.decodingContext += e.context()
	if at.After(a.lastFirst) {
		a.lastFirst = at
	}
}

// moveDue moves the entries whose MoveAt has come. The list is walked only
// when one may be due: nextMove is never later than the earliest of them, and
// each walk either moves one or makes it exact.
func (l *Ledger) moveDue(a *account, now time.Time) {
	if a.nextMove.IsZero() || now.Before(a.nextMove) {
		return
	}
	a.nextMove = time.Time{}
	for slot := a.first; slot != none; {
		e := &l.entries[slot]
		next := e.next
		switch {
		case e.moveAt.IsZero():
		case !now.Before(e.moveAt):
			l.stopWaiting(slot, e.moveAt)
		case a.nextMove.IsZero() || e.moveAt.Before(a.nextMove):
			a.nextMove = e.moveAt
		}
		slot = next
	}
}
