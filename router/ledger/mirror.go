package ledger

import "time"

// MostMirrored is how many entries a Mirror holds: far more than one router has
// in flight, and what another may make this one remember at most.
const MostMirrored = 1 << 17

// Mirror repeats in a Ledger what one other router has in flight. It is told by
// the numbers that the other gives its requests, each used once, and bears
// being told twice, too late, or of requests it has not heard of. It needs the
// ledger's lock, as its methods change the ledger.
type Mirror struct {
	ledger *Ledger
	held   map[uint64]*mirrored
	round  uint32
}

// mirrored is one request of the other router.
type mirrored struct {
	handle    Handle
	generated int
	round     uint32 // in which it was last told of as a whole
}

// NewMirror makes one that holds nothing.
func NewMirror(l *Ledger) *Mirror {
	return &Mirror{ledger: l, held: make(map[uint64]*mirrored)}
}

// Len is how many requests it holds.
func (m *Mirror) Len() int { return len(m.held) }

// Charge puts the request of a number on an endpoint's incarnation. It reports
// false, and charges nothing, for a number that it holds already, and when it
// holds MostMirrored.
func (m *Mirror) Charge(number uint64, endpoint string, incarnation uint64, e Entry, at time.Time) bool {
	if known := m.held[number]; known != nil {
		known.round = m.round
		return false
	}
	if len(m.held) >= MostMirrored {
		return false
	}
	e.Foreign = true
	m.held[number] = &mirrored{handle: m.ledger.Charge(endpoint, incarnation, e, at), round: m.round}
	return true
}

// Generated says how many tokens the request of a number has generated in all:
// the first of them moves it from prefill to decode. It reports false when the
// number is not held. A count that is not above the one before changes nothing.
func (m *Mirror) Generated(number uint64, tokens int, now time.Time) bool {
	known := m.held[number]
	if known == nil {
		return false
	}
	if more := tokens - known.generated; more > 0 {
		m.ledger.FirstToken(known.handle, now)
		m.ledger.Tokens(known.handle, more, now)
		known.generated = tokens
	}
	return true
}

// Settle ends the request of a number. It reports false when that is not held.
func (m *Mirror) Settle(number uint64) bool {
	known := m.held[number]
	if known == nil {
		return false
	}
	m.ledger.Settle(known.handle)
	delete(m.held, number)
	return true
}

// Restate says that all that the other router has in flight is about to be told
// once more. What is not, by the time of Restated, has ended unheard.
func (m *Mirror) Restate() { m.round++ }

// Restated settles what was not charged since Restate and returns how many that
// were.
func (m *Mirror) Restated() (ended int) {
	for number, known := range m.held { // in no order, which is no matter: all end
		if known.round != m.round {
			m.Settle(number)
			ended++
		}
	}
	return ended
}

// Clear settles all that it holds, as when the other router is gone, and
// returns how many that were.
func (m *Mirror) Clear() (ended int) {
	ended = len(m.held)
	for _, known := range m.held { // in no order, which is no matter: all end
		m.ledger.Settle(known.handle)
	}
	clear(m.held)
	return ended
}
