package ledger

import (
	"math"
	"math/bits"
)

// sharing finds out which tokens of the prompts in flight are held once by the
// engine however many of them begin with it. A prompt is cut at a few of its
// blocks, and the stretches between them that are alike count once.
//
// The cuts lie at 1 to 16 blocks, and from there at each eighth of a power of two:
// shared text is found to eight ninths of its length at least, with eight look-ups
// for each doubling of it. Where it was found to two thirds, a fleet whose tenants
// have 6,000 tokens in common each was believed to hold nearly twice what it held.
type sharing struct {
	held   map[uint64]stretch // by the hash of the last block, which stands for all before it
	shared int64              // tokens that all but the first to hold a stretch have in it
}

// stretch is a piece of a prompt.
type stretch struct {
	holders int64
	tokens  int64
}

// hold adds a prompt and returns, in marks, the stretches to let go of later.
func (s *sharing) hold(chain []uint64, prompt int64, marks []uint64) []uint64 {
	marks = marks[:0]
	if len(chain) == 0 {
		return marks
	}
	if s.held == nil {
		s.held = make(map[uint64]stretch)
	}
	tokens := float64(prompt) / float64(len(chain)) // of a block
	from := 0
	for at := 1; at <= len(chain); at = nextCut(at) {
		hash := chain[at-1]
		piece, known := s.held[hash]
		if known {
			s.shared += piece.tokens
		} else {
			piece.tokens = int64(math.Round(tokens*float64(at))) - int64(math.Round(tokens*float64(from)))
		}
		piece.holders++
		s.held[hash] = piece
		marks = append(marks, hash)
		from = at
	}
	return marks
}

// letGo takes a prompt out again.
func (s *sharing) letGo(marks []uint64) {
	for _, hash := range marks {
		piece := s.held[hash]
		if piece.holders--; piece.holders == 0 {
			delete(s.held, hash)
			continue
		}
		s.shared -= piece.tokens
		s.held[hash] = piece
	}
}

// nextCut is the block to cut at after another.
func nextCut(at int) int {
	power := 1 << (bits.Len(uint(at)) - 1)
	return at + max(1, power/8)
}
