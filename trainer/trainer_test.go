package trainer_test

import (
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

func TestAGoodWindowIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 1).add(900, time.Now(), 2*time.Second)
		w.write(t, s)
		r := once(t, small(t), s)
		want(t, r, trainer.Accepted)
		checkServed(t, s, w, r)
		if p := pointer(t, s); p.MaxAge != 30*time.Minute {
			t.Errorf("the bundle is fresh for %v, want 3 intervals of 10 minutes", p.MaxAge)
		}
	})
}

func TestABundleMayBeUsedAsLongAsIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		newWorld(t, 1).add(900, time.Now(), 2*time.Second).write(t, s)
		c := small(t)
		c.MaxAge = 25 * time.Minute
		want(t, once(t, c, s), trainer.Accepted)
		if p := pointer(t, s); p.MaxAge != c.MaxAge {
			t.Errorf("the bundle is fresh for %v, want %v", p.MaxAge, c.MaxAge)
		}
		c.MaxAge = 19 * time.Minute
		if err := c.Check(); err == nil {
			t.Error("a bundle may grow older than its refit comes")
		}
	})
}

// TestTheFullCycleOnPostgres is the same as in memory, on the real store.
func TestTheFullCycleOnPostgres(t *testing.T) {
	s := &store{Store: featurestoretest.New(t)}
	w := newWorld(t, 1).add(900, time.Now(), 2*time.Second)
	w.write(t, s)
	r := once(t, small(t), s)
	want(t, r, trainer.Accepted)
	checkServed(t, s, w, r)

	w.add(40, time.Now(), time.Millisecond)
	w.write(t, s)
	before := pointer(t, s)
	want(t, once(t, small(t), s), trainer.Quiet)
	if p := pointer(t, s); p.Version != r.Version || !p.ValidatedAt.After(before.ValidatedAt) || p.Reason != "quiet" {
		t.Errorf("after a quiet cycle %+v, was %+v", p, before)
	}
}

// checkServed looks at what an accepted result left in the store.
func checkServed(t *testing.T, s *store, w *world, r trainer.Result) {
	t.Helper()
	served, err := s.Store.Served(t.Context(), llm)
	if err != nil {
		t.Fatal(err)
	}
	if served.Version != r.Version || r.Version == 0 {
		t.Errorf("served is version %d, published %d", served.Version, r.Version)
	}
	b, err := bundle.Decode(served.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	checkVerdict(t, r)
	var stored struct {
		Accepted bool
		Heads    []any
	}
	if list := bundles(t, s); len(list) != 1 || json.Unmarshal(list[0].Verdict, &stored) != nil || !stored.Accepted || len(stored.Heads) != int(bundle.Targets) {
		t.Errorf("stored verdict %s", list[0].Verdict)
	}

	// On rows that nobody has seen yet.
	w.add(400, time.Now().Add(10*time.Minute), time.Second)
	decisions, outcomes := w.decisions, w.outcomes
	w.decisions, w.outcomes = nil, nil
	var prior, forecast [2]float64
	out := make([]feature.Forecast, 1)
	for i, d := range decisions {
		e.Evaluate([]feature.Vector{d.ChosenVector}, out)
		p := d.ChosenVector.Prior()
		prior[0] += far(outcomes[i].TTFT, p.TTFT)
		prior[1] += far(outcomes[i].TPOT, p.TPOT)
		forecast[0] += far(outcomes[i].TTFT, out[0].TTFT.P50)
		forecast[1] += far(outcomes[i].TPOT, out[0].TPOT.P50)
	}
	for i, name := range []string{"TTFT", "TPOT"} {
		if !(forecast[i] < 0.5*prior[i]) {
			t.Errorf("%s on fresh rows: mean |ln(actual/forecast)| %.3f, the prior's %.3f: want less than half", name, forecast[i]/400, prior[i]/400)
		}
	}
}

func far(actual, forecast feature.Seconds) float64 {
	return math.Abs(math.Log(float64(actual / forecast)))
}

// checkVerdict wants all the numbers that a decision was made from.
func checkVerdict(t *testing.T, r trainer.Result) {
	t.Helper()
	v := r.Verdict
	if v == nil || !v.Accepted || len(v.Reasons) != 0 || v.HeldOut < 100 || v.LearnRows < 100 || len(v.Heads) != int(bundle.Targets) {
		t.Fatalf("verdict %+v", v)
	}
	ordered := func(what string, i evaluate.Interval) {
		t.Helper()
		if !(i.Low < i.Mean && i.Mean < i.High) {
			t.Errorf("%s: interval %+v", what, i)
		}
	}
	for i, h := range v.Heads {
		ordered(h.Head+" candidate", h.Candidate)
		ordered(h.Head+" prior", h.Prior)
		ordered(h.Head+" CART", h.CART)
		if h.Head != bundle.Target(i).String() || h.Rows < 100 || h.Distinct < 2 {
			t.Errorf("head %+v", h)
		}
		quantile := []float64{0.5, 0.9, 0.5, 0.9}[i]
		if !(math.Abs(float64(h.Below)-quantile) < 0.2) {
			t.Errorf("%s: a share of %.2f lies below, want about %v", h.Head, h.Below, quantile)
		}
	}
	ordered("versus prior", v.VersusPrior)
	ordered("versus CART", v.VersusCART)
	if v.VersusServed != nil {
		t.Errorf("versus served %+v, though nothing was served", v.VersusServed)
	}
	if !(v.VersusPrior.High < 0 && v.VersusCART.Mean < 0) {
		t.Errorf("accepted with %+v against the prior and %+v against CART", v.VersusPrior, v.VersusCART)
	}
	if !(v.TTFTMedianAPE < v.PriorTTFTMedianAPE && v.TPOTMedianAPE < v.PriorTPOTMedianAPE) {
		t.Errorf("median errors: TTFT %v (prior %v), TPOT %v (prior %v)", v.TTFTMedianAPE, v.PriorTTFTMedianAPE, v.TPOTMedianAPE, v.PriorTPOTMedianAPE)
	}
}
