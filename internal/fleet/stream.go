package fleet

import (
	"time"

	"github.com/spillway-llm/spillway/router/ledger"
)

// stream is what each event of an answer changes. It stands apart from the
// rest of its call, side by side with the other streams of its endpoint: there
// are many events, and what they touch should stay in the processor's cache.
type stream struct {
	call       *call         // nil: nobody's
	handle     ledger.Handle // the call's
	generated  int32         // tokens
	events     int32
	pending    int32         // tokens not yet told the ledger
	shared     int32         // tokens that other routers were told of
	last, told time.Duration // when the last event came, and when the ledger was told
}

// streams are those of one endpoint. A stream keeps its number while it lives.
type streams struct {
	all    []stream
	unused []int32
}

func (s *streams) open() int { return len(s.all) - len(s.unused) }

// add begins the stream of a call and returns its number.
func (s *streams) add(c *call, handle ledger.Handle) int32 {
	if n := len(s.unused); n > 0 {
		i := s.unused[n-1]
		s.unused = s.unused[:n-1]
		s.all[i] = stream{call: c, handle: handle}
		return i
	}
	s.all = append(s.all, stream{call: c, handle: handle})
	return int32(len(s.all) - 1)
}

func (s *streams) remove(i int32) {
	s.all[i] = stream{}
	s.unused = append(s.unused, i)
}
