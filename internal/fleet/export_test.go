package fleet

import (
	"context"
	"time"
)

// SimulateChecked is Simulate with all invariants verified after every act.
func SimulateChecked(ctx context.Context, config WorldConfig) (*Result, error) {
	w, stop, err := newWorld(config)
	if err != nil {
		return nil, err
	}
	defer stop()
	w.check = (*world).verify
	return w.run(ctx)
}

// Costs is where the time of a run went.
type Costs struct{ Outside, Viewing, Deciding time.Duration }

// SimulateTimed is Simulate by a clock.
func SimulateTimed(ctx context.Context, config WorldConfig, clock func() time.Duration) (*Result, Costs, error) {
	w, stop, err := newWorld(config)
	if err != nil {
		return nil, Costs{}, err
	}
	defer stop()
	var costs [3]time.Duration
	in, last := outside, clock()
	w.replicas[0].phase = func(p phase) {
		now := clock()
		costs[in] += now - last
		in, last = p, now
	}
	r, err := w.run(ctx)
	w.replicas[0].phase(outside)
	return r, Costs{costs[outside], costs[viewing], costs[deciding]}, err
}

// SimulateInFull is Simulate with every load described for every decision.
func SimulateInFull(ctx context.Context, config WorldConfig) (*Result, error) {
	w, stop, err := newWorld(config)
	if err != nil {
		return nil, err
	}
	defer stop()
	w.replicas[0].always = true
	return w.run(ctx)
}
