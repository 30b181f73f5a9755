package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Answer is a request that was sent to an endpoint, and when its tokens came.
// Unknown is NaN.
type Answer struct {
	Endpoint       string
	Sent           feature.Seconds // since a moment that is the same for all
	PromptTokens   float64
	UncachedTokens float64         // of them, that had to be computed
	OutputTokens   float64         // generated
	TTFT           feature.Seconds // from Sent
	TPOT           feature.Seconds
	Ended          feature.Seconds // last token, from Sent; unknown: as TTFT and TPOT say
	Complete       bool            // its times teach; without, it only stood beside others
}

// AnswerOf is the answer that a row tells of, with times since origin; false
// when no token of it was seen, or the length of the prompt is not known.
func AnswerOf(r *feature.Row, origin time.Time) (Answer, bool) {
	prompt := float64(r.Vector[feature.ColumnPromptTokens])
	cached := r.Outcome.CachedTokens // as the engine says, else as the router believed
	if feature.IsUnknown(cached) {
		cached = float64(r.Vector[feature.ColumnCachedTokens])
	}
	a := Answer{
		Endpoint: r.Outcome.Endpoint, Sent: feature.SecondsOf(r.DecidedAt.Sub(origin)),
		PromptTokens: prompt, UncachedTokens: max(1, prompt-known(cached)), OutputTokens: r.Outcome.OutputTokens,
		TTFT: r.Outcome.TTFT, TPOT: r.Outcome.TPOT, Ended: r.Outcome.E2E,
		Complete: r.Outcome.Status == feature.OK,
	}
	return a, prompt >= 1 && a.TTFT > 0
}

// Answered is what was fitted to answers.
type Answered struct {
	Coefficients physics.Coefficients
	Overhead     feature.Seconds // outside the engine
	Rows         int             // complete answers
}

// The parameters of an answer are those of a dispatch up to overhead.
const answerWidth = overhead + 1

// Answers fits requests to what ran beside them:
//
//	TTFT = overhead + steps*step + own prefill + prefill of others meanwhile
//	TPOT = step + prefill of others meanwhile / (output - 1)
//
// where step = A + D*n + E*kv with the means of n and kv over the time in
// question. What ran beside a request the other rows of its endpoint tell: an
// engine prefills in order of arrival, so the prefill of a request ends with its
// first token and begins when it was sent, or with the first token before it.
// Thus prefill that ran during an answer is not taken for decoding, as it is
// where the load at dispatch alone is known. What no row tells of is taken for
// nothing: the rows must be all of an endpoint's, or nearly. Answers during which
// little was prefilled are trusted apart from the others.
//
// D is the smallest part of a step and the least certain: a few percent of error
// in everything else are all of it. On simulated mixed traffic one fit of 1,300
// to 6,000 rows finds A, B and E within 5 %, C within 10 %, and D mostly within
// 25 % and always within half, unless most requests wait for room in a full
// cache. Blocks that an engine reads once for several sequences make E and D
// smaller than they are.
func Answers(rows []Answer, e Engine) (Answered, error) {
	if !(e.MaxBatchedTokens > 0) {
		return Answered{}, fmt.Errorf("step of %v tokens: want a positive number", e.MaxBatchedTokens)
	}
	return answers(rows, surroundings(rows), e, func(int) bool { return true })
}

const (
	// answerRounds is how often a fit is repeated with what the one before
	// says of the rows; it changes little after the second.
	answerRounds = 3
	// chunkedShare is the share of an answer's time from which on prefill of
	// others decides how well it is explained.
	chunkedShare = 0.05
)

// answers fits the rows that use says, with all of them as company.
func answers(rows []Answer, around []surrounding, e Engine, use func(i int) bool) (a Answered, err error) {
	for round := range answerRounds {
		var equations []equation
		complete := 0
		for i := range rows {
			r := &rows[i]
			if !r.Complete || !use(i) {
				continue
			}
			complete++
			ttft, tpot := r.parts(&around[i], e)
			// A request that waited for room in a full cache says nothing of the engine's speed.
			if round == 0 || float64(r.TTFT) <= queued*a.seconds(ttft) {
				equations = append(equations, equation{value: float64(r.TTFT), of: float64(r.TTFT), kind: ofTTFT, parts: ttft})
			}
			if r.decodes() {
				kind := ofTPOT
				if round > 0 && work(a.Coefficients, tpot[perTokenLeast], tpot[perTokenMost]) > chunkedShare*float64(r.TPOT) {
					kind = ofChunked
				}
				equations = append(equations, equation{value: float64(r.TPOT), of: float64(r.TPOT), kind: kind, parts: tpot})
			}
		}
		if len(equations) < dispatchRows {
			return a, fmt.Errorf("%d measured times: want at least %d", len(equations), dispatchRows)
		}
		x := robust(equations, answerWidth)
		a = Answered{
			Coefficients: coefficients(x[perStep], x[perTokenLeast], x[perTokenMost], x[perSequence], x[perContext]),
			Overhead:     feature.Seconds(x[overhead]),
			Rows:         complete,
		}
	}
	if err := a.Coefficients.Check(); err != nil {
		return a, fmt.Errorf("the rows do not describe an engine: %w", err)
	}
	return a, nil
}

// decodes reports whether r has a TPOT to learn from.
func (r *Answer) decodes() bool { return r.TPOT > 0 && r.OutputTokens > 1 }

// parts are the two equations of an answer.
func (r *Answer) parts(s *surrounding, e Engine) (ttft, tpot []float64) {
	u := r.UncachedTokens
	before := &s.before
	steps := math.Ceil((u + before.prefill) / e.MaxBatchedTokens)
	if before.decoding > 0 {
		steps += 0.5 // half of the running step
	}
	ttft = make([]float64, answerWidth)
	ttft[overhead], ttft[perStep] = 1, steps
	ttft[perSequence], ttft[perContext] = steps*before.decoding, steps*before.context
	ttft[perTokenLeast], ttft[perTokenMost] = chunk(u+before.prefill, u*(r.PromptTokens-u/2)+before.attended, 1)

	after := &s.after
	tpot = make([]float64, answerWidth)
	tpot[perStep] = 1
	tpot[perSequence], tpot[perContext] = 1+after.decoding, r.PromptTokens+known(r.OutputTokens)/2+after.context
	tpot[perTokenLeast], tpot[perTokenMost] = chunk(after.prefill, after.attended, 1/max(1, known(r.OutputTokens)-1))
	return ttft, tpot
}

// seconds is what the parts of an equation take.
func (a *Answered) seconds(parts []float64) float64 {
	c := a.Coefficients
	return c.A*parts[perStep] + c.D*parts[perSequence] + c.E*parts[perContext] +
		float64(a.Overhead)*parts[overhead] + work(c, parts[perTokenLeast], parts[perTokenMost])
}

// CrossAnswers predicts every complete row from what ran beside it, by a fit
// without its block, one of five in the order given. Groups: All, "decode only"
// for answers during which nothing was prefilled, and "with prefill".
func CrossAnswers(rows []Answer, e Engine) (Errors, error) {
	var all Errors
	around := surroundings(rows)
	for k := range folds {
		a, err := answers(rows, around, e, func(i int) bool { return block(i, len(rows)) != k })
		if err != nil {
			return all, fmt.Errorf("without fold %d: %w", k+1, err)
		}
		for i := range rows {
			r := &rows[i]
			if !r.Complete || block(i, len(rows)) != k {
				continue
			}
			group := "decode only"
			if around[i].after.prefill > 0 {
				group = "with prefill"
			}
			ttft, tpot := r.parts(&around[i], e)
			predicted := feature.Prior{TTFT: feature.Seconds(a.seconds(ttft)), TPOT: feature.Seconds(a.seconds(tpot))}
			all.Add(predicted, feature.Prior{TTFT: r.TTFT, TPOT: r.TPOT}, All, group)
		}
	}
	return all, nil
}

// surrounding is what others did on the endpoint of an answer.
type surrounding struct {
	before company // from when it was sent to its first token
	after  company // from then to its last
}

// company is what others did over some time.
type company struct {
	decoding float64 // mean of those that decoded
	context  float64 // mean of the tokens that these read
	prefill  float64 // tokens prefilled
	attended float64 // tokens^2: their attention
}

// span is a time, in seconds.
type span struct{ from, to float64 }

func (s span) length() float64 { return s.to - s.from }

func (s span) overlap(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

// course is when an answer did what. All of it lies between sent and last.
type course struct {
	answer          *Answer
	waited, decoded span // the first until the first token
	prefilled       span
}

// coursesOf are those of each row, from all rows of its endpoint.
func coursesOf(rows []Answer) []course {
	courses := make([]course, len(rows))
	order := make([]int, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		sent, first := float64(r.Sent), float64(r.Sent+r.TTFT)
		last := first
		switch {
		case r.decodes():
			last += float64(r.TPOT) * (r.OutputTokens - 1)
		case !r.Complete && r.Ended > r.TTFT:
			last = float64(r.Sent + r.Ended)
		}
		courses[i] = course{r, span{sent, first}, span{first, last}, span{sent, first}}
		order = append(order, i)
	}
	byFirst := func(i, j int) int {
		return cmp.Or(cmp.Compare(rows[i].Endpoint, rows[j].Endpoint), cmp.Compare(courses[i].waited.to, courses[j].waited.to))
	}
	slices.SortStableFunc(order, byFirst)
	before, latest := math.Inf(-1), math.Inf(-1) // first tokens; those that come together share a step
	for k, i := range order {
		c := &courses[i]
		if k > 0 && rows[order[k-1]].Endpoint != rows[i].Endpoint {
			before, latest = math.Inf(-1), math.Inf(-1)
		}
		if c.waited.to > latest {
			before, latest = latest, c.waited.to
		}
		c.prefilled.from = max(c.waited.from, before)
	}
	return courses
}

// surroundings are those of each row. Every pair that meets is met once: those
// sent before the first one's end.
func surroundings(rows []Answer) []surrounding {
	courses := coursesOf(rows)
	order := make([]int, len(courses))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(courses[i].answer.Endpoint, courses[j].answer.Endpoint), cmp.Compare(courses[i].waited.from, courses[j].waited.from))
	})
	around := make([]surrounding, len(courses))
	for k, i := range order {
		for _, j := range order[k+1:] {
			if courses[i].answer.Endpoint != courses[j].answer.Endpoint || courses[j].waited.from >= courses[i].decoded.to {
				break
			}
			around[i].meet(&courses[i], &courses[j])
			around[j].meet(&courses[j], &courses[i])
		}
	}
	return around
}

func (s *surrounding) meet(own, other *course) {
	s.before.meet(own.waited, other)
	s.after.meet(own.decoded, other)
}

// meet adds what other did within a time.
func (c *company) meet(within span, other *course) {
	if !(within.length() > 0) {
		return
	}
	if both := within.overlap(other.decoded); both.length() > 0 {
		share := both.length() / within.length()
		generated := ((both.from+both.to)/2 - other.decoded.from) / other.decoded.length() * known(other.answer.OutputTokens)
		c.decoding += share
		c.context += share * (other.answer.PromptTokens + generated)
	}
	share := 0.0
	switch p := other.prefilled; {
	case p.length() > 0:
		share = max(0, within.overlap(p).length()) / p.length()
	case p.to > within.from && p.to <= within.to: // took no time that could be seen
		share = 1
	}
	u := other.answer.UncachedTokens
	c.prefill += share * u
	c.attended += share * u * (other.answer.PromptTokens - u/2)
}
