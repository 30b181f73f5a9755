package workload

import (
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// draws are the conversations of the published closed loops as their load
// generator drew them; published/draw.py, which made them, says how.
//
//go:embed published/draws.txt
var draws string

// retokenized is how many tokens an engine reads for each that was drawn: text
// of random tokens is not split the way it was put together. It is the median
// over the ten loads of code generation of the published median prompt (llm-d
// benchmark results, 73f3dbb, prompt_p50) over the one of the draws, which is
// 1.022 to 1.061.
const retokenized = 1.047

// words are the lengths of one published conversation.
type words struct {
	system int // tokens of its own system prompt
	turns  []exchange
}

// loadKey names a load of a workload.
type loadKey struct {
	workload string
	clients  int
}

// conversations reads draws, once.
var conversations = sync.OnceValues(func() (map[loadKey][]words, error) {
	all := map[loadKey][]words{}
	for i, line := range strings.Split(strings.TrimSpace(draws), "\n") {
		key, w, err := readWords(line)
		if err != nil {
			return nil, fmt.Errorf("published draws, line %d: %w", i+1, err)
		}
		all[key] = append(all[key], w)
	}
	return all, nil
})

// readWords reads a line of draws.
func readWords(line string) (loadKey, words, error) {
	var key loadKey
	var w words
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return key, w, fmt.Errorf("%d fields: want workload, clients, system prompt and turns", len(fields))
	}
	key.workload = fields[0]
	if _, err := fmt.Sscan(fields[1]+" "+fields[2], &key.clients, &w.system); err != nil {
		return key, w, fmt.Errorf("clients %q, system prompt %q: %w", fields[1], fields[2], err)
	}
	for _, turn := range fields[3:] {
		var e exchange
		if _, err := fmt.Sscanf(turn, "%d+%d", &e.input, &e.output); err != nil {
			return key, w, fmt.Errorf("turn %q: %w", turn, err)
		}
		w.turns = append(w.turns, e)
	}
	return key, w, nil
}

// longer is how many tokens an engine reads for as many drawn.
func longer(tokens int) int { return int(math.Round(retokenized * float64(tokens))) }

// Published plans the workload with the lengths that the published runs sent.
//
// A closed loop has the conversations of their load generator's draws, whose
// seed was the number of clients; the seed here names the text and decides
// nothing else. b2b-saas is Climb, whatever the load, with prompts as long as
// engines read them. The error lists the loads there are.
func (s Spec) Published(seed uint64, load float64) (Plan, error) {
	k := *s.regimes[0].blend[0].kind
	if s.staged {
		k.system = longer(k.system)
		k.context, k.input = k.context.longer(), k.input.longer()
		s.regimes = steady(only(&k))
		return s.Climb(seed), nil
	}
	all, err := conversations()
	if err != nil {
		return Plan{}, err
	}
	said := all[loadKey{s.Name, int(load)}]
	if float64(int(load)) != load || len(said) == 0 {
		return Plan{}, fmt.Errorf("%s at %g: not published; b2b-saas is, code-generation at 10 to 100 clients in steps of 10, reasoning at 50 to 450 in steps of 100", s.Name, load)
	}
	plan := s.loop(len(said))
	plan.Sessions = func(yield func(Session) bool) {
		speak := newSpeaker(&k, seed)
		for i, w := range said {
			sc := script{key: splitmix.Mix(speak.name, 'o', uint64(i)), context: longer(k.system+w.system) - k.system}
			for _, e := range w.turns {
				sc.turns = append(sc.turns, exchange{input: longer(e.input), output: e.output})
			}
			if !yield(Session{Index: i, Class: k.name, Turns: speak.replay(sc, s.Rounds)}) {
				return
			}
		}
	}
	return plan, nil
}

// longer is l as an engine reads it.
func (l lengths) longer() lengths {
	draw := l.draw
	l.least, l.most, l.mean = retokenized*l.least, retokenized*l.most, retokenized*l.mean
	if draw != nil {
		l.draw = func(r *rand.Rand) float64 { return retokenized * draw(r) }
	}
	return l
}
