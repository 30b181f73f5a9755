package gbdt

import "math"

// stopper watches the loss on validation rows.
type stopper struct {
	opts    *Options
	columns []column // validation rows, binned as the training rows were
	score   []float64
	loss    float64 // least so far
	best    int     // trees that gave it
}

func newStopper(b *booster) *stopper {
	v := b.opts.Validation
	s := &stopper{opts: &b.opts, columns: make([]column, len(b.columns)), score: make([]float64, len(v.Y))}
	parallel(b.opts.Threads, len(s.columns), func(_, f int) {
		s.columns[f].bounds = b.columns[f].bounds
		s.columns[f].fill(v.X, len(s.columns), f)
	})
	for i := range s.score {
		s.score[i] = b.initial
	}
	s.loss = s.opts.loss(s.score, v.Y, v.Weights)
	return s
}

// worn takes the newest of trees trees into account and reports whether the
// last EarlyStoppingRounds brought nothing.
func (s *stopper) worn(t *grownTree, trees int) bool {
	for i := range s.score {
		s.score[i] += s.opts.LearningRate * t.leaves[t.walk(s.columns, i)].value
	}
	v := s.opts.Validation
	if loss := s.opts.loss(s.score, v.Y, v.Weights); loss < s.loss || math.IsNaN(s.loss) {
		s.loss, s.best = loss, trees
	}
	return trees-s.best >= s.opts.EarlyStoppingRounds
}
