package gbdt

import "math"

// stopper watches the loss on rows that are not trained on.
type stopper struct {
	opts   *Options
	binned *Binned
	labels Labels
	rows   []int32   // judged
	score  []float64 // of each of rows
	loss   float64   // least so far
	best   int       // trees that gave it
}

func newStopper(opts *Options, binned *Binned, labels Labels, rows []int32, initial float64) *stopper {
	s := &stopper{opts: opts, binned: binned, labels: labels, rows: rows, score: make([]float64, len(rows))}
	if opts.Start != nil {
		predictRows(opts, binned, rows, func(k int, p float64) { s.score[k] = p })
	} else {
		for k := range s.score {
			s.score[k] = initial
		}
	}
	s.loss = opts.loss(s.score, labels, rows)
	return s
}

// worn takes the newest of trees trees into account and reports whether the
// last EarlyStoppingRounds brought nothing.
func (s *stopper) worn(t *grownTree, trees int) bool {
	parts := cutEvery(len(s.rows), lossRows)
	parallel(s.opts.Threads, len(parts)-1, func(_, i int) {
		for k := parts[i]; k < parts[i+1]; k++ {
			s.score[k] += s.opts.LearningRate * t.leaves[t.walk(s.binned, int(s.rows[k]))].value
		}
	})
	if loss := s.opts.loss(s.score, s.labels, s.rows); loss < s.loss || math.IsNaN(s.loss) {
		s.loss, s.best = loss, trees
	}
	return trees-s.best >= s.opts.EarlyStoppingRounds
}
