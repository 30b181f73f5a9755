package main

import (
	"context"
	"fmt"

	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
)

// pair is a log's policy and a target: what the second would do instead of the
// first, as it is and as every instrument says.
type pair struct {
	world     *world
	target    target
	truth     truths
	estimates estimates
	overlap   overlap
	rows      int // of the log
}

// effect is the true one that an instrument is held against: that on the traffic
// it saw.
func (p *pair) effect(i instrument, q quantity) effect {
	if i == switchback {
		return p.truth.all[q]
	}
	return p.truth.log[q]
}

// study is a world with what came of it.
type study struct {
	world   *world
	pairs   []pair
	logged  [quantities]float64 // seconds
	failed  int                 // requests, in one run
	sent    int                 // requests, in all runs
	trusted bool                // the fitted fleet's own check
	why     string              // where it is not
}

// logStream and truthStream keep the noise of the log and of experiments from that
// of the runs that tell the truth.
const (
	logStream   = 1 << 20
	truthStream = 2 << 20
)

// judge runs a world under the log's policy and every target, writes its log, and
// asks all instruments.
func (w *world) judge(ctx context.Context, seed uint64, repeats int) (*study, error) {
	var b *bundles
	if w.learns() {
		var err error
		if b, err = w.learn(ctx, seed); err != nil {
			return nil, err
		}
	}
	s := &study{world: w}
	from := seeds{engines: seed, traffic: seed, run: seed + logStream}
	rows, err := w.log(ctx, b, from)
	if err != nil {
		return nil, err
	}
	base, err := w.repeat(ctx, b, &w.logged, seed, repeats)
	if err != nil {
		return nil, err
	}
	for _, m := range base {
		for q := range quantities {
			s.logged[q] += m.log[q] / float64(repeats)
		}
		s.sent += m.sent
	}
	s.failed = base[0].failed
	var served simulate.Forecaster
	if w.logged.says == forests {
		served = b.Evaluator
	}
	m, err := fit(ctx, rows, served, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	s.trusted, s.why = m.check.Trusted, m.check.Why()
	for _, t := range w.targets {
		p := pair{world: w, target: t, estimates: silent(), rows: len(rows)}
		to := t.of(w.logged)
		after, err := w.repeat(ctx, b, &to, seed, repeats)
		if err != nil {
			return nil, err
		}
		for _, m := range after {
			s.sent += m.sent
		}
		p.truth = truth(base, after)
		if p.overlap, err = oneRequest(rows, t.asked(b), seed, &p.estimates); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", w.name, t.name, err)
		}
		if err := m.ask(ctx, t.simulated(b), &p.estimates); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", w.name, t.name, err)
		}
		if err := w.experiments(ctx, b, &t, from, &p.estimates); err != nil {
			return nil, err
		}
		s.pairs = append(s.pairs, p)
	}
	return s, nil
}

// repeat runs a world with other noise each time, the same for every setting.
func (w *world) repeat(ctx context.Context, b *bundles, s *setting, seed uint64, repeats int) ([]means, error) {
	out := make([]means, repeats)
	for i := range out {
		var err error
		if out[i], err = w.run(ctx, b, s, seeds{engines: seed, traffic: seed, run: seed + truthStream + uint64(i)}, i < longRuns); err != nil {
			return nil, err
		}
	}
	return out, nil
}
