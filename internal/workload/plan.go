package workload

import (
	"iter"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
)

// Turn is one request of a session.
type Turn struct {
	PromptTokens int // at least 1: the whole prompt, with what went before
	OutputTokens int // at least 1

	// Blocks names the prompt's content, one id for each BlockTokens tokens,
	// the last perhaps for fewer: prompts that begin with the same ids share
	// that much of their text. Nil where nothing is shared.
	Blocks []uint64

	// Answered continues Blocks over the answer's tokens: it begins with the
	// same ids, of which the last may stand for more tokens here. It equals
	// Blocks where nobody knows what the answers are.
	Answered []uint64

	// BlockTokens is the tokens of one block, a multiple of 16; 0 without
	// Blocks.
	BlockTokens int

	// After is the pause before this turn, from the end of the one before it.
	After time.Duration

	// Anew says that the conversation begins again with this turn, which needs
	// no answer to the one before it.
	Anew bool
}

// Session is a conversation: turns of which each waits for the answer to the
// one before. A single request is a session of one turn.
type Session struct {
	Index int           // from 0, in the order of the plan
	At    time.Duration // when the first turn comes; 0 in a closed loop
	Class string        // kind of traffic, for metrics by class: "reasoning", "trace"
	Turns []Turn        // at least one; neither they nor their blocks may be changed
}

// Plan says which sessions come, and how.
type Plan struct {
	// Sessions yields the sessions in order, by time in an open loop. It may
	// be ranged over again and yields the same. It is endless where the Spec's
	// Duration is 0.
	Sessions iter.Seq[Session]

	// Concurrency is the number of clients of a closed loop: each takes the
	// next session when its own has ended. 0: an open loop, by Session.At.
	Concurrency int

	// Workers is how many processes send the requests; 0: nobody shares one.
	//
	// In a closed loop the sessions are then the clients', shared out to the
	// workers in turn. A worker takes the first turns of all its sessions, then
	// the second ones, and so on, and holds as many turns at a time as it has
	// sessions. A turn whose conversation still waits for an answer is held, not
	// sent: so a worker waits for its slowest conversation. That is how the
	// published load generator sends them.
	//
	// In an open loop the workers take the sessions in turn. Either way a
	// worker keeps the connections of its requests for the next ones; see
	// fleet.PerWorker.
	Workers int

	// Limit is the most requests to send; 0: all.
	Limit int

	// Warmup is how long the beginning does not count.
	Warmup time.Duration

	// Timeout is when a client gives up on a request.
	Timeout time.Duration

	// Ramp is over how long the clients of a closed loop begin, evenly; 0: all
	// at once, which is how published clients start.
	Ramp time.Duration

	// Stages are the parts of an open loop that are judged each by itself, by
	// the time of arrival; nil: the whole after Warmup.
	Stages []Stage
}

// Stage is a time with one load.
type Stage struct {
	Load     float64
	From, To time.Duration // To is excluded
}

// FromTrace replays a trace's requests at the trace's times divided by
// speedup, which must be above 0, each a session of one turn. Clients give up
// after 600 s.
func FromTrace(items []trace.Item, speedup float64) Plan {
	return Plan{
		Timeout: patience,
		Sessions: func(yield func(Session) bool) {
			turns := make([]Turn, len(items))
			for i, item := range items {
				turns[i] = Turn{
					PromptTokens: item.PromptTokens, OutputTokens: max(item.OutputTokens, 1),
					Blocks: item.Blocks, Answered: item.Blocks, BlockTokens: item.BlockTokens,
				}
				s := Session{Index: i, At: time.Duration(float64(item.At) / speedup), Class: "trace", Turns: turns[i : i+1 : i+1]}
				if !yield(s) {
					return
				}
			}
		},
	}
}
