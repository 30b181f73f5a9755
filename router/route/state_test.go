package route_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// one decides and ends one request and returns its row.
func one(t testing.TB, w *world) feature.Decision {
	t.Helper()
	ticket := w.begin(t, query("one"))
	ticket.End(ended(feature.ClientAbort, 0))
	return w.memory.decision(ticket)
}

func decidedBy(t testing.TB, d feature.Decision, by, state string) {
	t.Helper()
	if d.Policy != by || d.State != state {
		t.Errorf("decided by %s in state %s (%s), want %s in %s", d.Policy, d.State, d.Reason, by, state)
	}
}

func TestColdEndsAtOnceWithTheFirstBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		w.oracle.set(fails(route.ErrUntrained))
		defer w.run()()
		pass(9 * time.Second)
		w.mustBe(t, "cold")
		w.fleet.scrape()
		asked := w.oracle.count()
		d := one(t, w)
		decidedBy(t, d, policy.CombinedLoad, "cold")
		if !strings.HasPrefix(d.Reason, "cold (no bundle yet); ") {
			t.Errorf("reason is %q", d.Reason)
		}
		if w.oracle.count() != asked {
			t.Error("a request asked while the LLM is cold: only the probe may")
		}
		w.oracle.set(well)
		pass(250 * time.Millisecond)
		w.mustBe(t, "live")
		d = one(t, w)
		decidedBy(t, d, policy.Predicted, "live")
		if d.Bundle != 7 || !d.Candidates[0].Forecast.Known() {
			t.Errorf("the row has bundle %d and forecast %v", d.Bundle, d.Candidates[0].Forecast)
		}
		if w.count(t, "spillway_router_state", llm, "live") != 1 || w.count(t, "spillway_router_state", llm, "cold") != 0 {
			t.Error("the metric of the state did not follow")
		}
	})
}

func TestBrokenPredictorFallsBackInThatVeryDecision(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(fails(errors.New("dial tcp 10.1.2.3:9: connection refused")))
		d := one(t, w)
		decidedBy(t, d, policy.CombinedLoad, "down")
		if !strings.HasPrefix(d.Reason, "down (predictor down); ") {
			t.Errorf("reason is %q: want closed words and no addresses", d.Reason)
		}
		if !strings.Contains(w.logged(), "dial tcp 10.1.2.3:9: connection refused") {
			t.Errorf("the log does not say what failed:\n%s", w.logged())
		}
		w.mustBe(t, "down")
		asked := w.oracle.count()
		for range 20 {
			one(t, w)
		}
		if w.oracle.count() != asked {
			t.Error("requests ask a predictor that is down")
		}
		pass(time.Second)
		if n := w.oracle.count() - asked; n < 3 || n > 5 {
			t.Errorf("the probe asked %d times in a second, want 4", n)
		}
		w.oracle.set(well)
		pass(59 * time.Second)
		w.mustBe(t, "down")
		pass(2 * time.Second)
		w.mustBe(t, "live")
		w.fleet.scrape()
		decidedBy(t, one(t, w), policy.Predicted, "live")
		if n := w.count(t, "spillway_router_fallbacks_total", "state", "down"); n != 21 {
			t.Errorf("%v fallbacks counted as down, want 21", n)
		}
	})
}

func TestOneLateForecastFallsBackForThatRequestOnly(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		for range 400 {
			one(t, w)
		}
		w.oracle.set(hangs)
		began := time.Now()
		d := one(t, w)
		if took := time.Since(began); took != 5*time.Millisecond {
			t.Errorf("the request waited %v, want the deadline of 5 ms", took)
		}
		decidedBy(t, d, policy.CombinedLoad, "live")
		if !strings.HasPrefix(d.Reason, "forecast late; ") {
			t.Errorf("reason is %q", d.Reason)
		}
		if d.Bundle != 0 || d.Candidates[0].Forecast.Known() || d.Candidates[0].Vector[0] != d.Candidates[0].Vector[0] {
			t.Error("a late row has a bundle or a forecast, or lost the vectors that were asked with")
		}
		w.oracle.set(well)
		decidedBy(t, one(t, w), policy.Predicted, "live")

		w.oracle.set(hangs)
		decidedBy(t, one(t, w), policy.CombinedLoad, "live")
		one(t, w)
		one(t, w)
		one(t, w) // the fifth of 406 is more than 1 %
		w.mustBe(t, "slow")
		asked := w.oracle.count()
		decidedBy(t, one(t, w), policy.CombinedLoad, "slow")
		if w.oracle.count() != asked {
			t.Error("requests wait for a predictor that is slow")
		}
		w.oracle.set(well)
		pass(80 * time.Second)
		w.mustBe(t, "live")
	})
}

func TestThreeLateForecastsInTenSecondsAreSlow(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(hangs)
		one(t, w)
		one(t, w)
		w.mustBe(t, "live")
		decidedBy(t, one(t, w), policy.CombinedLoad, "slow")
	})
}

func TestAnswerAfterTheDeadlineIsLateHoweverGood(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			<-time.After(400 * time.Millisecond) // of its own, whatever ctx says
			return well(ctx, llm, v, out)
		})
		decidedBy(t, one(t, w), policy.CombinedLoad, "live")
		one(t, w)
		one(t, w)
		w.mustBe(t, "slow")
	})
}

func TestOldBundleIsStaleAndForecastsGoOnInShadow(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		validated := time.Now()
		aging := func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			a, err := well(ctx, llm, v, out)
			a.Validated, a.MaxAge = validated, time.Minute
			return a, err
		}
		w.oracle.set(aging)
		decidedBy(t, one(t, w), policy.Predicted, "live")
		pass(62 * time.Second) // nobody asks: time alone makes it stale
		w.mustBe(t, "stale")
		w.fleet.scrape()
		d := one(t, w)
		decidedBy(t, d, policy.ActiveRequest, "stale")
		if !d.Candidates[0].Forecast.Known() || d.Bundle != 7 {
			t.Error("forecasts are not logged while stale")
		}
		validated = time.Now()
		one(t, w)
		pass(59 * time.Second)
		w.fleet.scrape()
		validated = time.Now()
		decidedBy(t, one(t, w), policy.ActiveRequest, "stale")
		pass(time.Second)
		decidedBy(t, one(t, w), policy.Predicted, "live")
	})
}

func TestOtherSchemaIsStale(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(fails(route.ErrMismatch))
		decidedBy(t, one(t, w), policy.CombinedLoad, "stale")
		if n := w.count(t, "spillway_router_forecast_failures_total", "schema"); n != 1 {
			t.Errorf("counted %v times, want once", n)
		}
	})
}

func TestImplausibleIsWrongAtOnce(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(fails(fmt.Errorf("predictor: %w", route.ErrImplausible)))
		decidedBy(t, one(t, w), policy.CombinedLoad, "wrong")
	})
}

func TestForecastsNoEngineCanKeepAreWrongAtOnce(t *testing.T) {
	for what, spoil := range map[string]func(*feature.Forecast){
		"TTFT is NaN":          func(f *feature.Forecast) { f.TTFT.P50 = unknown },
		"p90 of TPOT is NaN":   func(f *feature.Forecast) { f.TPOT.P90 = unknown },
		"negative":             func(f *feature.Forecast) { f.TPOT.P50 = -1 },
		"zero":                 func(f *feature.Forecast) { f.TTFT.P50 = 0 },
		"a million seconds":    func(f *feature.Forecast) { f.TTFT.P90 = 1e6 },
		"infinite":             func(f *feature.Forecast) { f.TPOT.P50 = feature.Seconds(math.Inf(1)) },
		"residual is NaN":      func(f *feature.Forecast) { f.Residual.TTFT.P90 = math.NaN() },
		"residual is infinite": func(f *feature.Forecast) { f.Residual.TPOT.P50 = math.Inf(1) },
	} {
		t.Run(what, func(t *testing.T) {
			inLive(t, 3, nil, func(t *testing.T, w *world) {
				w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
					a, err := well(ctx, llm, v, out)
					spoil(&out[len(out)-1])
					return a, err
				})
				decidedBy(t, one(t, w), policy.CombinedLoad, "wrong")
				w.oracle.set(well)
				decidedBy(t, one(t, w), policy.CombinedLoad, "wrong")
				pass(61 * time.Second)
				w.fleet.scrape()
				decidedBy(t, one(t, w), policy.Predicted, "live")
			})
		})
	}
}

// Forecasts that outcomes refute don't decide any more; they go on in shadow,
// and decide again once outcomes have borne them out for the hold.
func TestForecastsThatOutcomesRefuteAreWrong(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		says := feature.Seconds(0.2) // of TTFT, while served measures 0.2
		bundle := int64(7)
		w.oracle.set(func(_ context.Context, _ string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			for i := range v {
				out[i] = exactly(&v[i], says, 0.02)
			}
			return route.Answer{Bundle: bundle, Validated: time.Now()}, nil
		})
		serve := func(n int) (last feature.Decision) {
			for range n {
				w.fleet.scrape()
				ticket := w.begin(t, query("x"))
				ticket.End(served(1000, 10))
				last = w.memory.decision(ticket)
				pass(300 * time.Millisecond) // one by one
			}
			return last
		}
		decidedBy(t, serve(100), policy.Predicted, "live")
		says = 1.4 // further off than the correction reaches
		d := serve(200)
		decidedBy(t, d, policy.ActiveRequest, "wrong")
		if !strings.Contains(d.Reason, "wrong (") || !d.Candidates[0].Forecast.Known() {
			t.Errorf("reason %q, forecast %v: want it said, and forecasts going on in shadow", d.Reason, d.Candidates[0].Forecast)
		}
		pass(2 * time.Minute)
		decidedBy(t, serve(1), policy.ActiveRequest, "wrong") // time alone mends nothing
		says = 0.2
		serve(250)
		w.mustBe(t, "wrong")
		pass(time.Minute)
		decidedBy(t, serve(2), policy.Predicted, "live")

		// Another bundle is not what the outcomes spoke against.
		says = 1.4
		serve(200)
		w.mustBe(t, "wrong")
		bundle, says = 8, 0.2
		serve(1)
		w.mustBe(t, "wrong")
		pass(time.Minute)
		serve(1)
		w.mustBe(t, "live")
	})
}

// Of an answer that turns the order of its priors round no endpoint is chosen, before
// it is known whether the bundle is wrong.
func TestAnswerThatLosesTheOrderOfItsPriorsDecidesNothing(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		full := w.begin(t, tokens(100_000)).Endpoint() // others are free
		w.oracle.set(func(_ context.Context, _ string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			for i := range v {
				out[i] = exactly(&v[i], 1/v[i].Prior().TTFT, 0.02)
			}
			return route.Answer{Bundle: 7, Validated: time.Now()}, nil
		})
		d := one(t, w)
		decidedBy(t, d, policy.CombinedLoad, "live")
		if d.Chosen == full || !strings.HasPrefix(d.Reason, "forecasts lose the order of their priors; ") || !d.Candidates[0].Forecast.Known() {
			t.Errorf("chose %s, where much waits is %s; reason %q, forecast %v", d.Chosen, full, d.Reason, d.Candidates[0].Forecast)
		}
		if _, err := policy.Replay(&d); err != nil {
			t.Error(err)
		}
		if n := w.count(t, "spillway_router_fallbacks_total", "lost_order", "live"); n != 1 {
			t.Errorf("%v fallbacks are counted, want 1", n)
		}
		w.oracle.set(well)
		decidedBy(t, one(t, w), policy.Predicted, "live")
	})
}

// A prompt whose prior no forecast can start from says nothing of the bundle.
func TestPriorOutOfRangeIsNotAskedAbout(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			for i := range v {
				if ttft := v[i].Prior().TTFT; !(ttft > 0 && ttft <= 600) {
					t.Errorf("asked about a prior of %v s", ttft)
				}
			}
			return well(ctx, llm, v, out)
		})
		asked := w.oracle.count()
		ticket := w.begin(t, tokens(4_000_000))
		d := w.memory.decision(ticket)
		decidedBy(t, d, policy.CombinedLoad, "live")
		if !strings.HasPrefix(d.Reason, "every prior is out of range; ") {
			t.Errorf("reason %q", d.Reason)
		}
		if w.oracle.count() != asked {
			t.Error("asked about nothing")
		}
		if n := w.count(t, "spillway_router_rows_unforecast_total", "prior"); n != 3 {
			t.Errorf("%v rows counted, want 3", n)
		}
		// Behind it everything waits too long, elsewhere not.
		d = one(t, w)
		decidedBy(t, d, policy.Predicted, "live")
		if d.Chosen == ticket.Endpoint() {
			t.Error("chose the endpoint without a forecast")
		}
		w.mustBe(t, "live")
	})
}

// An answer above 600 s is no wonder where the prior is near it, and wrong
// where the prior is far below.
func TestAnswerOutOfRangeIsJudgedByItsPrior(t *testing.T) {
	for _, c := range []struct {
		tokens int
		state  string
	}{{800_000, "live"}, {20_000, "wrong"}} {
		inLive(t, 3, nil, func(t *testing.T, w *world) {
			w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
				a, err := well(ctx, llm, v, out)
				for i := range out {
					if prior := v[i].Prior().TTFT; prior > 600 {
						t.Errorf("asked about a prior of %v s", prior)
					}
					out[i] = residual(&v[i], -0.4)
					if i > 0 {
						r := math.Log(601 / float64(v[i].Prior().TTFT))
						out[i].TTFT = feature.Quantiles{P50: 601, P90: 601}
						out[i].Residual.TTFT = feature.LogQuantiles{P50: r, P90: r}
					}
				}
				return a, err
			})
			d := w.memory.decision(w.begin(t, tokens(c.tokens)))
			w.mustBe(t, c.state)
			if c.state != "live" {
				return
			}
			decidedBy(t, d, policy.Predicted, "live")
			if d.Chosen != id(0) {
				t.Errorf("chose %s, which has no forecast", d.Chosen)
			}
			if n := w.count(t, "spillway_router_rows_unforecast_total", "answer"); n != 2 {
				t.Errorf("%v rows counted, want 2", n)
			}
		})
	}
}

func TestEndpointWithoutAForecastIsNoTrouble(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
			a, err := well(ctx, llm, v, out)
			out[0], out[2] = feature.NoForecast, feature.NoForecast
			return a, err
		})
		d := one(t, w)
		decidedBy(t, d, policy.Predicted, "live")
		if d.Chosen != id(1) {
			t.Errorf("chose %s, which nothing is known of", d.Chosen)
		}
		w.oracle.set(func(context.Context, string, []feature.Vector, []feature.Forecast) (route.Answer, error) {
			return route.Answer{Bundle: 7}, nil
		})
		d = one(t, w)
		decidedBy(t, d, policy.CombinedLoad, "live")
		if !strings.HasPrefix(d.Reason, "no usable endpoint has a forecast; ") {
			t.Errorf("reason is %q", d.Reason)
		}
	})
}

func TestShadowModeLogsForecastsAndLetsTheMatchedConfigurationDecide(t *testing.T) {
	inLive(t, 3, func(c *route.Config) { c.Mode = route.ModeShadow }, func(t *testing.T, w *world) {
		d := one(t, w)
		decidedBy(t, d, policy.CombinedLoad, "live")
		if !strings.HasPrefix(d.Reason, "shadow mode; ") || d.Bundle != 7 {
			t.Errorf("reason %q, bundle %d", d.Reason, d.Bundle)
		}
		for _, c := range d.Candidates {
			if !c.Forecast.Known() || !c.Corrected.Known() {
				t.Errorf("%s has no forecast", c.Endpoint)
			}
		}
	})
}

func TestClientThatLeavesWhileAskingSaysNothingOfThePredictor(t *testing.T) {
	inLive(t, 3, nil, func(t *testing.T, w *world) {
		w.oracle.set(hangs)
		for range 10 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			if _, err := w.Begin(ctx, query("x")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Begin: %v, want the client's own end", err)
			}
			cancel()
		}
		w.mustBe(t, "live")
		w.idle(t)
		if len(w.memory.decisions) != 0 {
			t.Error("a decision nobody waited for was recorded")
		}
	})
}

func TestEndOfTheRouterSaysNothingOfThePredictor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		stop := w.run()
		pass(1300 * time.Millisecond)
		w.oracle.set(hangs)
		w.fleet.scrape()
		for range 3 {
			one(t, w)
		}
		w.mustBe(t, "slow")
		<-time.After(187 * time.Millisecond) // 2 ms into the next probe
		if n := w.oracle.count(); n != 5 {
			t.Fatalf("%d calls, want 3 of requests and 2 of probes", n)
		}
		stop()
		w.mustBe(t, "slow")
	})
}
