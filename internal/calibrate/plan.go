package calibrate

import (
	"fmt"
	"slices"

	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// Engine is what is known of an engine's configuration before it is measured;
// 0 is not known.
type Engine struct {
	fit.Limits
	MaxModelTokens int // longest prompt and answer together
}

// Wish is what a user wants measured; what is zero is chosen for the engine.
type Wish struct {
	Sizes   []int // prompt lengths, in tokens
	Repeats int   // of each prompt length
	Batches []int // sequences that decode together
	Rounds  int   // of each batch
	Output  int   // tokens that each sequence of a batch generates
}

// Decode is one batch: sequences that start together and generate.
type Decode struct {
	Sequences    int
	PromptTokens int // of each sequence
	OutputTokens int // of each sequence
}

// Plan is what will be measured, in this order.
type Plan struct {
	Sizes   []int // prompt lengths, ascending
	Repeats int
	Decodes []Decode
	Rounds  int
}

const (
	defaultRepeats = 5 // the median of five forgives two disturbed ones
	defaultRounds  = 2
	defaultOutput  = 64
	shortContext   = 256  // prompt tokens of a batch that reads little,
	longContext    = 4096 // and of one that reads much: together they tell D from E

	mostCache = 0.8 // share of the KV cache that a batch may fill: no preemption
	warmUp    = 1 << 12
)

// shares of the token budget that are measured by default. Those above 1 take
// several steps and tell the cost of context from the cost of a token.
var shares = []float64{1. / 16, 1. / 8, 1. / 4, 1. / 2, 1, 2, 4}

// leastSizes and leastBatches decide the three numbers of prefill and the three
// of decoding.
const (
	leastSizes   = 3
	leastBatches = 2
	leastSize    = 64 // tokens; shorter prompts measure the front door
)

// NewPlan plans what can be measured of e, whose token budget and KV capacity
// must be known. The error begins with the part of the wish that can't be met:
// sizes, repeats, batches, rounds or output.
func NewPlan(e Engine, w Wish) (Plan, error) {
	p := Plan{Repeats: w.Repeats, Rounds: w.Rounds}
	if p.Repeats == 0 {
		p.Repeats = defaultRepeats
	}
	if p.Rounds == 0 {
		p.Rounds = defaultRounds
	}
	output := w.Output
	if output == 0 {
		output = defaultOutput
	}
	switch {
	case p.Repeats < 1:
		return Plan{}, fmt.Errorf("repeats: %d: want at least 1", p.Repeats)
	case p.Rounds < 1:
		return Plan{}, fmt.Errorf("rounds: %d: want at least 1", p.Rounds)
	case output < 2*LeastSteps:
		return Plan{}, fmt.Errorf("output: %d tokens: want at least %d, or no steps are left in which all sequences decode", output, 2*LeastSteps)
	}
	var err error
	if p.Sizes, err = sizes(e, w.Sizes); err != nil {
		return Plan{}, err
	}
	p.Decodes, err = decodes(e, w.Batches, output)
	return p, err
}

// longest is the longest prompt that leaves room for an answer.
func (e *Engine) longest(answer int) int {
	most := int(mostCache * float64(e.KVCapacityTokens))
	if e.MaxModelTokens > 0 {
		most = min(most, e.MaxModelTokens-answer)
	}
	return most
}

func sizes(e Engine, wanted []int) ([]int, error) {
	most := e.longest(1)
	var all []int
	for _, size := range wanted {
		if size < leastSize || size > most {
			return nil, fmt.Errorf("sizes: %d tokens: want %d to %d, what the engine takes", size, leastSize, most)
		}
		all = append(all, size)
	}
	if len(wanted) == 0 {
		for _, share := range shares {
			if size := int(share * float64(e.MaxBatchedTokens)); size >= leastSize && size <= most {
				all = append(all, size)
			}
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) < leastSizes {
		return nil, fmt.Errorf("sizes: %d prompt lengths: want at least %d, of %d to %d tokens", len(all), leastSizes, leastSize, most)
	}
	return all, nil
}

func decodes(e Engine, wanted []int, output int) ([]Decode, error) {
	batches := slices.Clone(wanted)
	if len(batches) == 0 {
		batches = []int{1, 8, 32}
	}
	slices.Sort(batches)
	batches = slices.Compact(batches)
	long := min(longContext, e.longest(output))
	short := min(shortContext, long/4)
	var all []Decode
	fitting := 0
	for _, n := range batches {
		if n < 1 || e.MaxNumSeqs > 0 && n > e.MaxNumSeqs {
			if len(wanted) > 0 {
				return nil, fmt.Errorf("batches: %d sequences: want 1 to %d, what the engine takes", n, e.MaxNumSeqs)
			}
			continue
		}
		fits := false
		for _, prompt := range []int{short, long} {
			if prompt < 1 || float64(n)*float64(prompt+output) > mostCache*float64(e.KVCapacityTokens) {
				continue
			}
			all = append(all, Decode{Sequences: n, PromptTokens: prompt, OutputTokens: output})
			fits = true
		}
		if !fits && len(wanted) > 0 {
			return nil, fmt.Errorf("batches: %d sequences of %d tokens don't fit into a KV cache of %d tokens", n, short+output, e.KVCapacityTokens)
		}
		if fits {
			fitting++
		}
	}
	if fitting < leastBatches {
		return nil, fmt.Errorf("batches: %d batch sizes: want at least %d that the engine takes", fitting, leastBatches)
	}
	return all, nil
}

// Tokens is how many tokens the plan sends and asks for: an upper bound.
func (p Plan) Tokens() int {
	n := warmUp
	for _, size := range p.Sizes {
		n += p.Repeats * (size + 1)
	}
	for _, d := range p.Decodes {
		n += p.Rounds * d.Sequences * (d.PromptTokens + d.OutputTokens)
	}
	return n
}
