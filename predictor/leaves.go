package predictor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/dmitryikh/leaves"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
)

// leavesForest is a forest as the leaves library reads it.
type leavesForest struct{ ensemble *leaves.Ensemble }

// leavesEvaluator evaluates b with the leaves library alone.
func leavesEvaluator(b *bundle.Bundle) (*bundle.Evaluator, error) {
	var forests [bundle.Targets]bundle.Forest
	for t, head := range b.Heads {
		f, err := ReadLeaves(head.Forest)
		if err != nil {
			return nil, fmt.Errorf("head %s: %w", bundle.Target(t), err)
		}
		forests[t] = f
	}
	return b.EvaluatorOf(forests)
}

// ReadLeaves reads LightGBM text with the leaves library, as a bundle.Reader
// of what package forest does not evaluate. Only text that package forest
// finds sound comes before it: leaves bounds nothing, and other formats or
// kinds of trees it gets wrong or dies of.
func ReadLeaves(text []byte) (read bundle.Forest, err error) {
	if _, err := forest.Parse(text); err != nil && !errors.Is(err, forest.ErrUnsupported) {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			read, err = nil, fmt.Errorf("leaves panicked reading a forest: %v", p)
		}
	}()
	// leaves refuses version=v4, which it reads exactly under the name of v3.
	text = bytes.Replace(text, []byte("version=v4"), []byte("version=v3"), 1)
	ensemble, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text)), false)
	if err != nil {
		return nil, fmt.Errorf("leaves: %w", err)
	}
	return leavesForest{ensemble}, nil
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
