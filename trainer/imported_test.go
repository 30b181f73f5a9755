package trainer_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer"
)

// zeroForest adds nothing to the prior.
type zeroForest struct{}

func (zeroForest) PredictBatch(_ []float64, n int, out []float64) { clear(out[:n]) }

func zeros([]byte) (bundle.Forest, error) { return zeroForest{}, nil }

// importedBundle has categorical splits, which package forest does not
// evaluate.
func importedBundle(t *testing.T) []byte {
	t.Helper()
	f := bundle.Foreign{LLM: llm, Clip: 0.25, At: time.Now()}
	h := forest.Header{FeatureNames: feature.Names()}
	for range feature.Width {
		h.Ranges = append(h.Ranges, forest.Range{Min: 0.01, Max: 10})
	}
	made, err := forest.New(h, []forest.Tree{{Splits: []forest.Split{{Left: ^0, Right: ^1}}, Leaves: []forest.Leaf{{}, {}}}})
	if err != nil {
		t.Fatal(err)
	}
	text := made.Text()
	for _, c := range [][2]string{{"num_cat=0", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=1"}, {"decision_type=0", "decision_type=1"}} {
		text = bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1)
	}
	for target := range f.Forests {
		f.Forests[target] = text
	}
	b, err := bundle.Import(f, zeros)
	if err != nil {
		t.Fatal(err)
	}
	data, err := bundle.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// What only others evaluate competes when they are there.
func TestAnImportedBundleIsJudged(t *testing.T) {
	for _, others := range []bundle.Reader{nil, zeros} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{Store: &featurestoretest.Memory{}}
			lease, free, err := s.AcquireLease(t.Context(), "import", "test", time.Minute)
			if err != nil || !free {
				t.Fatal(free, err)
			}
			if _, _, err := s.PublishBundle(t.Context(), lease, featurestore.Bundle{LLM: llm, Bytes: importedBundle(t), Accepted: true, MaxAge: time.Hour}); err != nil {
				t.Fatal(err)
			}
			pass(20 * time.Minute)
			newWorld(t, 1).add(900, time.Now(), time.Second).write(t, s)
			c := small(t)
			c.Others = others
			r := once(t, c, s)
			want(t, r, trainer.Accepted)
			if judged := r.Verdict.VersusServed != nil; judged != (others != nil) {
				t.Errorf("the imported bundle was judged: %v, with others: %v", judged, others != nil)
			}
		})
	}
}
