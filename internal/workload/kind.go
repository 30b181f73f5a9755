package workload

import (
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// maxLength bounds prompt and output together, in tokens: the published
// max-model-len.
const maxLength = 131_072

// kind is one kind of traffic. Lengths are in tokens.
type kind struct {
	name  string
	block int // tokens of a block: chosen so that shared text ends with a block, or nearly

	system  int     // text that all sessions begin with
	context lengths // text behind it: a group's, or the session's own
	groups  int     // number of contexts that sessions share; 0: each has its own
	popular popularity

	// questions to each group, of which a session asks one, all in a shuffled
	// round; 0: no question comes twice.
	questions int

	turns         lengths
	input, output lengths // of one turn
	think         time.Duration
}

// speaker makes the sessions of one kind and seed.
type speaker struct {
	*kind
	name  uint64 // of the kind and the seed; shared text is named after it
	round []int  // shuffled questions
}

func newSpeaker(k *kind, seed uint64) *speaker {
	s := &speaker{kind: k, name: seed}
	for _, letter := range []byte(k.name) {
		s.name = splitmix.Mix(s.name, uint64(letter))
	}
	if k.questions > 0 {
		s.round = stream(splitmix.Mix(s.name, 'p')).Perm(k.groups * k.questions)
	}
	return s
}

// script is what a session would say, drawn from its own stream.
type script struct {
	key     uint64 // the text that is the session's own is named after it
	group   int
	context int // tokens
	turns   []exchange
}

type exchange struct {
	input, output int // tokens
	think         time.Duration
}

// script draws the words of session i.
func (s *speaker) script(i int) script {
	own := splitmix.Mix(s.name, 'o', uint64(i))
	rng := stream(own)
	sc := script{key: own, turns: make([]exchange, max(s.turns.sample(rng), 1))}
	sc.context = s.context.sample(rng)
	switch {
	case s.round != nil:
		question := s.round[i%len(s.round)]
		sc.group = question / s.questions
		sc.key = splitmix.Mix(s.name, 'q', uint64(question))
	case s.groups > 0:
		sc.group = s.popular.sample(rng)
	}
	for t := range sc.turns {
		e := &sc.turns[t]
		e.input, e.output = max(s.input.sample(rng), 1), max(s.output.sample(rng), 1)
		if t > 0 && s.think > 0 {
			e.think = time.Duration(rng.ExpFloat64() * float64(s.think))
		}
	}
	return sc
}

// perform plays a script. The take tells apart answers to the same words.
// Every answer becomes part of the next prompt; a conversation ends early when
// it has no room.
func (s *speaker) perform(sc script, take uint64) []Turn {
	turns := make([]Turn, 0, len(sc.turns))
	length := s.system + sc.context
	first := 0 // tokens of the first prompt
	for _, e := range sc.turns {
		output := min(e.output, maxLength-1)
		if len(turns) > 0 && length+e.input+output > maxLength {
			break
		}
		prompt := min(length+e.input, maxLength-output)
		if len(turns) == 0 {
			first = prompt
		}
		turns = append(turns, Turn{PromptTokens: prompt, OutputTokens: output, BlockTokens: s.block, After: e.think})
		length = prompt + output
	}
	blocks := func(tokens int) int { return (tokens + s.block - 1) / s.block }
	ids := s.text(sc, take, first, blocks(length))
	for t := range turns {
		turn := &turns[t]
		n, m := blocks(turn.PromptTokens), blocks(turn.PromptTokens+turn.OutputTokens)
		turn.Blocks, turn.Answered = ids[:n:n], ids[:m:m]
	}
	return turns
}

// text names the blocks of a performance: those of the system text and of a
// group after these, those of the first prompt after the script, all behind
// it, from the block on in which the first answer begins, after the take.
func (s *speaker) text(sc script, take uint64, first, blocks int) []uint64 {
	system, group := s.system/s.block, 0
	if s.groups > 0 {
		group = (s.system + sc.context) / s.block
	}
	asked, answer := first/s.block, splitmix.Mix(sc.key, 'a', take)
	ids := make([]uint64, blocks)
	for i := range ids {
		switch at := uint64(i); {
		case i < system:
			ids[i] = splitmix.Mix(s.name, 's', at)
		case i < group:
			ids[i] = splitmix.Mix(s.name, 'g', uint64(sc.group), at)
		case i < asked:
			ids[i] = splitmix.Mix(sc.key, at)
		default:
			ids[i] = splitmix.Mix(answer, at)
		}
	}
	return ids
}

// session is session i, said once.
func (s *speaker) session(i int) []Turn { return s.perform(s.script(i), uint64(i)) }

// replay is the first requests of a client that says a script again and again.
func (s *speaker) replay(sc script, requests int) []Turn {
	var turns []Turn
	for take := uint64(0); len(turns) < requests; take++ {
		more := s.perform(sc, take)
		more[0].Anew = take > 0
		turns = append(turns, more...)
	}
	return turns[:requests]
}

// blend is kinds by share of sessions.
type blend []portion

type portion struct {
	kind  *kind
	share float64
}

func only(k *kind) blend { return blend{{k, 1}} }

// turns is the mean number of requests of a session.
func (b blend) turns() float64 {
	var turns, shares float64
	for _, p := range b {
		turns += p.share * max(p.kind.turns.mean, 1)
		shares += p.share
	}
	return turns / shares
}

func (b blend) pick(r *rand.Rand) *kind {
	if len(b) == 1 {
		return b[0].kind
	}
	sum := 0.0
	for _, p := range b {
		sum += p.share
	}
	u := r.Float64() * sum
	for _, p := range b {
		if u -= p.share; u < 0 {
			return p.kind
		}
	}
	return b[len(b)-1].kind
}
