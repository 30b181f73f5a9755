package fleet_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// Unlike prior forecasts, a forecaster that hates one endpoint keeps it empty.
type hating struct{ column, tokens int }

func (h hating) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	fleet.PriorForecaster{}.Forecast(vectors, out)
	for i := range vectors {
		if vectors[i][h.column] == float32(h.tokens) {
			out[i].Residual.TTFT = feature.LogQuantiles{P50: 3, P90: 3}
		}
	}
}

// An endpoint that is forecast badly is avoided, until what came of the requests
// it got has corrected its forecasts.
func TestForecastsDecide(t *testing.T) {
	c := world(policy.Predicted, 3, single(300, 30, 20, 50*time.Millisecond))
	c.Engines[2].Profile.KVCapacityTokens = 2048
	c.Router.Settings = policy.Defaults()
	c.Router.Settings.Exploration = 0
	c.Router.Forecaster = hating{feature.Index("kv_capacity_tokens"), 2048}
	r := simulate(t, c)
	if r.Chosen[2] > 60 || r.Chosen[0] < 100 {
		t.Errorf("the endpoint whose forecasts are bad got %v", r.Chosen)
	}
}

func TestPredictedNeedsAForecaster(t *testing.T) {
	plan := func() workload.Plan { return single(200, 60, 10, 30*time.Millisecond) }
	without := simulate(t, world(policy.Predicted, 3, plan()))
	c := world(policy.CombinedLoad, 3, plan()) // auto, until a minute has been seen
	if diff := cmp.Diff(simulate(t, c).Requests, without.Requests); diff != "" {
		t.Errorf("without forecasts the fallback does not decide: %s", diff)
	}
}
