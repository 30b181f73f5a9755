package prefix

// MostAnswers is how many answers Answers remembers, the newest ones: those of
// as many conversations that go on.
const MostAnswers = 1 << 14

// Answers expects what an engine holds of a prompt behind its last known block.
// An engine caches what it generates too, and the next turn of a conversation
// begins with the prompt before it and the answer to that. The index knows the
// prompt alone: what the answer is worth, in tokens, is remembered here under
// the prompt's last block.
//
// Not every answer comes back: clients leave out what an LLM thought, templates
// write it in another way, and engines evict. The share that engines were found
// to hold is learned from what they report; until one reports, nothing is
// expected. It needs the lock of the Index. The zero value remembers nothing.
type Answers struct {
	tokens map[answered]float32
	oldest []answered // in the order they were given, from next on
	next   int

	share, seen float64
}

// answered is where a prompt was answered.
type answered struct {
	last uint64 // hash of its last full block
	slot int
}

// What of an answer is found is averaged over about the last answerMemory of
// them, and counts from the first, beside answerDoubt that were not found.
const (
	answerMemory = 50
	answerDoubt  = 2
)

// Ended says that the endpoint of a slot has answered a prompt whose last block
// has that hash: so many tokens follow that block, those of the prompt itself
// that fill no block among them. Prompts of which others may have the last block
// too must not be told.
func (a *Answers) Ended(slot int, last uint64, tokens float64) {
	if !(tokens > 0) {
		return
	}
	if a.tokens == nil {
		a.tokens = make(map[answered]float32)
	}
	key := answered{last, slot}
	if _, known := a.tokens[key]; !known {
		if len(a.oldest) < MostAnswers {
			a.oldest = append(a.oldest, key)
		} else {
			delete(a.tokens, a.oldest[a.next])
			a.oldest[a.next] = key
			a.next = (a.next + 1) % MostAnswers
		}
	}
	a.tokens[key] = float32(tokens)
}

// After is how many tokens of a prompt may follow, at the endpoint of a slot,
// its last known block: those of an answer, and no more than the rest of it.
func (a *Answers) After(slot int, last uint64, rest float64) float64 {
	return max(0, min(float64(a.tokens[answered{last, slot}]), rest))
}

// Share is how much of what may follow is there, from 0 to 1.
func (a *Answers) Share() float64 { return a.share }

// Found says that of so many tokens that might follow, an engine had cached so
// many.
func (a *Answers) Found(may, cached float64) {
	if !(may > 0) || !(cached >= 0) {
		return
	}
	if a.seen == 0 {
		a.seen = answerDoubt
	}
	a.seen = min(a.seen+1, answerMemory)
	a.share += (min(cached/may, 1) - a.share) / a.seen
}
