package trainer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// TestARefusalIsStoredAndMovesNothing holds also for small windows, where
// chance is largest.
func TestARefusalIsStoredAndMovesNothing(t *testing.T) {
	// Residuals that nothing in a vector tells, around 0 or around a bias.
	blind := func(bias, spread float64) func(*world) {
		return func(w *world) {
			w.ttft = func(feature.Load) float64 { return bias + spread*w.rng.NormFloat64() }
			w.tpot, w.drift = w.ttft, 0
		}
	}
	for _, c := range []struct {
		name   string
		change func(*world)
		config func(*trainer.Config)
		why    string
	}{
		{"the prior is right", blind(0, 0), nil, "does not beat the prior"},
		{"labels that nothing tells", blind(0, 0.3), nil, "does not beat the prior"},
		{"one answer for every row", blind(0.3, 0), func(c *trainer.Config) { c.Fit.MinLeafRows = 5000 }, "says the same of every row"},
	} {
		for _, n := range []int{400, 600} {
			t.Run(fmt.Sprintf("%s in %d rows", c.name, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &store{Store: &featurestoretest.Memory{}}
					w, config := newWorld(t, uint64(n)), small(t)
					c.change(w)
					if c.config != nil {
						c.config(&config)
					}
					w.add(n, time.Now(), time.Second).write(t, s)
					r := once(t, config, s)
					want(t, r, trainer.Refused)
					if !strings.Contains(r.Why, c.why) {
						t.Errorf("refused because %s, want %q", r.Why, c.why)
					}
					if p := pointer(t, s); p.Version != 0 {
						t.Errorf("version %d is served", p.Version)
					}
					checkRefusal(t, bundles(t, s), r)
				})
			})
		}
	}
}

// checkRefusal wants one refused bundle with the numbers of r.
func checkRefusal(t *testing.T, list []featurestore.Bundle, r trainer.Result) {
	t.Helper()
	last := list[len(list)-1]
	var stored struct {
		Accepted bool
		Reasons  []string
		HeldOut  int `json:"held_out_rows"`
		Heads    []struct{ Prior struct{ Mean float64 } }
	}
	if err := json.Unmarshal(last.Verdict, &stored); err != nil {
		t.Fatal(err)
	}
	if last.Accepted || stored.Accepted || last.Version != r.Version || !slices.Equal(stored.Reasons, r.Verdict.Reasons) ||
		stored.HeldOut != r.Verdict.HeldOut || len(stored.Heads) != 4 || len(last.Bytes) == 0 {
		t.Errorf("stored refusal %s of version %d, result %+v", last.Verdict, last.Version, r)
	}
}

func TestTooFewRowsAreNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		newWorld(t, 1).add(396, time.Now(), time.Second).write(t, s)
		r := once(t, small(t), s)
		want(t, r, trainer.TooFew)
		if len(bundles(t, s)) != 0 || r.Rows != 396 || !strings.Contains(r.Why, "99 held-out rows with a TTFT, want 100") {
			t.Errorf("%d bundles, result %+v", len(bundles(t, s)), r)
		}
	})
}

// TestTheServedBundleIsJudgedAnew is about a bundle whose successor is
// refused: it stays fresh when it is still good, and only then.
func TestTheServedBundleIsJudgedAnew(t *testing.T) {
	for _, good := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{Store: &featurestoretest.Memory{}}
			w := newWorld(t, 2).add(480, time.Now(), time.Second)
			w.write(t, s)
			want(t, once(t, small(t), s), trainer.Accepted)
			first := pointer(t, s)

			pass(20 * time.Minute)
			if !good { // the engines have changed: the prior was right after all
				w.honest()
			}
			w.add(200, time.Now(), time.Second)
			w.write(t, s)
			tr := started(t, poor(t), "b", s)
			r := again(t, tr)
			want(t, r, trainer.Refused)
			if v := r.Verdict.VersusServed; v == nil || good && !(v.Mean > 0) {
				t.Errorf("against the served bundle %+v", v)
			}
			p := pointer(t, s)
			if p.Version != first.Version {
				t.Fatalf("version %d is served, want %d", p.Version, first.Version)
			}
			if good != p.ValidatedAt.Equal(time.Now()) || good != (p.Reason == "rescored") {
				t.Errorf("good %v: the pointer is %+v", good, p)
			}

			// Silence afterwards: what was found bad is not extended either,
			// and the same rows are not judged over and over.
			pass(10 * time.Minute)
			want(t, again(t, tr), trainer.Quiet)
			if p := pointer(t, s); good != p.ValidatedAt.Equal(time.Now()) {
				t.Errorf("good %v: after a quiet cycle the pointer is %+v", good, p)
			}
			if n := len(bundles(t, s)); n != 2 {
				t.Errorf("%d bundles are stored, want the served one and the refused one", n)
			}
		})
	}
}

// TestOldRowsDoNotKeepABundleFresh: a trainer that starts anew each time must
// not renew a bundle for ever on the rows that were there when traffic ended,
// nor store the same refusal over and over.
func TestOldRowsDoNotKeepABundleFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 2).add(480, time.Now(), time.Second)
		w.write(t, s)
		want(t, once(t, small(t), s), trainer.Accepted)
		pass(20 * time.Minute)
		w.add(80, time.Now(), time.Second)
		w.write(t, s)
		for _, c := range []struct {
			after   time.Duration
			outcome string
			fresh   bool
		}{{time.Second, trainer.Refused, true}, {23 * time.Hour, trainer.Quiet, true}, {2 * time.Hour, trainer.Quiet, false}} {
			pass(c.after)
			want(t, once(t, poor(t), s), c.outcome)
			if p := pointer(t, s); c.fresh != p.ValidatedAt.Equal(time.Now()) {
				t.Errorf("%v later the pointer is %+v, want fresh %v", c.after, p, c.fresh)
			}
		}
		if n := len(bundles(t, s)); n != 2 {
			t.Errorf("%d bundles are stored, want the served one and one refusal", n)
		}
	})
}

func TestSilenceExtendsABundleForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 3).add(480, time.Now(), time.Second)
		w.write(t, s)
		tr := started(t, small(t), "a", s)
		want(t, again(t, tr), trainer.Accepted)
		var last featurestore.Pointer
		for hour := range 30 {
			pass(time.Hour)
			w.add(1, time.Now(), time.Second) // a trickle is silence too
			w.write(t, s)
			r := again(t, tr)
			want(t, r, trainer.Quiet)
			p := pointer(t, s)
			if fresh := hour < 23; fresh != p.ValidatedAt.Equal(time.Now()) || p.Reason != "quiet" {
				t.Errorf("hour %d: the pointer is %+v", hour+1, p)
			}
			if hour >= 23 && (p.ValidatedAt != last.ValidatedAt || r.Why == "") {
				t.Errorf("hour %d: result %+v, pointer %+v", hour+1, r, p)
			}
			last = p
		}
		if n := len(bundles(t, s)); n != 1 {
			t.Errorf("%d bundles are stored, want 1", n)
		}
	})
}

// TestTooFewRowsExtendTheServedBundle: rows that retention has dropped are no
// evidence against a bundle.
func TestTooFewRowsExtendTheServedBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 3).add(480, time.Now(), time.Second)
		w.write(t, s)
		c := small(t)
		c.Window = time.Hour
		want(t, once(t, c, s), trainer.Accepted)
		for _, x := range []struct {
			after time.Duration
			fresh bool
		}{{20 * time.Hour, true}, {5 * time.Hour, false}} {
			pass(x.after)
			w.add(60, time.Now(), time.Second)
			w.write(t, s)
			want(t, once(t, c, s), trainer.TooFew)
			if p := pointer(t, s); x.fresh != p.ValidatedAt.Equal(time.Now()) {
				t.Errorf("%v later the pointer is %+v, want fresh %v", x.after, p, x.fresh)
			}
		}
	})
}

// TestTheSameRefusalIsStoredOnce: without new rows a refit would give the
// same refusal again, and its bytes would fill the store.
func TestTheSameRefusalIsStoredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 4).honest().add(480, time.Now(), time.Second)
		w.write(t, s)
		tr := started(t, small(t), "a", s)
		want(t, again(t, tr), trainer.Refused)
		pass(time.Minute)
		want(t, again(t, tr), trainer.Quiet)
		if n := len(bundles(t, s)); n != 1 {
			t.Errorf("%d bundles are stored, want 1", n)
		}
		w.add(60, time.Now(), time.Millisecond)
		w.write(t, s)
		pass(time.Minute)
		want(t, again(t, tr), trainer.Refused)
	})
}
