package main

import (
	"context"
	"fmt"
	"sync/atomic"
)

// ablation is what a few numbers become without one mechanism. Name is "" for the
// world with all of them.
type ablation struct {
	Name string `json:"without"`
	Fact string `json:"fact,omitempty"`

	Gains      []float64 `json:"gains"` // by study
	ClearRight float64   `json:"clear_pairs_right"`
	GrossWrong int       `json:"gross_pairs_wrong"`

	Signs []float64 `json:"signs"` // as signs lists them
}

// sign is one number in which a mechanism shows.
type sign struct {
	says  string
	study int // index into studies
	arm   int
	load  float64
	of    reads
}

var signs = []sign{
	{"code-generation, k8s at 60: input tokens/s", 0, k8s, 60, func(c cell) float64 { return c.Input }},
	{"code-generation, weighted-blend at 60: input tokens/s", 0, blend, 60, func(c cell) float64 { return c.Input }},
	{"code-generation, token-load at 60: input tokens/s", 0, tokenLoad, 60, func(c cell) float64 { return c.Input }},
	{"code-generation, k8s at 60: success", 0, k8s, 60, func(c cell) float64 { return c.Success }},
	{"reasoning, k8s at 250: TTFT p90 s", 1, k8s, 250, ttft},
	{"reasoning, weighted-blend at 250: TTFT p90 s", 1, blend, 250, ttft},
	{"reasoning, weighted-blend at 350: success", 1, blend, 350, func(c cell) float64 { return c.Success }},
	{"reasoning, active-request at 350: TTFT p90 s", 1, activeRequest, 350, ttft},
	{"reasoning, active-request at 350: success", 1, activeRequest, 350, func(c cell) float64 { return c.Success }},
	{"b2b-saas, token-load at 20: TTFT p90 s", 2, tokenLoad, 20, ttft},
	{"b2b-saas, token-load at 40: input tokens/s", 2, tokenLoad, 40, func(c cell) float64 { return c.Input }},
	{"b2b-saas, token-load at 35: TPOT p90 ms", 2, tokenLoad, 35, func(c cell) float64 { return 1000 * c.TPOT }},
}

// in reads a sign from ladders by study.
func (s sign) in(ladders []ladder) float64 {
	l := ladders[s.study]
	for i, load := range l.loads {
		if load == s.load {
			return s.of(l.cells[s.arm][i])
		}
	}
	return nothing.TTFT
}

func newAblation(m mechanism, all []comparison) ablation {
	a := ablation{Name: m.Name, Fact: m.Fact}
	var clearly, grossly order
	var simulated []ladder
	for _, c := range all {
		a.Gains = append(a.Gains, c.study.gain(c.simulated, everywhere))
		simulated = append(simulated, c.simulated)
		for _, of := range []reads{ttft, c.study.throughput} {
			grossly = grossly.plus(c.grossOrder(of))
			if c.study.pairs {
				clearly = clearly.plus(c.clearOrder(of, 0))
			}
		}
	}
	a.ClearRight, a.GrossWrong = clearly.share(), grossly.all-grossly.right
	for _, s := range signs {
		a.Signs = append(a.Signs, s.in(simulated))
	}
	return a
}

// ablateAll simulates everything with all mechanisms and without each, on equal
// seeds.
func ablateAll(ctx context.Context, w world, all []comparison, seeds []uint64, requests *atomic.Int64, done func()) ([]ablation, error) {
	var rows []ablation
	for _, m := range append([]mechanism{{without: func(*world) {}}}, mechanisms...) {
		without := w
		m.without(&without)
		changed := make([]comparison, len(all))
		for i, c := range all {
			simulated, _, err := c.study.simulate(ctx, without, seeds, requests, done)
			if err != nil {
				return nil, fmt.Errorf("without %s: %w", m.Name, err)
			}
			changed[i] = c
			changed[i].simulated = simulated
		}
		rows = append(rows, newAblation(m, changed))
	}
	return rows, nil
}
