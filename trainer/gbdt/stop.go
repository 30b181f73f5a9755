package gbdt

import "math"

// stopper watches the loss on rows that are not trained on.
type stopper struct {
	crew   *crew
	opts   *Options
	binned *Binned
	labels Labels
	rows   []int32   // judged
	score  []float64 // of each of rows
	loss   float64   // least so far
	best   int       // trees that gave it
}

func newStopper(b *booster, binned *Binned, labels Labels, rows []int32) *stopper {
	s := &stopper{crew: b.crew, opts: &b.opts, binned: binned, labels: labels, rows: rows, score: make([]float64, len(rows))}
	if start := b.opts.Start; start != nil {
		predictRows(b.crew, start, binned, rows, func(k int, p float64) { s.score[k] = p })
	} else {
		for k := range s.score {
			s.score[k] = b.initial
		}
	}
	s.loss = s.opts.loss(s.crew, s.score, labels, rows)
	return s
}

// worn takes the newest of trees trees into account and reports whether the
// last EarlyStoppingRounds brought nothing.
func (s *stopper) worn(t *grownTree, trees int) bool {
	s.crew.each(blocks(len(s.rows)), func(_, i int) {
		begin, end := block(i, len(s.rows))
		for k := begin; k < end; k++ {
			s.score[k] += s.opts.LearningRate * t.leaves[t.walk(s.binned, int(s.rows[k]))].value
		}
	})
	if loss := s.opts.loss(s.crew, s.score, s.labels, s.rows); loss < s.loss || math.IsNaN(s.loss) {
		s.loss, s.best = loss, trees
	}
	return trees-s.best >= s.opts.EarlyStoppingRounds
}
