package fit

import (
	"errors"
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Client says how the client of a closed loop made the engine look slower
// than it is to a request that arrives alone. It is no property of the engine.
type Client struct {
	Overhead feature.Seconds `json:"overhead"` // outside the engine: connection, tokenizer, first chunk
	Steps    float64         `json:"steps"`    // own prefill steps that pass until the first token; more than 1 when requests move in lockstep
	Burst    float64         `json:"burst"`    // share of all clients' prefill that a request waits for; a cold start of all at once leaves 1 in 2*rounds
}

// Steady is what was fitted to the steady states of one deployment.
type Steady struct {
	Coefficients     physics.Coefficients
	Client           Client
	KVCapacityTokens float64 // 0 when no row was short of cache
	Rows             int
	Saturated        int // rows whose queue says that the cache was full
}

const (
	// steadyRows is the least number of rows that can decide nine numbers.
	steadyRows = 6
	// queued is how many times longer than the fit a TTFT must be to be taken
	// for a queue before a full cache; no other row is that far off.
	queued = 2.0
	// dutyRounds is how often the fixed point of batch and latency is taken;
	// it settles to a part in a million within half of that.
	dutyRounds = 60
)

// SteadyStates fits the rows of one deployment, at least six.
//
// With n of N clients decoding on average, n = N*decode/(TTFT+decode), the
// engine's step model gives
//
//	TPOT = A + D*n + E*n*(prompt + output/2) + (n-1)/(output-1) * prefill
//	TTFT = overhead + steps*(step + prefill) + burst*N*prefill
//
// where prefill = B*prompt + C*prompt^2/2: while one request decodes, each of
// the others prefills once. Both are linear in the engine's five numbers when
// the client's three are given and the other way round, so they are fitted in
// turns. Where the cache cannot hold N requests, n is what it holds and the
// rest of TTFT is Little's law.
func SteadyStates(rows []measured.SteadyState) (Steady, error) {
	if len(rows) < steadyRows {
		return Steady{}, fmt.Errorf("%d steady states: want at least %d of one deployment", len(rows), steadyRows)
	}
	for _, r := range rows {
		if r.Deployment.Split {
			return Steady{}, errors.New("prefill and decode ran on different engines: no step model of one engine describes that")
		}
	}
	s := Steady{Rows: len(rows)}
	full := make([]bool, len(rows))
	s.Coefficients = s.engine(rows, full, false)
	for range 12 {
		s.Client = s.client(rows, full)
		for i, r := range rows {
			full[i] = float64(r.TTFT) > queued*s.unqueued(r, batch(r))
		}
		s.Coefficients = s.engine(rows, full, true)
	}
	s.Client = s.client(rows, full)
	s.capacity(rows, full)
	if err := s.Coefficients.Check(); err != nil {
		return s, fmt.Errorf("the rows do not describe an engine: %w", err)
	}
	return s, nil
}

// batch is how many sequences decoded on average, from the measured times.
func batch(r measured.SteadyState) float64 {
	decode := (r.OutputTokens - 1) * float64(r.TPOT)
	return r.Concurrency * decode / (float64(r.TTFT) + decode)
}

// interference is how many prefills of others pass for each of a request's
// output tokens.
func interference(r measured.SteadyState, n float64) float64 {
	return max(0, n-1) / (r.OutputTokens - 1)
}

// engine fits the coefficients, from TTFT too once there is a client.
func (s *Steady) engine(rows []measured.SteadyState, full []bool, withTTFT bool) physics.Coefficients {
	var equations []equation
	for i, r := range rows {
		n := batch(r)
		read := n * (r.PromptTokens + r.OutputTokens/2)
		least, most := prefill(r.PromptTokens, interference(r, n))
		equations = append(equations, equation{value: float64(r.TPOT), of: float64(r.TPOT), kind: ofTPOT, parts: []float64{1, least, most, n, read}})
		if !withTTFT || full[i] {
			continue
		}
		least, most = prefill(r.PromptTokens, s.Client.Steps+s.Client.Burst*r.Concurrency)
		equations = append(equations, equation{
			value: float64(r.TTFT - s.Client.Overhead), of: float64(r.TTFT), kind: ofTTFT,
			parts: []float64{s.Client.Steps, least, most, s.Client.Steps * n, s.Client.Steps * read},
		})
	}
	x := robust(equations, 5)
	return coefficients(x[0], x[1], x[2], x[3], x[4])
}

// client fits what the client adds.
func (s *Steady) client(rows []measured.SteadyState, full []bool) Client {
	var equations []equation
	for i, r := range rows {
		if full[i] {
			continue
		}
		step, work := s.parts(r, batch(r))
		equations = append(equations, equation{value: float64(r.TTFT), of: float64(r.TTFT), kind: ofTTFT, parts: []float64{1, step + work, r.Concurrency * work}})
	}
	x := robust(equations, 3)
	return Client{Overhead: feature.Seconds(x[0]), Steps: x[1], Burst: x[2]}
}

// parts is the step with n sequences decoding, and the prefill of one prompt.
func (s *Steady) parts(r measured.SteadyState, n float64) (step, work float64) {
	step = float64(s.Coefficients.Step(n, n*(r.PromptTokens+r.OutputTokens/2)))
	return step, float64(s.Coefficients.Work(r.PromptTokens, r.PromptTokens))
}

// unqueued is the TTFT of a row whose requests all fit.
func (s *Steady) unqueued(r measured.SteadyState, n float64) float64 {
	step, work := s.parts(r, n)
	return float64(s.Client.Overhead) + s.Client.Steps*(step+work) + s.Client.Burst*r.Concurrency*work
}

// capacity finds what the cache holds, from rows with a queue: the tokens they
// held on average. It must be the same for three of them or more, and no row
// without a queue may have held more: other things make queues too.
func (s *Steady) capacity(rows []measured.SteadyState, full []bool) {
	const same = 1.3 // most over least; a full cache recomputes, so not all is useful
	var held []float64
	most := 0.0
	for i, r := range rows {
		tokens := batch(r) * (r.PromptTokens + r.OutputTokens/2)
		if full[i] {
			held = append(held, tokens)
		} else {
			most = max(most, tokens)
		}
	}
	if len(held) < 3 || quantile(held, 1) > same*quantile(held, 0) {
		return
	}
	if middle := quantile(held, 0.5); middle >= most {
		s.KVCapacityTokens, s.Saturated = middle, len(held)
	}
}

// Full reports whether the cache is too small for all clients of a row, by the
// row's settings alone.
func (s *Steady) Full(r measured.SteadyState) bool {
	return s.KVCapacityTokens > 0 && r.Concurrency*(r.PromptTokens+r.OutputTokens/2) > s.KVCapacityTokens
}

// Predict is the TTFT and TPOT of a row, from its prompt, output and number of
// clients alone.
func (s *Steady) Predict(r measured.SteadyState) feature.Prior {
	most := r.Concurrency
	if s.Full(r) {
		most = max(1, s.KVCapacityTokens/(r.PromptTokens+r.OutputTokens/2))
	}
	n, ttft, tpot := most, 0.0, 0.0
	for range dutyRounds {
		step, work := s.parts(r, n)
		tpot = step + interference(r, n)*work
		decode := (r.OutputTokens - 1) * tpot
		ttft = s.unqueued(r, n)
		if most < r.Concurrency {
			ttft = max(ttft, decode*(r.Concurrency/most-1))
		}
		n += 0.5 * (min(most, r.Concurrency*decode/(ttft+decode)) - n)
	}
	return feature.Prior{TTFT: feature.Seconds(ttft), TPOT: feature.Seconds(math.Max(tpot, 0))}
}
