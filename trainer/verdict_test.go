package trainer_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// TestTheVerdictsNumbersAreThoseOfTheRows computes them again, plainly, from
// the rows and the published bundle, both corrected as "spillway evaluate
// forecasts" does.
func TestTheVerdictsNumbersAreThoseOfTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 20).add(801, time.Now(), time.Second)
		for i := range w.outcomes { // some targets are missing here and there
			if i%5 == 0 {
				w.outcomes[i].TPOT = feature.Seconds(feature.Unknown)
			}
			if i%7 == 0 && i%5 != 0 {
				w.outcomes[i].TTFT = feature.Seconds(feature.Unknown)
			}
		}
		decisions, outcomes := w.decisions, w.outcomes
		r, bytes := fitted(t, small(t), w)
		want(t, r, trainer.Accepted)
		b, err := bundle.Decode(bytes)
		if err != nil {
			t.Fatal(err)
		}
		e, err := b.Evaluator()
		if err != nil {
			t.Fatal(err)
		}

		cut := 801 - 201 // a quarter, rounded up, judges
		var learned [2][]float64
		logs := func(i int) [2]float64 {
			o, prior := outcomes[i], decisions[i].ChosenVector.Prior()
			return [2]float64{math.Log(float64(o.TTFT / prior.TTFT)), math.Log(float64(o.TPOT / prior.TPOT))}
		}
		for i := range cut {
			for k, y := range logs(i) {
				if !math.IsNaN(y) && outcomes[i].FinishedAt.Before(decisions[cut].DecidedAt) {
					learned[k] = append(learned[k], y)
				}
			}
		}
		// Logs of the forecasts of the candidate, and of the prior with the p90 of
		// what was learned, over the prior.
		var judged [2][]float64
		var said, plain [4][]float64
		var router, beside evaluate.Online
		out := make([]feature.Forecast, 1)
		for i := cut; i < len(outcomes); i++ {
			v, o := decisions[i].ChosenVector, outcomes[i]
			load := max(float64(v[feature.Index("waiting")]+v[feature.Index("running")]), float64(v[feature.Index("inflight_requests")]))
			c := evaluate.Case{At: o.DecidedAt, Endpoint: o.Endpoint, Load: load, TTFT: o.TTFT, TPOT: o.TPOT}
			e.Evaluate([]feature.Vector{v}, out)
			prior := v.Prior()
			p90 := func(k int) feature.Seconds { return feature.Seconds(math.Exp(middle(learned[k], 0.9))) }
			alone := feature.Forecast{
				TTFT: feature.Quantiles{P50: prior.TTFT, P90: prior.TTFT * p90(0)}, TPOT: feature.Quantiles{P50: prior.TPOT, P90: prior.TPOT * p90(1)},
			}
			mine, its := router.Correct(&c, out[0], o.FinishedAt), beside.Correct(&c, alone, o.FinishedAt)
			for k, y := range logs(i) {
				if math.IsNaN(y) {
					continue
				}
				judged[k] = append(judged[k], y)
				over := []feature.Seconds{prior.TTFT, prior.TPOT}[k]
				for _, x := range []struct {
					into *[4][]float64
					q    feature.Quantiles
				}{{&said, []feature.Quantiles{mine.TTFT, mine.TPOT}[k]}, {&plain, []feature.Quantiles{its.TTFT, its.TPOT}[k]}} {
					x.into[2*k] = append(x.into[2*k], math.Log(float64(x.q.P50/over)))
					x.into[2*k+1] = append(x.into[2*k+1], math.Log(float64(x.q.P90/over)))
				}
			}
		}
		same := func(what string, got feature.Number, want float64) {
			t.Helper()
			if !(math.Abs(float64(got)-want) < 1e-9) {
				t.Errorf("%s is %v, want %v", what, got, want)
			}
		}
		for target, h := range r.Verdict.Heads {
			actual, q := judged[target/2], []float64{0.5, 0.9}[target%2]
			var candidate, prior, below float64
			for i, y := range actual {
				candidate += pinball(q, y, said[target][i]) / float64(len(actual))
				prior += pinball(q, y, plain[target][i]) / float64(len(actual))
				if y <= said[target][i] {
					below += 1 / float64(len(actual))
				}
			}
			if h.Rows != len(actual) {
				t.Errorf("%s: %d rows, want %d", h.Head, h.Rows, len(actual))
			}
			same(h.Head+" candidate", h.Candidate.Mean, candidate)
			same(h.Head+" prior", h.Prior.Mean, prior)
			same(h.Head+" below", h.Below, below)
		}
		v := r.Verdict
		for k, got := range [][2]feature.Number{{v.TTFTMedianAPE, v.PriorTTFTMedianAPE}, {v.TPOTMedianAPE, v.PriorTPOTMedianAPE}} {
			var candidate, prior []float64
			for i, y := range judged[k] {
				candidate = append(candidate, math.Abs(math.Exp(said[2*k][i])-math.Exp(y))/math.Exp(y))
				prior = append(prior, math.Abs(math.Exp(plain[2*k][i])-math.Exp(y))/math.Exp(y))
			}
			same("median APE", got[0], middle(candidate, 0.5))
			same("the prior's median APE", got[1], middle(prior, 0.5))
		}
		if v.HeldOut != len(judged[0]) {
			t.Errorf("%d held-out rows, want %d with a TTFT", v.HeldOut, len(judged[0]))
		}
	})
}

func pinball(q, actual, forecast float64) float64 {
	return max(q*(actual-forecast), (q-1)*(actual-forecast))
}

// middle is the q-quantile, interpolated.
func middle(values []float64, q float64) float64 {
	values = slices.Sorted(slices.Values(values))
	at := q * float64(len(values)-1)
	low, part := math.Modf(at)
	return (1-part)*values[int(low)] + part*values[min(int(low)+1, len(values)-1)]
}
