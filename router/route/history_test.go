package route_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// What a history counts is what was decided and measured, in its period, and
// an hour later nothing of it is left.
func TestHistoryKeepsAnHour(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		total := func() (sum route.Period) {
			last := time.Time{}
			for _, p := range w.Router.History(llm) {
				if !p.Began.After(last) {
					t.Errorf("%v follows %v", p.Began, last)
				}
				last = p.Began
				sum.Decisions += p.Decisions
				sum.Forecasts += p.Forecasts
				sum.Ended += p.Ended
				sum.Failed += p.Failed
				sum.TTFT.Merge(&p.TTFT)
				sum.TPOT.Merge(&p.TPOT)
			}
			return sum
		}
		before := total()
		plain := route.Compared{}
		plain.Add(&feature.NoForecast.TTFT, 2)
		plain.Add(&feature.NoForecast.TTFT, 8)
		if plain.Measured != 2 || plain.Requests != 0 || math.Abs(float64(plain.Actual())-4) > 1e-9 || !feature.IsUnknown(plain.Forecast()) || !feature.IsUnknown(plain.Coverage()) {
			t.Errorf("two requests without a forecast came to %+v", plain)
		}
		slow := served(1000, 10)
		slow.TTFT, slow.TPOT = 500, feature.Seconds(feature.Unknown)
		fast := served(1000, 10)
		fast.TTFT, fast.TPOT = 1e-6, 1e-6
		for _, e := range []route.End{slow, fast, ended(feature.UpstreamTimeout, 0)} {
			w.begin(t, query("one")).End(e)
			pass(route.PeriodLength)
			w.fleet.scrape()
		}
		now := total()
		if now.Decisions-before.Decisions != 3 || now.Forecasts == before.Forecasts || now.Ended-before.Ended != 3 || now.Failed-before.Failed != 1 {
			t.Errorf("counted %+v after %+v", now, before)
		}
		if n, in := now.TTFT.Requests-before.TTFT.Requests, now.TTFT.Within-before.TTFT.Within; n != 2 || in != 1 {
			t.Errorf("%d of %d TTFTs within their p90, want 1 of 2", in, n)
		}
		if n := now.TPOT.Requests - before.TPOT.Requests; n != 1 {
			t.Errorf("%d TPOTs, want that of the request that has one", n)
		}
		if before.TTFT.Measured == 0 {
			if got, want := float64(now.TTFT.Actual()), math.Sqrt(500*1e-6); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("the middle of the TTFTs is %v, want %v", got, want)
			}
		}
		pass(route.HistoryPeriods * route.PeriodLength)
		w.begin(t, query("one")).End(ended(feature.ClientAbort, 0))
		if got := total(); got.Decisions != 1 {
			t.Errorf("an hour later %d decisions are in the history, want 1", got.Decisions)
		}
	})
}

// In a drill the fallback decides although forecasts are there, rows say why,
// and afterwards forecasts decide again.
func TestDrillLetsTheFallbackDecide(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		if err := w.Router.Drill(time.Minute); err != nil {
			t.Fatal(err)
		}
		d := one(t, w)
		decidedBy(t, d, policy.CombinedLoad, "live")
		if !strings.HasPrefix(d.Reason, "fallback drill; ") || !d.Candidates[0].Forecast.Known() {
			t.Errorf("reason %q, forecast %v", d.Reason, d.Candidates[0].Forecast)
		}
		if _, err := policy.Replay(&d); err != nil {
			t.Error(err)
		}
		if w.Router.Status().Drill == nil {
			t.Error("the status does not tell of the drill")
		}
		if n := w.count(t, "spillway_router_fallbacks_total", "drill", "live"); n != 1 {
			t.Errorf("%v fallbacks are counted as a drill's, want 1", n)
		}
		pass(time.Minute)
		w.fleet.scrape()
		decidedBy(t, one(t, w), policy.Predicted, "live")
		if w.Router.Status().Drill != nil {
			t.Error("the status tells of a drill that is over")
		}
		for _, wrong := range []time.Duration{-1, route.LongestDrill + 1} {
			if w.Router.Drill(wrong) == nil {
				t.Errorf("a drill of %v is taken", wrong)
			}
		}
		if w.Router.Drill(time.Minute) != nil || w.Router.Drill(0) != nil {
			t.Fatal("a drill cannot be ended")
		}
		decidedBy(t, one(t, w), policy.Predicted, "live")
	})
}

func TestShareIsOfTheLastMinutes(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		pass(20 * time.Minute)
		w.fleet.scrape()
		for _, e := range w.Router.Status().Endpoints {
			if !feature.IsUnknown(e.Share) {
				t.Errorf("%s has the share %v of no requests", e.ID, e.Share)
			}
		}
		one(t, w)
		pass(time.Second)
		sum := 0.0
		for _, e := range w.Router.Status().Endpoints {
			sum += float64(e.Share)
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("shares sum to %v", sum)
		}
	})
}
