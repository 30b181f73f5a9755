package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Lengths, in bytes, of the texts that tell how many tokens a byte makes and
// warm the engine up.
const (
	firstProbe  = 1 << 10
	secondProbe = 8 << 10
)

// probeOutput is how many tokens the answer to a probe has: more than one, so
// that a counter of tokens is told from one of requests.
const probeOutput = 2

// margin keeps prompts a little shorter than planned, so that what fills one
// step does not spill into a second one.
const margin = 0.99

// Run takes the measurements of a plan, in its order. It can be called once.
func (e *Endpoint) Run(ctx context.Context, p calibrate.Plan) (calibrate.Measurements, error) {
	var m calibrate.Measurements
	rng := rand.New(rand.NewPCG(e.config.Seed, 0))
	if err := e.learnTokens(ctx, rng); err != nil {
		return m, err
	}
	for range p.Repeats { // lengths take turns, so that a disturbance falls on all
		for _, size := range p.Sizes {
			s, err := e.prefill(ctx, rng, size)
			if err != nil {
				return m, fmt.Errorf("prefill of %d tokens: %w", size, err)
			}
			m.Prefills = append(m.Prefills, s)
		}
	}
	for range p.Rounds {
		for _, d := range p.Decodes {
			s, err := e.decode(ctx, rng, d)
			if err != nil {
				return m, fmt.Errorf("decode of %d sequences of %d tokens: %w", d.Sequences, d.PromptTokens, err)
			}
			m.Decodes = append(m.Decodes, s)
		}
	}
	return m, e.settle(ctx)
}

// learnTokens finds how many tokens a byte makes.
func (e *Endpoint) learnTokens(ctx context.Context, rng *rand.Rand) error {
	second := secondProbe
	if most := e.Engine.MaxModelTokens; most > 0 {
		second = min(second, 2*most) // bytes; few texts have more than half a token a byte
	}
	first := min(firstProbe, second/4)
	var tokens [2]int
	for i, n := range [...]int{first, second} {
		replies, err := e.group(ctx, "tokenizer", []string{calibrate.Text(rng, n)}, probeOutput)
		if err != nil {
			return err
		}
		tokens[i] = replies[0].prompt
	}
	if tokens[1] <= tokens[0] {
		return fmt.Errorf("usage.prompt_tokens is %d for %d bytes of text and %d for %d: it can't be right", tokens[0], first, tokens[1], second)
	}
	e.perByte = float64(tokens[1]-tokens[0]) / float64(second-first)
	e.template = max(0, float64(tokens[0])-e.perByte*float64(first))
	return e.learnCounter(ctx)
}

// text makes a prompt of about so many tokens, and hardly ever more.
func (e *Endpoint) text(rng *rand.Rand, tokens int) string {
	return calibrate.Text(rng, max(1, int((margin*float64(tokens)-e.template)/e.perByte)))
}

func (e *Endpoint) prefill(ctx context.Context, rng *rand.Rand, size int) (calibrate.Prefilled, error) {
	text := e.text(rng, size)
	replies, err := e.group(ctx, fmt.Sprintf("prefill of %d tokens", size), []string{text}, 1)
	if err != nil {
		return calibrate.Prefilled{}, err
	}
	r := &replies[0]
	return calibrate.Prefilled{
		Size: size, Bytes: len(text), PromptTokens: r.prompt, CachedTokens: min(r.cached, r.prompt-1),
		TTFT: feature.Seconds(r.marks[0].at.Sub(r.dispatched).Seconds()),
	}, nil
}

func (e *Endpoint) decode(ctx context.Context, rng *rand.Rand, d calibrate.Decode) (calibrate.Decoded, error) {
	texts := make([]string, d.Sequences)
	for i := range texts {
		texts[i] = e.text(rng, d.PromptTokens)
	}
	replies, err := e.group(ctx, fmt.Sprintf("decode of %d sequences of %d tokens", d.Sequences, d.PromptTokens), texts, d.OutputTokens)
	if err != nil {
		return calibrate.Decoded{}, err
	}
	s, err := together(replies)
	s.PromptTokens = d.PromptTokens
	return s, err
}

// group sends requests at once, while nobody else does, and returns when all
// have been answered.
func (e *Endpoint) group(ctx context.Context, what string, texts []string, output int) ([]reply, error) {
	expected := 0
	for _, text := range texts {
		expected += int(e.template+e.perByte*float64(len(text))) + output
	}
	if e.used+expected > e.config.MaxTokens {
		return nil, fmt.Errorf("%w: %d of %d are used, and this needs %d", ErrTokens, e.used, e.config.MaxTokens, expected)
	}
	if err := e.settle(ctx); err != nil {
		return nil, err
	}
	if e.config.Progress != nil {
		e.config.Progress(e.used, what)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching errgroup.Group
	if !e.config.Force {
		watching.Go(func() error { e.watch(ctx, len(texts), cancel); return nil })
	}
	replies := make([]reply, len(texts))
	sending, sendCtx := errgroup.WithContext(ctx)
	for i, text := range texts {
		sending.Go(func() (err error) {
			replies[i], err = e.send(sendCtx, text, output)
			return err
		})
	}
	err := sending.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause // rather than what the cancelled requests say
	}
	cancel(nil)
	_ = watching.Wait() // it says what it has to by its cause
	if err != nil {
		return nil, err
	}
	for i := range replies {
		e.used += replies[i].prompt + replies[i].output
		e.generated += replies[i].output
	}
	return replies, nil
}

// together measures the time in which all sequences of a batch decoded: from
// the first token of the last one to begin to the last token of the first one
// to end. No prompt of the batch was computed in between.
func together(replies []reply) (calibrate.Decoded, error) {
	var begin, end time.Time
	for i := range replies {
		marks := replies[i].marks
		if at := marks[0].at; at.After(begin) {
			begin = at
		}
		if at := marks[len(marks)-1].at; end.IsZero() || at.Before(end) {
			end = at
		}
	}
	d := calibrate.Decoded{Sequences: len(replies)}
	var tpots, perStep []float64
	for i := range replies {
		r := &replies[i]
		from := slices.IndexFunc(r.marks, func(m mark) bool { return !m.at.Before(begin) })
		to := len(r.marks) - 1
		for to > 0 && r.marks[to].at.After(end) {
			to--
		}
		if from < 0 || to <= from {
			return d, fmt.Errorf("%w: none", ErrSteps)
		}
		first, last := r.marks[from], r.marks[to]
		steps := last.events - first.events
		if i == 0 || steps < d.Steps {
			d.Steps = steps
		}
		tpots = append(tpots, last.at.Sub(first.at).Seconds()/(float64(steps)*r.perEvent()))
		perStep = append(perStep, r.perEvent())
		d.ContextTokens += float64(r.prompt) + float64(first.events+last.events)/2*r.perEvent()
	}
	if d.Steps < calibrate.LeastSteps {
		return d, fmt.Errorf("%w: %d, want %d", ErrSteps, d.Steps, calibrate.LeastSteps)
	}
	slices.Sort(tpots)
	slices.Sort(perStep)
	d.TPOT, d.TokensPerStep = feature.Seconds(tpots[len(tpots)/2]), perStep[len(perStep)/2]
	if !(d.TPOT > 0) {
		return d, errors.New("all tokens came at once: something between holds the answer back, so no time between tokens can be measured")
	}
	return d, nil
}
