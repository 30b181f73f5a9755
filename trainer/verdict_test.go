package trainer_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// TestTheVerdictsNumbersAreThoseOfTheRows computes them again, plainly, from
// the rows and the published bundle.
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
		var learned, judged [2][]float64
		var said [4][]float64
		out := make([]feature.Forecast, 1)
		for i, o := range outcomes {
			prior := decisions[i].ChosenVector.Prior()
			e.Evaluate([]feature.Vector{decisions[i].ChosenVector}, out)
			residual := out[0].Residual
			for k, y := range []float64{math.Log(float64(o.TTFT / prior.TTFT)), math.Log(float64(o.TPOT / prior.TPOT))} {
				switch {
				case math.IsNaN(y):
				case i >= cut:
					q := []feature.LogQuantiles{residual.TTFT, residual.TPOT}[k]
					judged[k] = append(judged[k], y)
					said[2*k], said[2*k+1] = append(said[2*k], q.P50), append(said[2*k+1], q.P90)
				case o.FinishedAt.Before(decisions[cut].DecidedAt):
					learned[k] = append(learned[k], y)
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
			shift := 0.0
			if target%2 == 1 {
				shift = middle(learned[target/2], 0.9)
			}
			var candidate, prior, below float64
			for i, y := range actual {
				candidate += pinball(q, y, said[target][i]) / float64(len(actual))
				prior += pinball(q, y, shift) / float64(len(actual))
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
				prior = append(prior, math.Abs(1-math.Exp(y))/math.Exp(y))
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
