package fleet

import "context"

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
