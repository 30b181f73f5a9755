package route_test

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// observed is the number and the sum of what a histogram saw.
func (w *world) observed(t testing.TB, metric string, labels ...string) (n uint64, sum float64) {
	t.Helper()
	h := w.metric(t, metric, labels...).GetHistogram()
	return h.GetSampleCount(), h.GetSampleSum()
}

// What clients met is counted whoever decided, and held against the forecast of
// those that had one.
func TestLatenciesAreHeldAgainstTheirForecasts(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		serve := func(by float64) {
			ticket := w.begin(t, query("one"))
			said := feature.NoForecast
			for _, c := range w.memory.decision(ticket).Candidates {
				if c.Endpoint == ticket.Endpoint() {
					said = c.Corrected
				}
			}
			e := served(1000, 10)
			e.TTFT, e.TPOT = said.TTFT.P50*feature.Seconds(by), feature.Seconds(feature.Unknown)
			ticket.End(e)
			pass(time.Second)
			w.fleet.scrape()
		}
		serve(0.5)
		if n, sum := w.observed(t, "spillway_router_forecast_error_ratio", "ttft", llm); n != 1 || sum < 0.99 || sum > 1.01 {
			t.Errorf("a forecast of twice what was measured: %d errors that sum up to %v, want one of 1", n, sum)
		}
		serve(0.9)
		serve(1e6)
		w.begin(t, query("one")).End(ended(feature.UpstreamTimeout, 0))
		for within, want := range map[string]float64{"p50": 2, "p90": 0, "beyond": 1} {
			if n := w.count(t, "spillway_router_forecast_outcomes_total", "ttft", llm, within); n != want {
				t.Errorf("%v TTFTs came within %s, want %v", n, within, want)
			}
		}
		if n, _ := w.observed(t, "spillway_router_ttft_seconds", llm); n != 3 {
			t.Errorf("%d TTFTs of three requests that were answered and one that was not", n)
		}
		if n, _ := w.observed(t, "spillway_router_tpot_seconds", llm); n != 0 {
			t.Errorf("%d TPOTs, and none was measured", n)
		}
	})
}

func TestOpeningsOfTheValveAreCounted(t *testing.T) {
	w := newWorld(t, 2, func(c *route.Config) { c.Fallback, c.Settings.MaxTTFTPenalty = policy.TokenLoad, 0.01 })
	w.begin(t, query("one"))
	if n := w.count(t, "spillway_router_spills_total", policy.TokenLoad); n != 0 {
		t.Errorf("%v openings, and nobody held the prefix", n)
	}
	w.begin(t, query("one")) // the first is still being prefilled
	if n := w.count(t, "spillway_router_spills_total", policy.TokenLoad); n != 1 {
		t.Errorf("%v openings, want 1", n)
	}
}
