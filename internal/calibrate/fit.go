package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// Fitted is the step model that measurements describe.
type Fitted struct {
	Coefficients physics.Coefficients `json:"coefficients"`
	Overhead     feature.Seconds      `json:"overhead"` // of a request, outside the engine's steps
	Peak         Peak                 `json:"peak"`
	Tokenizer    Tokenizer            `json:"tokenizer"`
	Points       []Point              `json:"points"`
	HeldOut      Spread               `json:"held_out"` // errors of all points, each by a fit to the others
}

// Peak is the peak prefill throughput, two ways.
type Peak struct {
	// Throughput is tokens/s by the recipe of the published matrix: the median,
	// over prompts that fill one step, of tokens over TTFT.
	Throughput   float64 `json:"throughput"`
	PromptTokens float64 `json:"prompt_tokens"` // of those prompts, median
	Prompts      int     `json:"prompts"`

	// Quadratic is fitted to the TTFT of every length; Fit is the tokens/s that
	// it gives for the same prompt.
	Quadratic Quadratic `json:"quadratic"`
	Fit       float64   `json:"fit"`
}

// Quadratic is TTFT = A + B*tokens + C*tokens^2, in seconds, with none of the
// three below 0.
type Quadratic struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
	C float64 `json:"c"`
}

// At is the TTFT of a prompt.
func (q Quadratic) At(tokens float64) feature.Seconds {
	return feature.Seconds(q.A + q.B*tokens + q.C*tokens*tokens)
}

// Tokenizer is what the engine's tokenizer makes of English words.
type Tokenizer struct {
	TokensPerByte float64 `json:"tokens_per_byte"`
	Template      float64 `json:"template"` // tokens around a prompt's own
}

// Point is one measured number, a median, beside what the fit says.
type Point struct {
	Decode       bool            `json:"decode"`    // a TPOT, not a TTFT
	Sequences    int             `json:"sequences"` // 1 of a TTFT
	PromptTokens float64         `json:"prompt_tokens"`
	CachedTokens float64         `json:"cached_tokens"`
	Context      float64         `json:"context_tokens"` // that the batch read; 0 of a TTFT
	Samples      int             `json:"samples"`
	Measured     feature.Seconds `json:"measured"`
	Fitted       feature.Seconds `json:"fitted"`
	HeldOut      feature.Seconds `json:"held_out"` // by a fit to the other points
}

// Error is how far the fit is off, relative to the measurement.
func (p Point) Error() float64 { return float64(p.Fitted/p.Measured) - 1 }

// HeldOutError is the same of a fit that has not seen the point.
func (p Point) HeldOutError() float64 { return float64(p.HeldOut/p.Measured) - 1 }

// Spread is how large errors are, as shares.
type Spread struct {
	TTFT float64 `json:"ttft"` // median
	TPOT float64 `json:"tpot"` // median
}

// The numbers that are fitted, as columns of the equations.
const (
	overhead = iota
	perStep
	perToken
	perContext
	perSequence
	perRead
	numbers
)

// Fit finds the step model of an engine with this token budget. The error says
// which measurements are missing, or what no engine can have.
func Fit(m Measurements, budget int) (Fitted, error) {
	var f Fitted
	if budget < 1 {
		return f, fmt.Errorf("token budget is %d: want at least 1", budget)
	}
	f.Points = append(prefillPoints(m.Prefills), decodePoints(m.Decodes)...)
	sizes, batches := map[float64]bool{}, map[int]bool{}
	for _, p := range f.Points {
		if !(p.Measured > 0) {
			return f, fmt.Errorf("a latency of %v s was measured: want more than 0", p.Measured)
		}
		if p.Decode {
			batches[p.Sequences] = true
		} else {
			sizes[p.PromptTokens] = true
		}
	}
	if len(sizes) < leastSizes || len(batches) < leastBatches {
		return f, fmt.Errorf("%d prompt lengths and %d batch sizes were measured: want at least %d and %d", len(sizes), len(batches), leastSizes, leastBatches)
	}
	x, err := model(f.Points, budget)
	if err != nil {
		return f, err
	}
	f.Coefficients = physics.Coefficients{A: x[perStep], B: x[perToken], C: x[perContext], D: x[perSequence], E: x[perRead]}
	f.Overhead = feature.Seconds(x[overhead])
	if f.Coefficients.B+f.Coefficients.C == 0 {
		return f, errors.New("longer prompts took no longer: something answers that does not compute them")
	}
	if err := f.Coefficients.Check(); err != nil {
		return f, fmt.Errorf("the measurements do not describe an engine: %w", err)
	}
	for i := range f.Points {
		p := &f.Points[i]
		p.Fitted = p.predict(x, budget)
		others, err := model(slices.Concat(f.Points[:i], f.Points[i+1:]), budget)
		if err != nil {
			return f, err
		}
		p.HeldOut = p.predict(others, budget)
	}
	f.HeldOut = spread(f.Points)
	if f.Tokenizer, err = tokenizer(m.Prefills); err != nil {
		return f, err
	}
	f.Peak, err = peak(m.Prefills, f.Points, budget)
	return f, err
}

// Profile is the fitted engine's profile. what says what was measured, for its
// source.
func (f Fitted) Profile(name, what string, limits fit.Limits) (physics.Profile, error) {
	source := fmt.Sprintf("%s: %d prompt lengths and batches, median error of one by a fit to the others TTFT %.1f %%, TPOT %.1f %%; peak prefill throughput is the median of %d prompts of %.0f tokens",
		what, len(f.Points), 100*f.HeldOut.TTFT, 100*f.HeldOut.TPOT, f.Peak.Prompts, f.Peak.PromptTokens)
	p, err := fit.Profile(name, source, f.Coefficients, limits)
	p.PeakPrefillThroughput = f.Peak.Throughput
	p.Overhead = f.Overhead
	return p, err
}

// parts is what one point counts for each number.
func (p *Point) parts(budget int) []float64 {
	parts := make([]float64, numbers)
	if p.Decode {
		parts[perStep], parts[perSequence], parts[perRead] = 1, float64(p.Sequences), p.Context
		return parts
	}
	uncached := p.PromptTokens - p.CachedTokens
	parts[overhead] = 1
	parts[perStep] = math.Ceil(uncached / float64(budget))
	parts[perToken] = uncached
	parts[perContext] = uncached * (p.PromptTokens - uncached/2)
	return parts
}

func (p *Point) predict(x []float64, budget int) feature.Seconds {
	return feature.Seconds(dot(p.parts(budget), x))
}

func model(points []Point, budget int) ([]float64, error) {
	rows := make([][]float64, len(points))
	values := make([]float64, len(points))
	for i := range points {
		rows[i], values[i] = points[i].parts(budget), float64(points[i].Measured)
	}
	return nonNegative(rows, values)
}

// prefillPoints takes the median of each planned length.
func prefillPoints(all []Prefilled) []Point {
	var points []Point
	for _, same := range grouped(all, func(s Prefilled) int { return s.Size }) {
		points = append(points, Point{
			Sequences:    1,
			PromptTokens: median(same, func(s Prefilled) float64 { return float64(s.PromptTokens) }),
			CachedTokens: median(same, func(s Prefilled) float64 { return float64(s.CachedTokens) }),
			Samples:      len(same),
			Measured:     feature.Seconds(median(same, func(s Prefilled) float64 { return float64(s.TTFT) })),
		})
	}
	return points
}

// decodePoints takes the median of each planned batch.
func decodePoints(all []Decoded) []Point {
	var points []Point
	type kind struct{ sequences, prompt int }
	for _, same := range grouped(all, func(s Decoded) kind { return kind{s.Sequences, s.PromptTokens} }) {
		points = append(points, Point{
			Decode:       true,
			Sequences:    same[0].Sequences,
			PromptTokens: float64(same[0].PromptTokens),
			Context:      median(same, func(s Decoded) float64 { return s.ContextTokens }),
			Samples:      len(same),
			Measured:     feature.Seconds(median(same, func(s Decoded) float64 { return float64(s.TPOT) })),
		})
	}
	return points
}

// grouped splits a list by a key; groups stand in order of their first member.
func grouped[T any, K comparable](all []T, key func(T) K) [][]T {
	var groups [][]T
	at := map[K]int{}
	for _, v := range all {
		i, ok := at[key(v)]
		if !ok {
			i = len(groups)
			at[key(v)] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], v)
	}
	return groups
}

// peak is measured at the longest prompts that one step computes, or the
// shortest where all take several.
func peak(all []Prefilled, points []Point, budget int) (Peak, error) {
	at := math.MaxInt
	for _, s := range all {
		if at > budget && s.Size < at || s.Size > at && s.Size <= budget {
			at = s.Size
		}
	}
	var full []Prefilled
	for _, s := range all {
		if s.Size == at {
			full = append(full, s)
		}
	}
	p := Peak{
		Throughput:   median(full, func(s Prefilled) float64 { return float64(s.PromptTokens) / float64(s.TTFT) }),
		PromptTokens: median(full, func(s Prefilled) float64 { return float64(s.PromptTokens) }),
		Prompts:      len(full),
	}
	var rows [][]float64
	var values []float64
	for _, x := range points {
		if !x.Decode {
			rows = append(rows, []float64{1, x.PromptTokens, x.PromptTokens * x.PromptTokens})
			values = append(values, float64(x.Measured))
		}
	}
	q, err := nonNegative(rows, values)
	if err != nil {
		return p, err
	}
	p.Quadratic = Quadratic{A: q[0], B: q[1], C: q[2]}
	p.Fit = p.PromptTokens / float64(p.Quadratic.At(p.PromptTokens))
	return p, nil
}

// tokenizer is the line through tokens over bytes.
func tokenizer(all []Prefilled) (Tokenizer, error) {
	var bytes, tokens float64
	for _, s := range all {
		bytes += float64(s.Bytes)
		tokens += float64(s.PromptTokens)
	}
	bytes, tokens = bytes/float64(len(all)), tokens/float64(len(all))
	var both, alone float64
	for _, s := range all {
		both += (float64(s.Bytes) - bytes) * (float64(s.PromptTokens) - tokens)
		alone += (float64(s.Bytes) - bytes) * (float64(s.Bytes) - bytes)
	}
	t := Tokenizer{TokensPerByte: both / alone}
	t.Template = max(0, tokens-t.TokensPerByte*bytes)
	if !(t.TokensPerByte > 0) || math.IsInf(t.TokensPerByte, 0) {
		return t, errors.New("the engine counted no more tokens in longer prompts: its usage.prompt_tokens can't be right")
	}
	return t, nil
}

func spread(points []Point) Spread {
	off := func(decode bool) float64 {
		var chosen []Point
		for _, p := range points {
			if p.Decode == decode {
				chosen = append(chosen, p)
			}
		}
		return median(chosen, func(p Point) float64 { return math.Abs(p.HeldOutError()) })
	}
	return Spread{TTFT: off(false), TPOT: off(true)}
}

// median is that of at least one number.
func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, v := range all {
		values[i] = of(v)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
