package route_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// What a bundle of one LLM forgets is not what was learned of another's endpoints.
func TestABundleForgetsOnlyWhatItsEndpointsAdd(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		const other = "llama"
		bundles := map[string]int64{llm: 7, other: 3}
		w.oracle.set(func(ctx context.Context, of string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			a, err := well(ctx, of, v, out)
			for i := range v {
				if of == llm {
					out[i] = exactly(&v[i], 3, 0.02) // served measures 0.2
				}
			}
			a.Bundle = bundles[of]
			return a, err
		})
		w.fleet.only(id(1), func(e *pool.State) { e.LLMs = []string{other} })
		ask := func(of string) feature.Decision {
			w.fleet.scrape()
			q := query("x")
			q.LLM = of
			ticket := w.begin(t, q)
			d := w.memory.decision(ticket)
			ticket.End(served(1000, 10))
			pass(300 * time.Millisecond)
			return d
		}
		adds := func() float64 {
			c := ask(other).Candidates[0]
			return math.Log(float64(c.Corrected.TTFT.P50 / c.Forecast.TTFT.P50))
		}
		for range 150 {
			ask(other)
			ask(llm)
		}
		w.mustBe(t, "wrong")
		before := adds()
		bundles[llm] = 8
		ask(llm)
		if after := adds(); math.Abs(before) < 0.1 || math.Abs(after-before) > 0.05 {
			t.Errorf("a bundle of %s makes the correction of an endpoint of %s %.2f, from %.2f", llm, other, after, before)
		}
	})
}
