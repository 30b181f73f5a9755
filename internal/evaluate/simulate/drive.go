package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// The parameters of an endpoint: the step model's coefficients, and what a request
// spends outside the engine.
const (
	perStep = iota
	perPrefill
	perAttended
	perDecoding
	perRead
	outside
	parameters
)

// work is what an engine computed while a request waited or was answered, and how
// often it was held outside: what the parameters stand before.
type work [parameters]float64

// workOf is what was computed between two moments.
func workOf(from, to fleet.Work) work {
	return work{
		to.Steps - from.Steps, to.Prefill - from.Prefill, to.Attended - from.Attended, to.Decoding - from.Decoding, to.Read - from.Read, 0,
	}
}

// driven is what a simulated engine made of one request.
type driven struct {
	first, answer  work // until its first token, and from then to its last
	began, ended   bool
	enters, firsts fleet.Work
}

// drive gives a simulated engine the requests that its endpoint was sent, when it
// was sent them, after what its cache held before.
func (l *log) drive(of []int, before []held, p physics.Profile) ([]driven, error) {
	out := make([]driven, len(of))
	overhead := p.Overhead.Duration()
	p.NoiseStdDev, p.BlockTokens, p.Overhead = 0, blockTokens, 0
	e, err := fleet.New(fleet.Config{Profile: p, Overhead: overhead})
	if err != nil {
		return nil, err
	}
	var ids, hashes []uint64
	for _, h := range before {
		ids = l.ids(ids[:0], h.request, h.blocks, false)
		hashes = chain(hashes[:0], ids)
		e.Hold(hashes)
	}
	var entering []int // those that have not joined the line, in order
	advance := func(at time.Duration) {
		for len(entering) > 0 {
			i := entering[0]
			enters := seconds(l.requests[of[i]].at) + overhead
			if enters > at {
				break
			}
			out[i].enters = e.Worked(enters)
			entering = entering[1:]
		}
		for _, ev := range e.Advance(at) {
			d := &out[ev.Request.ID]
			switch {
			case ev.Kind == fleet.Finished:
				d.answer, d.ended = workOf(d.firsts, e.Worked(at)), true
			case ev.Generated == 1:
				d.firsts, d.began = e.Worked(at), true
				d.first = workOf(d.enters, d.firsts)
				d.first[outside] = 1
			}
		}
	}
	for i, r := range of {
		q := &l.requests[r]
		at := seconds(q.at)
		for next, ok := e.NextEvent(); ok && next <= at; next, ok = e.NextEvent() {
			advance(next)
		}
		n, full := (q.prompt+q.output)/blockTokens, q.prompt/blockTokens
		ids = l.ids(ids[:0], r, n, false)
		hashes := chain(make([]uint64, 0, n), ids)
		err := e.Submit(at, fleet.NewRequest(uint64(i), fleet.Prompt{Tokens: q.prompt, Chain: hashes[:full:full]}, q.output, fleet.Output{Tokens: q.output, Chain: hashes[full:]}))
		switch {
		case err == nil:
			entering = append(entering, i)
		case !errors.Is(err, fleet.ErrTooLong):
			return nil, fmt.Errorf("replay request %d: %w", r, err)
		}
	}
	for next, ok := e.NextEvent(); ok; next, ok = e.NextEvent() {
		advance(next)
	}
	return out, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
