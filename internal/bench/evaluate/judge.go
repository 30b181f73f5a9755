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
// it saw, of a switchback on the first part of it.
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
	base := runs{world: w, bundles: b, setting: &w.logged, seed: seed}
	if err := base.extend(ctx, repeats); err != nil {
		return nil, err
	}
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
		after := runs{world: w, bundles: b, setting: &to, seed: seed}
		if p.truth, err = truth(ctx, &base, &after, repeats); err != nil {
			return nil, err
		}
		s.sent += after.sent()
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
	for _, m := range base.all {
		for q := range quantities {
			s.logged[q] += m.log[q] / float64(len(base.all))
		}
	}
	s.failed = base.all[0].failed
	s.sent += base.sent()
	return s, nil
}
