package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// failing is a predictor that is well but for a while.
type failing struct {
	fleet.Forecaster
	from, to time.Duration
	how      correction.Result
	asked    int // while it fails
}

// calm forecasts what the quiet engines of tests do, so that nothing refutes it.
type calm struct{}

func (calm) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	fleet.PriorForecaster{}.Forecast(vectors, out)
	for i := range out {
		out[i].TTFT.P90 *= 2
		out[i].TPOT.P90 *= 2
		out[i].Residual.TTFT.P90, out[i].Residual.TPOT.P90 = 0.7, 0.7
	}
}

func (f *failing) Answer(at time.Duration) fleet.Answer {
	if at < f.from || at >= f.to {
		return fleet.Answer{Bundle: 1}
	}
	f.asked++
	return fleet.Answer{Result: f.how, Bundle: 1}
}

// fails runs 110 s of requests, one each 200 ms, with a predictor that fails from
// 20 s to 40 s.
func fails(t *testing.T, how correction.Result) (*fleet.Result, []correction.Change, *failing) {
	t.Helper()
	var changes []correction.Change
	p := &failing{Forecaster: calm{}, from: 20 * time.Second, to: 40 * time.Second, how: how}
	c := world(policy.Predicted, 3, single(550, 100, 3, 200*time.Millisecond))
	c.Router.Forecaster = p
	c.Router.Changes = func(x correction.Change) { changes = append(changes, x) }
	r, err := fleet.SimulateChecked(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Requests) != 550 {
		t.Fatalf("%d requests ended, want 550", len(r.Requests))
	}
	for _, o := range r.Requests {
		if o.Status != feature.OK {
			t.Fatalf("a request ended as %s", o.Status)
		}
	}
	return r, changes, p
}

// Whatever a predictor does, no request fails, the fallback decides from the next
// request on, and forecasts again when the predictor has been well for the hold.
func TestPredictorThatFailsIsDoneWithout(t *testing.T) {
	for how, state := range map[correction.Result]correction.State{
		correction.Broken: correction.Down, correction.Untrained: correction.Stale, correction.Invalid: correction.Wrong,
	} {
		r, changes, _ := fails(t, how)
		if len(changes) != 3 || changes[1].To != state || changes[2].To != correction.Live {
			t.Fatalf("%s: changes %+v, want to it and back", state, changes)
		}
		back := changes[2].At.Sub(changes[0].At)
		if back < 100*time.Second || back > 101*time.Second {
			t.Errorf("%s: back after %v, want 60 s after 40 s", state, back)
		}
		for _, o := range r.Requests {
			forecast := o.At < 20*time.Second || o.At > back
			if o.At != back && forecast != (o.Policy == policy.Predicted) {
				t.Fatalf("%s: at %v decided by %s", state, o.At, o.Policy)
			}
		}
	}
}

// Requests wait 5 ms for a predictor that hangs, until three have; after that
// only probes do.
func TestPredictorThatHangsCostsThreeRequestsFiveMilliseconds(t *testing.T) {
	well, _, _ := fails(t, correction.Answered)
	r, changes, p := fails(t, correction.Late)
	if len(changes) != 3 || changes[1].To != correction.Slow || changes[2].To != correction.Live {
		t.Fatalf("changes %+v, want to slow and back", changes)
	}
	at := map[int]time.Duration{} // TTFT by session
	for _, o := range well.Requests {
		at[o.Session] = o.TTFT
	}
	late := 0
	for _, o := range r.Requests {
		if o.At >= 20*time.Second && o.At < 21*time.Second && o.TTFT-at[o.Session] == 5*time.Millisecond {
			late++
		}
	}
	if late != 3 {
		t.Errorf("%d requests waited 5 ms more, want 3", late)
	}
	if p.asked < 80 || p.asked > 90 {
		t.Errorf("asked %d times while it hung: want one of each probe in 20 s, and of three requests", p.asked)
	}
}
