// Package bundle is the immutable, versioned set that is served: the prior's
// coefficients, four forests of log-residuals with their calibration, the
// region they were trained on, the schema they were trained for, and known
// answers. It encodes, decodes, checks and evaluates one.
//
// A forecast is fitted prior x exp(shift + what the forest adds). Bundle and
// vector alone decide it, so everyone who evaluates the same bundle on the same
// vector gets the same forecast. What is returned beside it as its residual is
// the logarithm of forecast over the vector's own prior, so that whoever knows
// that prior anew can move the forecast along with it.
package bundle

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Target is what one head forecasts: a quantile of ln(actual/fitted prior).
type Target int

// The four targets, in the order of Bundle.Heads.
const (
	TTFTP50 Target = iota
	TTFTP90
	TPOTP50
	TPOTP90
	Targets // how many there are
)

// String returns "ttft_p50" and the like.
func (t Target) String() string {
	switch t {
	case TTFTP50:
		return "ttft_p50"
	case TTFTP90:
		return "ttft_p90"
	case TPOTP50:
		return "tpot_p50"
	case TPOTP90:
		return "tpot_p90"
	default:
		return fmt.Sprintf("target %d", int(t))
	}
}

// MaxClip bounds every clip: a forecast further than e^10 (22,026 times) from
// its prior is a fault of the prior, not something a residual may repair.
const MaxClip = 10.0

// Head is one fitted target: ln(actual/fitted prior) at its quantile is
//
//	Shift + shrink * (1-Damping) * clip(forest, Low, High)
//
// with a shrink of 1 inside the range of priors seen in training.
type Head struct {
	Forest  []byte  // LightGBM text over the columns of feature.Vector
	Low     float64 // its output is clipped to [Low, High]
	High    float64
	Shift   float64 // what is added for every vector, within +-MaxClip
	Damping float64 // 0 believes the forest, 1 leaves its output out
}

// Window says which rows a bundle was fitted on.
type Window struct {
	Rows int       `json:"rows"`
	From time.Time `json:"from"` // decision time of the oldest row
	To   time.Time `json:"to"`   // of the newest
}

// KnownAnswer is one vector and what its bundle makes of it.
type KnownAnswer struct {
	Vector   feature.Vector
	Raw      [Targets]float64 // what the forests give
	Residual feature.Residual // ln(forecast/prior of the vector)
}

// Bundle is one fitted set. Treat it as immutable once New or Decode has
// returned it.
type Bundle struct {
	LLM          string
	Schema       feature.Fingerprint
	CreatedAt    time.Time // UTC
	Seed         uint64    // of the fit
	Window       Window
	Coefficients map[string]physics.Coefficients // of the analytic prior, by endpoint class
	Fitted       physics.Fitted                  // prior that the heads add to; the zero value is the vector's own
	Heads        [Targets]Head                   // by Target
	Support      Support
	Known        []KnownAnswer
}

// KnownAnswers is how many examples New keeps as known answers.
const KnownAnswers = 32

// Tolerance is how far a head or a residual may be from its known answer.
// Evaluators on one machine agree bit for bit; between architectures fused
// multiply-add and the assembly behind math.Log move the last digits.
const Tolerance = 1e-9

// ErrSchema marks a bundle whose vectors mean something else in this build.
var ErrSchema = errors.New("bundle has another schema")

// New completes b, whose schema and known answers it sets: Schema to that of
// this build, Known to the answers on up to KnownAnswers of the examples,
// evenly spread over those that have a usable prior. The result has passed
// Check.
func New(b Bundle, examples []feature.Vector) (*Bundle, error) { return NewWith(b, examples, nil) }

// NewWith is New, with others for the forests that package forest does not
// evaluate. nil refuses them.
func NewWith(b Bundle, examples []feature.Vector, others Reader) (*Bundle, error) {
	b.Schema = feature.Schema
	b.CreatedAt = b.CreatedAt.UTC()
	b.Window.From, b.Window.To = b.Window.From.UTC(), b.Window.To.UTC()
	b.Known = nil
	if err := b.checkFields(); err != nil {
		return nil, err
	}
	forests, err := b.parse(others)
	if err != nil {
		return nil, err
	}
	e := newEvaluator(&b, forests)
	if b.Known = e.answers(spread(examples, KnownAnswers)); len(b.Known) == 0 {
		return nil, fmt.Errorf("bundle for %s: none of %d examples has a usable prior, so it would have no known answers", b.LLM, len(examples))
	}
	if _, err := b.EvaluatorWith(others); err != nil {
		return nil, err
	}
	return &b, nil
}

// Check reports why b must not be served: another schema (ErrSchema), a
// forest that does not parse or has other columns, a clip or coefficient out
// of range, or a known answer that is not reproduced within Tolerance.
func (b *Bundle) Check() error {
	_, err := b.Evaluator()
	return err
}

// checkFields checks everything but the forests and the known answers.
func (b *Bundle) checkFields() error {
	if b.Schema != feature.Schema {
		return fmt.Errorf("%w: %s, want %s", ErrSchema, b.Schema, feature.Schema)
	}
	if b.LLM == "" || !utf8.ValidString(b.LLM) {
		return fmt.Errorf("bundle is for the LLM %q, want a name in UTF-8", b.LLM)
	}
	if b.CreatedAt.IsZero() {
		return fmt.Errorf("bundle for %s has no creation time", b.LLM)
	}
	if b.Window.Rows < 0 || b.Window.To.Before(b.Window.From) {
		return fmt.Errorf("bundle for %s: window of %d rows from %v to %v", b.LLM, b.Window.Rows, b.Window.From, b.Window.To)
	}
	for _, class := range slices.Sorted(maps.Keys(b.Coefficients)) {
		if !utf8.ValidString(class) {
			return fmt.Errorf("bundle for %s: class %q is not UTF-8", b.LLM, class)
		}
		if err := b.Coefficients[class].Check(); err != nil {
			return fmt.Errorf("bundle for %s: class %s: %w", b.LLM, class, err)
		}
	}
	for t, h := range b.Heads {
		if !(-MaxClip <= h.Low && h.Low <= h.High && h.High <= MaxClip) {
			return fmt.Errorf("bundle for %s: head %s clips to [%v, %v], want an interval within +-%v", b.LLM, Target(t), h.Low, h.High, MaxClip)
		}
		if !(math.Abs(h.Shift) <= MaxClip) || !(h.Damping >= 0 && h.Damping <= 1) {
			return fmt.Errorf("bundle for %s: head %s shifts by %v and is damped by %v, want within +-%v and 0 to 1", b.LLM, Target(t), h.Shift, h.Damping, MaxClip)
		}
	}
	if err := b.Fitted.Check(); err != nil {
		return fmt.Errorf("bundle for %s: %w", b.LLM, err)
	}
	if err := b.Support.check(); err != nil {
		return fmt.Errorf("bundle for %s: %w", b.LLM, err)
	}
	return nil
}

// checkKnown compares what e gives with the known answers of b.
func (b *Bundle) checkKnown(e *Evaluator) error {
	if len(b.Known) == 0 {
		return fmt.Errorf("bundle for %s has no known answers", b.LLM)
	}
	vectors := make([]feature.Vector, len(b.Known))
	for i := range b.Known {
		vectors[i] = b.Known[i].Vector
	}
	answers := e.answers(vectors)
	if len(answers) != len(b.Known) {
		return fmt.Errorf("bundle for %s: %d of %d known answers have no forecast", b.LLM, len(b.Known)-len(answers), len(b.Known))
	}
	for i, got := range answers {
		want := b.Known[i]
		for t := range Targets {
			if !near(got.Raw[t], want.Raw[t]) {
				return fmt.Errorf("bundle for %s: known answer %d: head %s gives %v, want %v", b.LLM, i, t, got.Raw[t], want.Raw[t])
			}
			if g, w := residualOf(got.Residual, t), residualOf(want.Residual, t); !near(g, w) {
				return fmt.Errorf("bundle for %s: known answer %d: residual %s is %v, want %v", b.LLM, i, t, g, w)
			}
		}
	}
	return nil
}

// near is false for NaN on either side.
func near(a, b float64) bool { return math.Abs(a-b) <= Tolerance*max(1, math.Abs(b)) }

func residualOf(r feature.Residual, t Target) float64 {
	return [Targets]float64{r.TTFT.P50, r.TTFT.P90, r.TPOT.P50, r.TPOT.P90}[t]
}

// spread returns at most n of the vectors that can be forecast, evenly
// spaced, the first and the last among them.
func spread(vectors []feature.Vector, n int) []feature.Vector {
	var usable []feature.Vector
	for i := range vectors {
		if Valid(&vectors[i]) {
			usable = append(usable, vectors[i])
		}
	}
	if len(usable) <= n {
		return usable
	}
	picked := make([]feature.Vector, n)
	for i := range picked {
		picked[i] = usable[i*(len(usable)-1)/(n-1)]
	}
	return picked
}
