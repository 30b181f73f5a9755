package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// longest is what a latency counts at most: the patience of clients, so that
// none is cut.
const longest = 600

// offpolicyQuantities are the quantities as package offpolicy names them.
var offpolicyQuantities = [quantities]offpolicy.Quantity{offpolicy.TTFT, offpolicy.E2E}

// overlap is how far a log shows what a target does.
type overlap struct {
	effective float64 // samples
	judged    int64   // decisions that were left to chance
	common    float64 // share of them in which both do the same, at best
}

// oneRequest asks the estimators that see one request at a time.
func oneRequest(rows []row, t offpolicy.Target, seed uint64, out *estimates) (o overlap, err error) {
	for q := range quantities {
		plain, err := weigh(rows, offpolicy.Options{Target: t, Quantity: offpolicyQuantities[q], Longest: longest}, seed)
		if err != nil {
			return o, err
		}
		dear, err := weigh(rows, offpolicy.Options{Target: t, Quantity: offpolicyQuantities[q], Longest: longest, Priced: true}, seed)
		if err != nil {
			return o, err
		}
		for i, name := range map[instrument]string{
			direct: offpolicy.DirectAll, ips: offpolicy.IPS, snips: offpolicy.SNIPS, doublyRobust: offpolicy.DR, switchDR: offpolicy.SwitchDR,
		} {
			x := estimateOf(&plain, name)
			out[i][q] = answer(x, x.Relative)
		}
		// What it takes from others is seconds too, of the same mean request.
		x, logged := estimateOf(&dear, offpolicy.DR), float64(plain.Logged.Mean)
		out[priced][q] = answer(x, evaluate.Interval{
			Mean: x.Effect.Mean / feature.Number(logged), Low: x.Effect.Low / feature.Number(logged), High: x.Effect.High / feature.Number(logged),
		})
		o = overlap{plain.Overlap.Effective, plain.Judged - plain.Deterministic, plain.Overlap.Common}
	}
	return o, agree(rows, t, out)
}

func weigh(rows []row, o offpolicy.Options, seed uint64) (offpolicy.Report, error) {
	e, err := offpolicy.NewEvaluation(o)
	if err != nil {
		return offpolicy.Report{}, err
	}
	for i := range rows {
		if err := e.Add(rows[i].decision, rows[i].outcome); err != nil {
			return offpolicy.Report{}, err
		}
	}
	return e.Report(seed)
}

func estimateOf(r *offpolicy.Report, name string) *offpolicy.Estimate {
	return &r.Estimates[slices.IndexFunc(r.Estimates, func(e offpolicy.Estimate) bool { return e.Name == name })]
}

func answer(x *offpolicy.Estimate, relative evaluate.Interval) estimate {
	if x.Withheld != "" {
		return refused(x.Withheld)
	}
	return said(relative, int(x.Samples))
}

// agree is the naive difference: requests that the target would have sent where
// they went, against all. Its interval takes them to be independent.
func agree(rows []row, t offpolicy.Target, out *estimates) error {
	var same, other [quantities]moments
	var choice policy.Choice
	for i := range rows {
		d, o := rows[i].decision, rows[i].outcome
		in, err := policy.Replay(d)
		if err != nil {
			return err
		}
		remade(in, d, &t)
		if err := policy.Decide(in, &choice); err != nil {
			return err
		}
		to := &other
		if choice.Index >= 0 && in.Candidates[choice.Index].Endpoint == d.Chosen {
			to = &same
		}
		for q, v := range [quantities]feature.Seconds{o.TTFT, o.E2E} {
			if v >= 0 {
				to[q].add(float64(v))
			}
		}
	}
	for q := range quantities {
		out[naive][q] = same[q].against(&other[q])
	}
	return nil
}

// remade turns what was decided on into what the target decides on, as package
// offpolicy does.
func remade(in *policy.Input, d *feature.Decision, t *offpolicy.Target) {
	if t.Policy != "" {
		in.Policy, in.Canary = t.Policy, 0
	}
	if t.Fallback != "" {
		in.Fallback = t.Fallback
	}
	if t.Change != nil {
		t.Change(&in.Settings)
	}
	if t.Forecaster == nil {
		return
	}
	in.Forecasts = true
	vectors, forecasts := make([]feature.Vector, len(in.Candidates)), make([]feature.Forecast, len(in.Candidates))
	for i := range vectors {
		vectors[i], forecasts[i] = in.Candidates[i].Vector(&in.Request), feature.NoForecast
	}
	t.Forecaster.Evaluate(vectors, forecasts)
	correction.Temper(forecasts, in.Request.ExpectedOutputTokens)
	for i := range forecasts {
		c := &in.Candidates[i]
		c.Residual, c.Correction = feature.NoResidual, feature.Residual{}
		if forecasts[i].Known() {
			c.Residual = forecasts[i].Residual
		}
	}
}

// moments are of some requests.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(v float64) { m.n, m.sum, m.squares = m.n+1, m.sum+v, m.squares+v*v }

func (m *moments) mean() float64 { return m.sum / m.n }

// noise is the variance of the mean.
func (m *moments) noise() float64 {
	return max(0, m.squares/m.n-m.mean()*m.mean()) / m.n
}

// leastAgreed is the fewest requests of a kind that are compared.
const leastAgreed = 10

// against is the mean of m against that of both together.
func (m *moments) against(other *moments) estimate {
	if m.n < leastAgreed {
		return refused(fmt.Sprintf("%.0f requests went where the target would have sent them", m.n))
	}
	all := (m.sum + other.sum) / (m.n + other.n)
	relative := m.mean()/all - 1
	half := 0.0
	if other.n > 0 {
		half = 1.96 * other.n / (m.n + other.n) * math.Sqrt(m.noise()+other.noise()) / all
	}
	return estimate{effect: effect{Mean: relative, Low: relative - half, High: relative + half}, requests: int(m.n + other.n)}
}
