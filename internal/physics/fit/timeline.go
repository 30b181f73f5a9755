package fit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Timeline is what one engine served, with the times it noted.
type Timeline struct {
	requests []measured.Served
	ranks    float64
	budget   float64
	firsts   []feature.Seconds // when some request had its first token: ends of steps
	load     []moment          // ordered by time
}

// moment is what the engine did from a time until that of the next moment.
type moment struct {
	at       feature.Seconds
	decoding float64 // sequences
	context  float64 // tokens those read
	growth   float64 // of context, tokens/s
	prompt   float64 // prompt tokens/s that were computed
	attended float64 // context tokens those attended to, per second
}

// NewTimeline prepares the requests of an engine that steps up to that many
// tokens in each of its data-parallel ranks. What the engine did at a moment is
// reconstructed: a request's prefill is spread evenly over the step that ended
// with its first token, as far as the first tokens of others bound that step,
// its output evenly from there to the last, and requests evenly over ranks.
func NewTimeline(requests []measured.Served, maxBatchedTokens, ranks int) (*Timeline, error) {
	if maxBatchedTokens < 1 || ranks < 1 {
		return nil, fmt.Errorf("step of %d tokens on %d ranks: want positive numbers", maxBatchedTokens, ranks)
	}
	t := &Timeline{requests: slices.Clone(requests), ranks: float64(ranks), budget: float64(maxBatchedTokens)}
	slices.SortStableFunc(t.requests, func(a, b measured.Served) int { return cmp.Compare(a.Queued, b.Queued) })
	for _, r := range t.requests {
		t.firsts = append(t.firsts, r.FirstToken)
	}
	slices.Sort(t.firsts)
	t.firsts = slices.Compact(t.firsts)
	for _, r := range t.requests {
		from := r.Scheduled
		if i, _ := slices.BinarySearch(t.firsts, r.FirstToken); i > 0 {
			from = max(from, t.firsts[i-1])
		}
		if d := float64(r.FirstToken - from); d > 0 {
			rate := moment{at: from, prompt: r.PromptTokens / d, attended: r.PromptTokens * r.PromptTokens / 2 / d}
			t.load = append(t.load, rate, moment{at: r.FirstToken, prompt: -rate.prompt, attended: -rate.attended})
		}
		if d := float64(r.Decode()); d > 0 {
			growth := r.OutputTokens / d
			t.load = append(t.load,
				moment{at: r.FirstToken, decoding: 1, context: r.PromptTokens, growth: growth},
				moment{at: r.LastToken, decoding: -1, context: -r.PromptTokens - r.OutputTokens, growth: -growth})
		}
	}
	slices.SortStableFunc(t.load, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(t.load); i++ { // changes become sums
		m, before := &t.load[i], t.load[i-1]
		m.decoding += before.decoding
		m.context += before.context + before.growth*float64(m.at-before.at)
		m.growth += before.growth
		m.prompt += before.prompt
		m.attended += before.attended
	}
	return t, nil
}

// between is the mean over a span of what one rank did: sequences decoding and
// the context they read, and the sums of prompt tokens and of their context.
func (t *Timeline) between(from, to feature.Seconds) (decoding, context, prompt, attended float64) {
	i, _ := slices.BinarySearchFunc(t.load, from, func(m moment, at feature.Seconds) int { return cmp.Compare(m.at, at) })
	i = max(0, i-1)
	for ; i < len(t.load) && t.load[i].at < to; i++ {
		m := t.load[i]
		start, end := max(from, m.at), to
		if i+1 < len(t.load) {
			end = min(to, t.load[i+1].at)
		}
		d := float64(end - start)
		if d <= 0 {
			continue
		}
		decoding += d * m.decoding
		context += d * (m.context + m.growth*(float64(start-m.at)+d/2))
		prompt += d * m.prompt
		attended += d * m.attended
	}
	span := float64(to-from) * t.ranks
	return decoding / span, context / span, prompt / t.ranks, attended / t.ranks
}

// lag is how many steps before its own a request is noted as scheduled when the
// engine is at work: vLLM prepares the next step while one runs. Of 0, 0.5 and
// 1, one step describes all three runs of LLMServingSim best by far.
const lag = 1

// stepEnds is how many steps must have ended in (from, to], going by the first
// tokens of all requests.
func (t *Timeline) stepEnds(from, to feature.Seconds) float64 {
	const same = 1e-3 // a step that ends this soon after the schedule is the one before
	i, _ := slices.BinarySearch(t.firsts, from+same)
	j, _ := slices.BinarySearch(t.firsts, to)
	return max(1, float64(j-i+1))
}

// busy reports whether the engine was at work just before a time.
func (t *Timeline) busy(at feature.Seconds) bool {
	i, _ := slices.BinarySearchFunc(t.load, at, func(m moment, at feature.Seconds) int { return cmp.Compare(m.at, at) })
	return i > 0 && (t.load[i-1].decoding > 0.5 || t.load[i-1].prompt > 1e-6)
}

// equations are those of one request's prefill and decode, both in seconds, as
// far as they were measured.
//
//	prefill = steps*(A + D*n + E*kv) + B*tokens + C*context
//	decode  = (output-1)*(A + D*n + E*kv) + B*tokens + C*context
//
// with n, kv, tokens and context of all requests in the meantime.
func (t *Timeline) equations(r measured.Served) []equation {
	var out []equation
	add := func(kind int, from, to feature.Seconds, steps func(tokens float64) float64) {
		decoding, context, prompt, attended := t.between(from, to)
		n := steps(prompt)
		least, most := chunk(prompt, attended, 1)
		out = append(out, equation{value: float64(to - from), of: float64(to - from), kind: kind, parts: []float64{n, least, most, n * decoding, n * context}})
	}
	if r.Prefill() > 0 {
		add(ofTTFT, r.Scheduled, r.FirstToken, func(tokens float64) float64 {
			steps := max(math.Ceil(tokens/t.budget), t.stepEnds(r.Scheduled, r.FirstToken))
			if t.busy(r.Scheduled) {
				steps += lag
			}
			return steps
		})
	}
	if r.Decode() > 0 && r.OutputTokens > 1 {
		add(ofTPOT, r.FirstToken, r.LastToken, func(float64) float64 { return r.OutputTokens - 1 })
	}
	return out
}

// timelineRows is the least number of requests that can decide five numbers.
const timelineRows = 20

// Fit fits the coefficients.
func (t *Timeline) Fit() (physics.Coefficients, error) { return t.fit(t.requests) }

func (t *Timeline) fit(requests []measured.Served) (physics.Coefficients, error) {
	if len(requests) < timelineRows {
		return physics.Coefficients{}, fmt.Errorf("%d requests: want at least %d", len(requests), timelineRows)
	}
	var equations []equation
	for _, r := range requests {
		equations = append(equations, t.equations(r)...)
	}
	x := robust(equations, 5)
	c := coefficients(x[0], x[1], x[2], x[3], x[4])
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("the requests do not describe an engine: %w", err)
	}
	return c, nil
}

// predict is the value of an equation.
func predict(c physics.Coefficients, e equation) float64 {
	return e.parts[0]*c.A + work(c, e.parts[1], e.parts[2]) + e.parts[3]*c.D + e.parts[4]*c.E
}

// Speed is how many times as slow as the coefficients say the engine was in
// the prefills of its first requests, in the median.
func (t *Timeline) Speed(c physics.Coefficients, requests int) (float64, error) {
	var ratios []float64
	for _, r := range t.requests[:min(requests, len(t.requests))] {
		for _, e := range t.equations(r) {
			if guess := predict(c, e); e.kind == ofTTFT && guess > 0 {
				ratios = append(ratios, e.value/guess)
			}
		}
	}
	if len(ratios) == 0 {
		return 0, errors.New("no prefill was measured")
	}
	return quantile(ratios, 0.5), nil
}

// Judge predicts prefill (as TTFT: without the queue) and TPOT of every
// request, given what else the engine did in the meantime. Groups: All,
// "waited" and "did not wait" (for 10 ms in the queue).
func (t *Timeline) Judge(c physics.Coefficients) Errors {
	var all Errors
	t.judge(&all, c, t.requests)
	return all
}

func (t *Timeline) judge(all *Errors, c physics.Coefficients, requests []measured.Served) {
	const waited = 0.010
	for _, r := range requests {
		unknown := feature.Seconds(feature.Unknown)
		p, m := feature.Prior{TTFT: unknown, TPOT: unknown}, feature.Prior{TTFT: unknown, TPOT: unknown}
		for _, e := range t.equations(r) {
			guess := predict(c, e)
			if e.kind == ofTTFT {
				p.TTFT, m.TTFT = feature.Seconds(guess), feature.Seconds(e.value)
			} else {
				p.TPOT, m.TPOT = feature.Seconds(guess/(r.OutputTokens-1)), feature.Seconds(e.value/(r.OutputTokens-1))
			}
		}
		group := "did not wait"
		if r.Wait() > waited {
			group = "waited"
		}
		all.Add(p, m, All, group)
	}
}

// Cross predicts every request from a fit without its block, one of five in
// order of arrival. Groups as Judge.
func (t *Timeline) Cross() (Errors, error) {
	var all Errors
	for k := range folds {
		train, test := split(t.requests, func(i int, _ measured.Served) bool { return block(i, len(t.requests)) == k })
		c, err := t.fit(train)
		if err != nil {
			return all, fmt.Errorf("without fold %d: %w", k+1, err)
		}
		t.judge(&all, c, test)
	}
	return all, nil
}

// Held is the most tokens that the running requests held, an estimate of the
// cache from below, and the most requests that ran.
func (t *Timeline) Held() (tokens, sequences float64) {
	for _, m := range t.load {
		tokens, sequences = max(tokens, m.context/t.ranks), max(sequences, m.decoding/t.ranks)
	}
	return tokens, sequences
}
