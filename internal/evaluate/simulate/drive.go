package simulate

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// driven is what a simulated engine made of the requests of one endpoint, in
// their order: unknown of those that it did not take.
type driven struct{ ttft, tpot []float64 }

// drive gives a simulated engine the requests that its endpoint was sent, when it
// was sent them, after what its cache held before.
func (l *log) drive(of []int, before []warm, p physics.Profile, overhead time.Duration) (driven, error) {
	out := driven{make([]float64, len(of)), make([]float64, len(of))}
	for i := range of {
		out.ttft[i], out.tpot[i] = math.NaN(), math.NaN()
	}
	p.NoiseStdDev, p.BlockTokens = 0, blockTokens
	e, err := fleet.New(fleet.Config{Profile: p, Overhead: overhead})
	if err != nil {
		return out, err
	}
	var first time.Duration // when the log begins
	if len(before) > 0 {
		first = time.Hour
	}
	var ids []uint64
	sent := make([]time.Duration, len(of))
	began := make([]time.Duration, len(of))
	see := func(events []fleet.Event) {
		for k := range events {
			ev := &events[k]
			i := int(ev.Request.ID) - len(before)
			if i < 0 {
				continue
			}
			switch {
			case ev.Kind == fleet.Finished:
				if q := &l.requests[of[i]]; q.output > 1 {
					out.tpot[i] = (ev.At - began[i]).Seconds() / float64(q.output-1)
				}
			case ev.Generated == 1:
				began[i] = ev.At
				out.ttft[i] = (ev.At - sent[i]).Seconds()
			}
		}
	}
	submit := func(at time.Duration, id, request, prompt, output int) error {
		n := (prompt + output) / blockTokens
		ids = l.ids(ids[:0], request, n)
		chain := make([]uint64, n)
		h := uint64(0)
		for k, id := range ids {
			h = fleet.ExtendChain(h, id)
			chain[k] = h
		}
		full := prompt / blockTokens
		for next, ok := e.NextEvent(); ok && next <= at; next, ok = e.NextEvent() {
			see(e.Advance(next))
		}
		r := fleet.NewRequest(uint64(id), fleet.Prompt{Tokens: prompt, Chain: chain[:full:full]}, output, fleet.Output{Tokens: output, Chain: chain[full:]})
		if err := e.Submit(at, r); err != nil && !errors.Is(err, fleet.ErrTooLong) {
			return fmt.Errorf("replay request %d: %w", request, err)
		}
		return nil
	}
	for k, w := range before {
		if err := submit(first*time.Duration(k)/time.Duration(len(before)), k, w.request, w.blocks*blockTokens+1, 1); err != nil {
			return out, err
		}
	}
	for i, r := range of {
		q := &l.requests[r]
		sent[i] = first + seconds(q.at)
		if err := submit(sent[i], len(before)+i, r, q.prompt, q.output); err != nil {
			return out, err
		}
	}
	for next, ok := e.NextEvent(); ok; next, ok = e.NextEvent() {
		see(e.Advance(next))
	}
	return out, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
