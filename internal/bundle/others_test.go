package bundle_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
)

// categorical is a head that package forest finds sound and leaves to others:
// its only split sends completions of 1 left.
func categorical(t *testing.T) []byte {
	t.Helper()
	text := forestOf(t, stump{feature.Index("completions"), 0, -0.1, 0.1}).Text()
	for _, c := range [][2]string{{"num_cat=0", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=2"}, {"decision_type=10", "decision_type=1"}} {
		if !bytes.Contains(text, []byte(c[0])) {
			t.Fatalf("no %q in\n%s", c[0], text)
		}
		text = bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1)
	}
	if _, err := forest.Parse(text); !errors.Is(err, forest.ErrUnsupported) {
		t.Fatalf("%v, want ErrUnsupported", err)
	}
	return text
}

// oneForest gives the same of every row.
type oneForest float64

func (f oneForest) PredictBatch(_ []float64, n int, out []float64) {
	for i := range n {
		out[i] = float64(f)
	}
}

func TestOthersServeWhatForestDoesNot(t *testing.T) {
	examples := vectorsOf(7, 200)
	draft := draftOf(t, examples)
	text := categorical(t)
	draft.Heads[bundle.TPOTP50].Forest = text
	if _, err := bundle.New(draft, examples); !errors.Is(err, forest.ErrUnsupported) {
		t.Fatalf("New without others: %v", err)
	}
	var read [][]byte
	others := func(text []byte) (bundle.Forest, error) {
		read = append(read, text)
		return oneForest(-0.07), nil
	}
	b, err := bundle.NewWith(draft, examples, others)
	if err != nil {
		t.Fatal(err)
	}
	data, err := bundle.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = bundle.Decode(data); err != nil {
		t.Fatal(err)
	}
	e, err := b.EvaluatorWith(others)
	if err != nil {
		t.Fatal(err)
	}
	if len(read) == 0 || slices.ContainsFunc(read, func(r []byte) bool { return !bytes.Equal(r, text) }) {
		t.Errorf("others read %d texts, want the categorical one alone", len(read))
	}
	out := make([]feature.Forecast, 1)
	if e.Evaluate(examples[:1], out); out[0].Residual.TPOT.P50 != -0.07 {
		t.Errorf("forecast %+v, want a TPOT residual of -0.07", out[0])
	}
	if _, err := b.Evaluator(); !errors.Is(err, forest.ErrUnsupported) {
		t.Errorf("Evaluator: %v, want ErrUnsupported", err)
	}
	if _, err := b.EvaluatorWith(func([]byte) (bundle.Forest, error) { return oneForest(0), nil }); err == nil || !strings.Contains(err.Error(), "known answer") {
		t.Errorf("others that disagree with the known answers: %v", err)
	}
	broken := errors.New("broken")
	if _, err := b.EvaluatorWith(func([]byte) (bundle.Forest, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("others that fail: %v", err)
	}
	// What nobody should serve is not handed to others either.
	b.Heads[bundle.TPOTP50].Forest = append(bytes.Clone(text), "\n[linear_tree: 1]\n"...)
	read = nil
	if _, err := b.EvaluatorWith(others); err == nil || errors.Is(err, forest.ErrUnsupported) || read != nil {
		t.Errorf("linear trees: %v, read %d times", err, len(read))
	}
	b.Heads[bundle.TPOTP50].Forest = bytes.Replace(text, []byte("kv_used"), []byte("kv_usage"), 1)
	if _, err := b.EvaluatorWith(others); err == nil || !strings.Contains(err.Error(), `"kv_usage", want kv_used`) {
		t.Errorf("another column: %v", err)
	}
}
