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
	silent map[life]map[uint64]*mirrored // those of them without a token
	round  uint32
}

// mirrored is one request of the other router.
type mirrored struct {
	handle    Handle
	of        life
	entry     Entry // without its chain after the first token
	generated int
	round     uint32 // in which it was last told of as a whole
}

// NewMirror makes one that holds nothing.
func NewMirror(l *Ledger) *Mirror {
	return &Mirror{ledger: l, held: make(map[uint64]*mirrored), silent: make(map[life]map[uint64]*mirrored)}
}

// Len is how many requests it holds.
func (m *Mirror) Len() int { return len(m.held) }

// Charge puts the request of a number on an endpoint's incarnation. The entry's
// chain is kept, not copied. It reports false, and charges nothing, for a number
// that it holds already, and when it holds MostMirrored.
func (m *Mirror) Charge(number uint64, endpoint string, incarnation uint64, e Entry, at time.Time) bool {
	if known := m.held[number]; known != nil {
		known.round = m.round
		return false
	}
	if len(m.held) >= MostMirrored {
		return false
	}
	e.Foreign = true
	fresh := &mirrored{
		handle: m.ledger.Charge(endpoint, incarnation, e, at),
		of:     life{endpoint, incarnation}, entry: e, round: m.round,
	}
	m.held[number] = fresh
	if m.silent[fresh.of] == nil {
		m.silent[fresh.of] = make(map[uint64]*mirrored)
	}
	m.silent[fresh.of][number] = fresh
	return true
}

// spoke says that the request of a number is silent no more.
func (m *Mirror) spoke(number uint64, of life) {
	delete(m.silent[of], number)
	if len(m.silent[of]) == 0 {
		delete(m.silent, of)
	}
}

// Generated says how many tokens the request of a number has generated in all:
// the first of them moves it from prefill to decode. A count that is not above
// the one before changes nothing, nor does a number that is not held. first
// reports that none had been heard of before: a prefill has ended, of e.
func (m *Mirror) Generated(number uint64, tokens int, now time.Time) (e Entry, first bool) {
	known := m.held[number]
	if known == nil || tokens <= known.generated {
		return Entry{}, false
	}
	if first = known.generated == 0; first {
		m.ledger.FirstToken(known.handle, now)
		m.spoke(number, known.of)
	}
	m.ledger.Tokens(known.handle, tokens-known.generated, now)
	known.generated, known.entry.Chain = tokens, nil
	return known.entry, first
}

// Computing reports whether a request without a first token on that incarnation
// has a block in its prompt, depth blocks from the start: somebody may still be
// computing it there.
func (m *Mirror) Computing(endpoint string, incarnation uint64, block uint64, depth int) bool {
	for _, known := range m.silent[life{endpoint, incarnation}] { // in no order, which is no matter: any will do
		if depth < len(known.entry.Chain) && known.entry.Chain[depth] == block {
			return true
		}
	}
	return false
}

// Endpoint is where the request of a number is; empty when that is not held.
func (m *Mirror) Endpoint(number uint64) string {
	if known := m.held[number]; known != nil {
		return known.of.endpoint
	}
	return ""
}

// Longest is the most tokens that a prompt has of those without a first token on
// that incarnation; 0 when there are none.
func (m *Mirror) Longest(endpoint string, incarnation uint64) (tokens int) {
	for _, known := range m.silent[life{endpoint, incarnation}] { // in no order, which is no matter to the greatest
		tokens = max(tokens, known.entry.PromptTokens)
	}
	return tokens
}

// Settle ends the request of a number. It reports false when that is not held.
func (m *Mirror) Settle(number uint64) bool {
	known := m.held[number]
	if known == nil {
		return false
	}
	m.ledger.Settle(known.handle)
	delete(m.held, number)
	m.spoke(number, known.of)
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
	clear(m.silent)
	return ended
}
