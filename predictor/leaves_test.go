package predictor_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/predictor"
)

// replaced is text with one more of the changes, which must each find its
// place once.
func replaced(t *testing.T, text []byte, changes ...string) []byte {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !bytes.Contains(text, []byte(changes[i])) {
			t.Fatalf("no %q in\n%s", changes[i], text)
		}
		text = bytes.Replace(text, []byte(changes[i]), []byte(changes[i+1]), 1)
	}
	return text
}

// A head with categories can't be evaluated flat, and is served all the same:
// of the kv_used 0, 1 and 2 only 0 goes left.
func TestServesWhatOnlyLeavesEvaluates(t *testing.T) {
	b := *bundleOf(t, 0.1)
	text := replaced(t, b.Heads[bundle.TTFTP50].Forest,
		"version=v3", "version=v4", "num_cat=0", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=1", "decision_type=8", "decision_type=1", "threshold=0.5", "threshold=0")
	if _, err := forest.Parse(text); !errors.Is(err, forest.ErrUnsupported) {
		t.Fatalf("%v, want ErrUnsupported", err)
	}
	b.Heads[bundle.TTFTP50].Forest = text
	vectors := vectorsOf(9, 64)
	for i := range vectors {
		vectors[i][feature.Index("kv_used")] = float32(i % 3)
	}
	b.Support = bundle.SupportOf(vectors)
	made, err := bundle.NewWith(b, vectors, predictor.ReadLeaves)
	if err != nil {
		t.Fatal(err)
	}
	for _, evaluator := range []predictor.Evaluator{predictor.Flat, predictor.Leaves} {
		from := newShelf()
		s := predictor.New(predictor.Config{Evaluator: evaluator, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Registerer: prometheus.NewRegistry()}, from)
		from.publish(1, encoded(t, made))
		s.Sync(t.Context())
		out := make([]feature.Forecast, len(vectors))
		if _, err := predictor.InProcess(s).Forecast(t.Context(), llm, vectors, out); err != nil {
			t.Fatalf("%s: %v", evaluator, err)
		}
		for i, f := range out {
			want := 0.2 // what category 0 is not
			if i%3 == 0 {
				want = 0.1
			}
			if vectors[i][feature.ColumnPromptTokens] <= 3000 {
				want -= 0.01
			}
			if got := f.Residual.TTFT.P50; math.Abs(got-want) > 1e-9 {
				t.Fatalf("%s: row %d: residual %v, want %v", evaluator, i, got, want)
			}
		}
	}
}

func TestLeavesReadsOnlyWhatIsSound(t *testing.T) {
	good := bundleOf(t, 0.1).Heads[0].Forest
	if _, err := predictor.ReadLeaves(good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"XGBoost JSON":   {[]byte(`{"learner":{"gradient_booster":{}},"version":[2,0,0]}`), "not a LightGBM text"},
		"XGBoost binary": {[]byte("binf\x00\x00\x00?\x1f\x00\x00\x00"), "not a LightGBM text"},
		"pickle":         {[]byte("\x80\x04\x95tree\nversion=v3\n"), "not a LightGBM text"},
		"v2":             {replaced(t, good, "version=v3", "version=v2"), "want version=v3 or version=v4"},
		"v5":             {replaced(t, good, "version=v3", "version=v5"), "want version=v3 or version=v4"},
		"linear_tree":    {append(bytes.Clone(good), "\n[linear_tree: 1]\n"...), "linear_tree"},
		"is_linear":      {replaced(t, good, "shrinkage=1", "is_linear=1"), "linear trees"},
		"reg_sqrt":       {append(bytes.Clone(good), "\n[reg_sqrt: 1]\n"...), "reg_sqrt"},
		"sqrt objective": {replaced(t, good, "feature_names", "objective=regression sqrt\nfeature_names"), "reg_sqrt"},
		"many classes":   {replaced(t, good, "num_class=1", "num_class=3"), "num_class"},
		"cyclic":         {replaced(t, good, "left_child=-1", "left_child=0"), "ancestor"},
		"huge count":     {replaced(t, good, "num_leaves=2", "num_leaves=999999999"), "num_leaves"},
		"truncated":      {good[:len(good)/2], ""},
		"empty":          {nil, "first line"},
	} {
		if f, err := predictor.ReadLeaves(c.text); err == nil || f != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %q", name, err, c.want)
		}
	}
}
