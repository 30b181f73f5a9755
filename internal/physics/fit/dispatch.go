package fit

import (
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Engine is what must be known of an engine to fit dispatches.
type Engine struct {
	KVCapacityTokens float64 // turns used shares into tokens
	MaxBatchedTokens float64 // token budget of one step
}

// Queue is how a line before the engine moves when the engine, full of
// sequences, admits one request for each that ends. A step model alone cannot
// know it: it depends on how long the outputs are.
type Queue struct {
	Token   feature.Seconds `json:"token"`   // for each prompt token ahead
	Request feature.Seconds `json:"request"` // for each request waiting
	Decode  feature.Seconds `json:"decode"`  // added to each output token: there is always somebody to prefill
}

// Dispatched is what was fitted to dispatches.
type Dispatched struct {
	Coefficients physics.Coefficients
	Engine       Engine
	Overhead     feature.Seconds // outside the engine
	Collision    feature.Seconds // for each request in flight: prefill that starts at the same time
	Queue        Queue
	Rows         int
	Queued       int // rows that found a queue
}

// dispatchRows is the least number of rows that can decide ten numbers.
const dispatchRows = 50

// The parameters of a dispatch.
const (
	perStep = iota
	perTokenLeast
	perTokenMost
	perSequence
	perContext
	overhead
	collision
	queuedToken
	queuedRequest
	queuedDecode
	dispatchWidth
)

// Dispatches fits requests to the load under which they were sent:
//
//	TTFT = overhead + steps*step + prefill ahead + own prefill + collision*n
//	TPOT = step with this request in the batch
//
// with n requests in the engine's batch. Where requests wait, the line moves by
// Queue. A collision is what a router cannot see: other requests that were sent
// at the same time. Rows of different load decide the coefficients; on an
// endpoint that never saw a batch, those of the batch are 0.
func Dispatches(rows []measured.Dispatch, e Engine) (Dispatched, error) {
	if !(e.KVCapacityTokens > 0) || !(e.MaxBatchedTokens > 0) {
		return Dispatched{}, fmt.Errorf("cache of %v tokens and step of %v tokens: want positive numbers", e.KVCapacityTokens, e.MaxBatchedTokens)
	}
	d := Dispatched{Engine: e, Rows: len(rows)}
	var equations []equation
	for _, r := range rows {
		ttft, tpot := d.parts(r)
		if r.TTFT > 0 {
			equations = append(equations, equation{value: float64(r.TTFT), of: float64(r.TTFT), kind: ofTTFT, parts: ttft})
		}
		if r.TPOT > 0 {
			equations = append(equations, equation{value: float64(r.TPOT), of: float64(r.TPOT), kind: ofTPOT, parts: tpot})
		}
		if r.Waiting > 0 {
			d.Queued++
		}
	}
	if len(equations) < dispatchRows {
		return d, fmt.Errorf("%d measured times: want at least %d", len(equations), dispatchRows)
	}
	d.set(robust(equations, dispatchWidth))
	if err := d.Coefficients.Check(); err != nil {
		return d, fmt.Errorf("the rows do not describe an engine: %w", err)
	}
	return d, nil
}

func (d *Dispatched) set(x []float64) {
	d.Coefficients = coefficients(x[perStep], x[perTokenLeast], x[perTokenMost], x[perSequence], x[perContext])
	d.Overhead, d.Collision = feature.Seconds(x[overhead]), feature.Seconds(x[collision])
	d.Queue = Queue{Token: feature.Seconds(x[queuedToken]), Request: feature.Seconds(x[queuedRequest]), Decode: feature.Seconds(x[queuedDecode])}
}

// parts are the two equations of a row. An unknown load counts as none.
func (d *Dispatched) parts(r measured.Dispatch) (ttft, tpot []float64) {
	n := max(0, known(r.InFlight)-known(r.Waiting))
	kv := known(r.KVUsed) * d.Engine.KVCapacityTokens
	uncached := r.UncachedTokens
	attended := uncached * (r.PromptTokens - uncached/2)
	ahead := known(r.PrefillTokens)
	queued := known(r.Waiting) > 0

	steps := math.Ceil(uncached / d.Engine.MaxBatchedTokens)
	if n > 0 {
		steps += 0.5 // half of the running step
	}
	ttft = make([]float64, dispatchWidth)
	ttft[overhead], ttft[collision] = 1, n
	ttft[perStep], ttft[perSequence], ttft[perContext] = steps, steps*n, steps*kv
	if queued {
		ttft[queuedToken], ttft[queuedRequest] = ahead, r.Waiting
	} else {
		uncached += ahead
	}
	ttft[perTokenLeast], ttft[perTokenMost] = chunk(uncached, attended, 1)

	tpot = make([]float64, dispatchWidth)
	tpot[perStep], tpot[perSequence], tpot[perContext] = 1, n+1, kv+r.PromptTokens+known(r.OutputTokens)/2
	if queued {
		tpot[queuedDecode] = 1
	}
	return ttft, tpot
}

// Predict is the TTFT and TPOT of a dispatch from the load it met.
func (d *Dispatched) Predict(r measured.Dispatch) feature.Prior {
	ttft, tpot := d.parts(r)
	c := d.Coefficients
	x := make([]float64, dispatchWidth)
	x[perStep], x[perSequence], x[perContext] = c.A, c.D, c.E
	x[overhead], x[collision] = float64(d.Overhead), float64(d.Collision)
	x[queuedToken], x[queuedRequest], x[queuedDecode] = float64(d.Queue.Token), float64(d.Queue.Request), float64(d.Queue.Decode)
	return feature.Prior{
		TTFT: feature.Seconds(dot(ttft, x) + work(c, ttft[perTokenLeast], ttft[perTokenMost])),
		TPOT: feature.Seconds(dot(tpot, x)),
	}
}

// CrossDispatches predicts every row from a fit without its block, one of five
// in file order. Groups: All, "queued" and "not queued".
func CrossDispatches(rows []measured.Dispatch, e Engine) (Errors, error) {
	var all Errors
	for k := range folds {
		train, test := split(rows, func(i int, _ measured.Dispatch) bool { return block(i, len(rows)) == k })
		if err := judgeDispatches(&all, train, test, e); err != nil {
			return all, fmt.Errorf("without fold %d: %w", k+1, err)
		}
	}
	return all, nil
}

// ForwardDispatches predicts the last fifth of the rows, in file order, from a
// fit to those before. Groups as CrossDispatches.
func ForwardDispatches(rows []measured.Dispatch, e Engine) (Errors, error) {
	var all Errors
	cut := len(rows) * (folds - 1) / folds
	err := judgeDispatches(&all, rows[:cut], rows[cut:], e)
	return all, err
}

func judgeDispatches(all *Errors, train, test []measured.Dispatch, e Engine) error {
	d, err := Dispatches(train, e)
	if err != nil {
		return err
	}
	for _, r := range test {
		group := "not queued"
		if r.Waiting > 0 {
			group = "queued"
		}
		all.Add(d.Predict(r), feature.Prior{TTFT: r.TTFT, TPOT: r.TPOT}, All, group)
	}
	return nil
}

// known turns an unknown number into 0.
func known(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}
