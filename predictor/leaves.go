package predictor

import (
	"bufio"
	"bytes"
	"fmt"
	"math"

	"github.com/dmitryikh/leaves"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

// leavesForest is a forest as the leaves library reads it.
type leavesForest struct{ ensemble *leaves.Ensemble }

// leavesEvaluator evaluates b with the leaves library. The forests of b must
// have parsed before: leaves bounds nothing.
func leavesEvaluator(b *bundle.Bundle) (*bundle.Evaluator, error) {
	var forests [bundle.Targets]bundle.Forest
	for t, head := range b.Heads {
		f, err := readLeaves(head.Forest)
		if err != nil {
			return nil, fmt.Errorf("head %s: %w", bundle.Target(t), err)
		}
		forests[t] = f
	}
	return b.EvaluatorOf(forests)
}

func readLeaves(text []byte) (f leavesForest, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading a forest panicked: %v", p)
		}
	}()
	// leaves refuses version=v4, which it reads exactly under the name of v3.
	text = bytes.Replace(text, []byte("version=v4"), []byte("version=v3"), 1)
	f.ensemble, err = leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text)), false)
	return f, err
}

// PredictBatch implements bundle.Forest. It gives NaN, which is no forecast,
// should leaves refuse the shape.
func (f leavesForest) PredictBatch(rows []float64, n int, out []float64) {
	if err := f.ensemble.PredictDense(rows, n, feature.Width, out[:n], 0, 1); err != nil {
		for i := range n {
			out[i] = math.NaN()
		}
	}
}
