package main

import (
	"slices"
	"time"
)

// killEngine kills an engine that streams, and starts it again.
func (w *world) killEngine(p *phase) error {
	var victim *engine
	restarts, err := w.routers[0].counter(w.ctx, restartsMetric)
	if err != nil {
		return err
	}
	if err := w.until("an engine that streams through both doors", 20*time.Second, func() (bool, error) {
		i := slices.IndexFunc(w.engines[:engines], func(e *engine) bool { return w.crowd.Streaming(e.id()) })
		if i >= 0 {
			victim = w.engines[i]
		}
		return i >= 0, nil
	}); err != nil {
		return err
	}
	p.victim = victim.id()
	p.mark("failed", victim.process.Kill)
	if err := w.pause(3 * time.Second); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	if err := victim.start(w); err != nil {
		return err
	}
	if err := w.restarted(restarts, 1); err != nil {
		return err
	}
	return w.pause(2 * settle)
}

const (
	restartsMetric = "spillway_router_scrape_restarts_total"
	rejectedMetric = "spillway_router_endpoints_file_rejected_total"
)

// restarted waits until so many more lives of endpoints have begun.
func (w *world) restarted(before, more float64) error {
	return w.until("a new incarnation", 20*time.Second, func() (bool, error) {
		now, err := w.routers[0].counter(w.ctx, restartsMetric)
		return now >= before+more, err
	})
}

// churn takes an endpoint out of the file and brings another in; ends the first
// when nothing is left on it, and brings it back, another life at its address.
func (w *world) churn(p *phase) error {
	first := w.routers[0]
	goes, comes := w.engines[1], w.engines[engines]
	p.victim, p.newcomer = goes.id(), comes.id()
	restarts, err := first.counter(w.ctx, restartsMetric)
	if err != nil {
		return err
	}
	rejected, err := first.counter(w.ctx, rejectedMetric)
	if err != nil {
		return err
	}
	if err := comes.start(w); err != nil {
		return err
	}
	without := append(append([]*engine{}, w.engines[:1]...), w.engines[2:]...)
	p.marks["failed"] = time.Now()
	if err := w.list(without, "- {url: \"ftp://nowhere\"}\n"); err != nil {
		return err
	}
	if err := w.pause(4 * time.Second); err != nil { // the longest request takes 1 s
		return err
	}
	goes.process.Stop(5 * time.Second)
	if err := goes.start(w); err != nil {
		return err
	}
	p.marks["mended"] = time.Now()
	if err := w.list(w.engines, ""); err != nil {
		return err
	}
	if err := w.restarted(restarts, 1); err != nil {
		return err
	}
	if err := w.pause(2 * settle); err != nil {
		return err
	}
	now, err := first.counter(w.ctx, restartsMetric)
	if err != nil {
		return err
	}
	p.counts["restarts"] = now - restarts
	now, err = first.counter(w.ctx, rejectedMetric)
	p.counts["rejected"] = now - rejected
	return err
}
