package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

const (
	// rounds is how often engines are driven: parameters hardly move after the third.
	rounds = 4
	// fewestSteps is how many steps an equation of answers has at least: when exactly
	// others' prefill fell between the tokens of a short one is chance, which several
	// together are free of.
	fewestSteps = 100
	// mostAnswers bounds the rows that a class's step model is first fitted to: those
	// that run side by side are compared pair by pair.
	mostAnswers = 20_000
	// noise is the spread of a simulated step's time around what the model says, as
	// in the profiles that come with the program.
	noise = 0.03

	// classWithin and endpointWithin are how well a class is known before it is
	// measured, and an endpoint by its class: shares of each parameter.
	classWithin, endpointWithin = 0.5, 0.15
	// alike is how far what was fitted may be from what the router believed for the
	// latter's proportions to be used, either way.
	alike = 3.0
)

// fitted is what was found of the engines.
type fitted struct {
	classes map[string]physics.Profile // limits, and where the search began
	thetas  []theta                    // of each endpoint
	drawn   [][]theta                  // the same from resampled blocks of the log
	common  map[string]theta           // of each class
	guesses map[string]float64         // of each class: tokens of a step
}

// fit finds the engines: what each was sent is driven through a simulated one, and
// its parameters are set so that what its steps computed takes the time that was
// measured.
func (l *log) fit(draws int, rng *rand.Rand) (*fitted, error) {
	f := &fitted{classes: map[string]physics.Profile{}, thetas: make([]theta, len(l.endpoints))}
	by := make([][]int, len(l.endpoints))
	for i := range l.requests {
		if q := &l.requests[i]; q.endpoint >= 0 && (q.ttft > 0 || q.ok) {
			by[q.endpoint] = append(by[q.endpoint], i)
		}
	}
	begins := map[string]theta{}
	for _, class := range l.classes() {
		p, overhead, err := l.class(class, by)
		if err != nil {
			return nil, fmt.Errorf("endpoints of class %q: %w", class, err)
		}
		f.classes[class] = p
		begins[class] = thetaOf(p.Coefficients, overhead)
	}
	for e := range f.thetas {
		f.thetas[e] = begins[l.endpoints[e].class]
	}
	equations := make([][]equation, len(l.endpoints))
	for range rounds {
		for e := range l.endpoints {
			end := &l.endpoints[e]
			d, err := l.drive(by[e], l.holds[e], f.thetas[e].profile(f.classes[end.class], end.limits))
			if err != nil {
				return nil, fmt.Errorf("endpoint %s: %w", end.name, err)
			}
			equations[e] = l.equations(by[e], d)
		}
		f.thetas, f.common = l.solve(begins, equations)
	}
	f.guesses = map[string]float64{}
	for class := range f.classes {
		f.guesses[class] = f.guess(l, class)
	}
	for range draws {
		thetas, _ := l.solve(begins, l.resampled(equations, rng))
		f.drawn = append(f.drawn, thetas)
	}
	return f, nil
}

// solve finds every class from the equations of all its endpoints, then each of
// these.
func (l *log) solve(begins map[string]theta, equations [][]equation) ([]theta, map[string]theta) {
	all := map[string][]equation{}
	for e := range equations {
		class := l.endpoints[e].class
		all[class] = append(all[class], equations[e]...)
	}
	common := map[string]theta{}
	for class, of := range all {
		common[class] = solve(of, begins[class], classWithin)
	}
	out := make([]theta, len(equations))
	for e := range equations {
		out[e] = solve(equations[e], common[l.endpoints[e].class], endpointWithin)
	}
	return out, common
}

// equations are what the requests of an endpoint say, after what it was busy with
// when the log began.
func (l *log) equations(of []int, d []driven) (all []equation) {
	from := l.settled
	var answers equation // of those that were too short to stand alone
	for k, i := range of {
		q := &l.requests[i]
		if q.at < from {
			continue
		}
		if q.ttft > 0 && d[k].began {
			all = append(all, equation{q.at, untilFirst, q.ttft, d[k].first})
		}
		if q.ok && q.tpot > 0 && d[k].ended && q.output > 1 {
			answers.seconds += q.tpot * float64(q.output-1)
			for j, n := range d[k].answer {
				answers.work[j] += n
			}
			if answers.work[perStep] >= fewestSteps {
				answers.at, answers.kind = q.at, untilLast
				all = append(all, answers)
				answers = equation{}
			}
		}
	}
	return all
}

// resampled draws blocks of time, the same of every endpoint.
func (l *log) resampled(equations [][]equation, rng *rand.Rand) [][]equation {
	const blocks = 20
	var drawn [blocks]int
	for range blocks {
		drawn[rng.IntN(blocks)]++
	}
	length := l.to.Sub(l.from).Seconds()
	out := make([][]equation, len(equations))
	for e := range equations {
		for _, q := range equations[e] {
			for range drawn[min(blocks-1, int(q.at/length*blocks))] {
				out[e] = append(out[e], q)
			}
		}
	}
	return out
}

// classes are those of the endpoints, in order.
func (l *log) classes() []string {
	all := map[string]bool{}
	for i := range l.endpoints {
		all[l.endpoints[i].class] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// class is where the search for a class begins: the step model that explains best
// what ran side by side, in the proportions that the router believed where the two
// are alike.
func (l *log) class(class string, by [][]int) (physics.Profile, float64, error) {
	p := physics.Profile{Name: class, Source: "fitted to logged outcomes", BlockTokens: blockTokens, NoiseStdDev: noise}
	var answers []fit.Answer
	var told limits
	for e := range l.endpoints {
		end := &l.endpoints[e]
		if end.class != class {
			continue
		}
		told = limits{max(told.batched, end.limits.batched), max(told.sequences, end.limits.sequences), max(told.cache, end.limits.cache), max(told.peak, end.limits.peak)}
		for _, i := range by[e] {
			if q := &l.requests[i]; q.ttft > 0 {
				answers = append(answers, q.answer(end.name))
			}
		}
	}
	if told.cache == 0 {
		return p, 0, errors.New("no decision knows what their KV cache holds (kv_capacity_tokens)")
	}
	p.MaxBatchedTokens, p.MaxNumSeqs = int(cmp.Or(told.batched, 8192)), int(cmp.Or(told.sequences, 256))
	p.KVCapacityTokens, p.PeakPrefillThroughput = int(told.cache), told.peak
	if len(answers) > mostAnswers {
		slices.SortStableFunc(answers, func(a, b fit.Answer) int { return cmp.Compare(a.Sent, b.Sent) })
		answers = answers[len(answers)-mostAnswers:]
	}
	a, err := fit.Answers(answers, fit.Engine{KVCapacityTokens: told.cache, MaxBatchedTokens: float64(p.MaxBatchedTokens)})
	if err != nil {
		return p, 0, err
	}
	p.Coefficients = a.Coefficients
	untold := a.Coefficients.A <= 0 || a.Coefficients.B <= 0 // as of prompts that are all alike
	if b, ok := l.setting.believed[class]; ok && b.Check() == nil && b.A > 0 && b.B > 0 {
		slow := a.Coefficients.A / b.A
		if untold || slow > 1/alike && slow < alike && a.Coefficients.B > b.B/alike && a.Coefficients.B < b.B*alike {
			p.Coefficients, untold = b, false
		}
	}
	if untold {
		return p, 0, errors.New("neither the answers nor the router's prior tell how long steps and their prefill take")
	}
	if p.PeakPrefillThroughput <= 0 {
		p.PeakPrefillThroughput = 1 / (p.Coefficients.B + p.Coefficients.A/float64(p.MaxBatchedTokens))
	}
	return p, float64(a.Overhead), p.Check()
}

// answer is a request as the first fit reads it.
func (q *request) answer(endpoint string) fit.Answer {
	cached := q.cached
	if cached != cached {
		cached = q.believed
	}
	if cached != cached {
		cached = 0
	}
	return fit.Answer{
		Endpoint: endpoint, Sent: feature.Seconds(q.at), PromptTokens: float64(q.prompt), UncachedTokens: max(1, float64(q.prompt)-cached),
		OutputTokens: float64(q.output), TTFT: feature.Seconds(q.ttft), TPOT: feature.Seconds(q.tpot), Ended: feature.Seconds(q.e2e), Complete: q.ok,
	}
}
