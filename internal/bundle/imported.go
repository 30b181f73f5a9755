package bundle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
)

// Foreign is what it takes to serve forests that were fitted elsewhere.
type Foreign struct {
	LLM string
	// Forests are LightGBM texts over the columns of feature.Vector. Each
	// predicts ln(actual/prior) with the prior that stands in the vector. Their
	// feature_infos say where they were trained, those of both priors included.
	Forests [Targets][]byte
	Clip    float64   // what a forest may add or take away at most, above 0 and up to MaxClip
	At      time.Time // now
}

// HeadError is what keeps the forest of one head from being imported.
type HeadError struct {
	Target Target
	Err    error
}

func (e *HeadError) Error() string { return fmt.Sprintf("forest %s: %v", e.Target, e.Err) }

func (e *HeadError) Unwrap() error { return e.Err }

// rawObjectives are LightGBM's objectives that predict what the trees sum up
// to.
var rawObjectives = []string{"", "regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom", "none"}

// Import makes a bundle of forests that were fitted elsewhere, with others for
// those that package forest does not evaluate. Its known answers are those to
// vectors spread over the ranges the forests were trained in. Nobody has
// judged it. A *HeadError says which forest is none to import.
func Import(f Foreign, others Reader) (*Bundle, error) {
	if !(f.Clip > 0 && f.Clip <= MaxClip) {
		return nil, fmt.Errorf("clip of imported forests is %v, want above 0 and up to %v", f.Clip, MaxClip)
	}
	b := Bundle{LLM: f.LLM, CreatedAt: f.At, Window: Window{From: f.At, To: f.At}}
	for j := range feature.Width {
		b.Support.Min[j], b.Support.Max[j] = float32(math.NaN()), float32(math.NaN())
	}
	for t, text := range f.Forests {
		if err := b.importHead(Target(t), text, f.Clip); err != nil {
			return nil, &HeadError{Target(t), err}
		}
	}
	for _, j := range []int{feature.ColumnPriorTTFT, feature.ColumnPriorTPOT} {
		if !(b.Support.Min[j] > 0) {
			return nil, fmt.Errorf("the feature_infos of the forests give %s the range [%v, %v], want one above 0: they say where the forests were trained",
				feature.Names()[j], b.Support.Min[j], b.Support.Max[j])
		}
	}
	return NewWith(b, b.Support.grid(KnownAnswers), others)
}

// importHead takes the text as the head of target and widens the support by
// its ranges.
func (b *Bundle) importHead(target Target, text []byte, clip float64) error {
	h, err := forest.ParseHeader(text)
	if err != nil {
		return err
	}
	if err := checkNames(h.FeatureNames); err != nil {
		return err
	}
	name, _, _ := strings.Cut(h.Objective, " ")
	if !slices.Contains(rawObjectives, name) {
		return fmt.Errorf("objective %q transforms what the trees sum up to, want regression, quantile or another that does not", name)
	}
	for j, r := range h.Ranges {
		b.Support.widen(j, r.Min)
		b.Support.widen(j, r.Max)
	}
	b.Heads[target] = Head{Forest: text, Low: -clip, High: clip}
	return nil
}

// widen makes the interval of column j hold x, unless that is NaN.
func (s *Support) widen(j int, x float64) {
	short := float32(x)
	if !(s.Min[j] <= short) && x == x {
		s.Min[j] = short
	}
	if !(s.Max[j] >= short) && x == x {
		s.Max[j] = short
	}
}

// grid returns n vectors that lie well spread in the box: every column steps
// by its own multiple of the golden ratio. Columns without an interval are
// unknown.
func (s *Support) grid(n int) []feature.Vector {
	vectors := make([]feature.Vector, n)
	for i := range vectors {
		for j := range feature.Width {
			_, share := math.Modf(float64((i+1)*(j+1)) * math.Phi)
			lo, hi := float64(s.Min[j]), float64(s.Max[j])
			vectors[i][j] = min(max(float32(lo+share*(hi-lo)), s.Min[j]), s.Max[j])
		}
	}
	return vectors
}
