package trainer_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/trainer"
)

func TestOneOfTwoTrainersRefits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &featurestoretest.Memory{}
		reading, goOn := make(chan struct{}), make(chan struct{})
		first := &store{Store: memory, onWindow: func(string) error {
			close(reading)
			<-goOn
			return nil
		}}
		newWorld(t, 11).add(480, time.Now(), time.Second).write(t, first)
		tr := started(t, small(t), "a", first)
		done := make(chan error, 1)
		go func() {
			_, err := tr.Once(t.Context())
			done <- err
		}()
		<-reading
		results, err := started(t, small(t), "b", &store{Store: memory}).Once(t.Context())
		if err != nil || len(results) != 0 {
			t.Errorf("the second trainer did %+v %v, want nothing", results, err)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := len(bundles(t, first)); n != 1 || pointer(t, first).Version != 1 {
			t.Errorf("%d bundles and version %d served, want 1 and 1", n, pointer(t, first).Version)
		}
		// The lease was given back.
		if results, err := started(t, small(t), "b", &store{Store: memory}).Once(t.Context()); err != nil || len(results) != 1 {
			t.Errorf("the second trainer did %+v %v afterwards", results, err)
		}
	})
}

func TestALostLeasePublishesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		hook func(s *store, lose func() error)
	}{
		{"before the fit", func(s *store, lose func() error) { s.onWindow = func(string) error { return lose() } }},
		{"before publishing", func(s *store, lose func() error) { s.onPublish = lose }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{Store: &featurestoretest.Memory{}}
				newWorld(t, 12).add(480, time.Now(), time.Second).write(t, s)
				var away atomic.Bool
				s.onRenew = func() error {
					if away.Load() {
						return errors.New("no database")
					}
					return nil
				}
				c.hook(s, func() error {
					away.Store(true)
					defer away.Store(false)
					pass(time.Hour)
					_, ok, err := s.AcquireLease(t.Context(), leaseName, "other", time.Hour)
					if !ok {
						t.Error("the lease outlives an hour")
					}
					return err
				})
				results, err := started(t, small(t), "a", s).Once(t.Context())
				if !errors.Is(err, featurestore.ErrLeaseLost) || !strings.Contains(err.Error(), llm) || len(results) != 0 {
					t.Errorf("results %+v, error %v: want the lost lease and the LLM named", results, err)
				}
				if n := len(bundles(t, s)); n != 0 || pointer(t, s).Version != 0 {
					t.Errorf("%d bundles are stored and %d served, want none", n, pointer(t, s).Version)
				}
			})
		})
	}
}

// TestADeadTrainersLeaseEndsSoon: who died in the middle of a refit keeps the
// others from theirs for a minute.
func TestADeadTrainersLeaseEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &featurestoretest.Memory{}
		var ttl time.Duration
		dying := &store{Store: memory, onTTL: func(d time.Duration) { ttl = d }}
		newWorld(t, 11).add(480, time.Now(), time.Second).write(t, dying)
		again(t, started(t, small(t), "a", dying))
		if _, ok, err := memory.AcquireLease(t.Context(), leaseName, "dead", ttl); !ok || err != nil {
			t.Fatal(ok, err)
		}
		pass(61 * time.Second)
		if results, err := started(t, small(t), "b", &store{Store: memory}).Once(t.Context()); err != nil || len(results) != 1 {
			t.Errorf("a minute after the other died: %+v %v, want a refit", results, err)
		}
	})
}

// TestALeaseOutlastsALongRead: reading a window may take long, and fitting
// too: the lease is renewed meanwhile.
func TestALeaseOutlastsALongRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		newWorld(t, 12).add(480, time.Now(), time.Second).write(t, s)
		slow := func() error { pass(7 * time.Minute); return nil }
		s.onWindow = func(string) error { return slow() }
		s.onPublish = slow
		want(t, once(t, small(t), s), trainer.Accepted)
	})
}

func TestOneLLMsFailureIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken page")
		s := &store{Store: &featurestoretest.Memory{}, onWindow: func(name string) error {
			if name == "bad" {
				return broken
			}
			return nil
		}}
		w := newWorld(t, 13).add(480, time.Now(), time.Second)
		d, _ := w.row(time.Now())
		d.LLM = "bad"
		w.decisions = append(w.decisions, d)
		w.write(t, s)
		results, err := started(t, small(t), "a", s).Once(t.Context())
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
			t.Errorf("error %v, want the broken page of bad", err)
		}
		if len(results) != 1 || results[0].LLM != llm || results[0].Outcome != trainer.Accepted {
			t.Errorf("results %+v, want %s accepted", results, llm)
		}
	})
}

func TestRunOutlivesAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cycles []time.Duration
		began := time.Now()
		s := &store{Store: &featurestoretest.Memory{}}
		s.onLease = func() error {
			if cycles = append(cycles, time.Since(began)); len(cycles) <= 3 {
				return errors.New("no database")
			}
			return nil
		}
		newWorld(t, 14).add(900, time.Now(), time.Second).write(t, s)
		c := small(t)
		c.Schedule = "@every 20s"
		reg := prometheus.NewRegistry()
		tr, err := trainer.New(c, "a", s, slog.New(slog.DiscardHandler), reg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- tr.Run(ctx) }()
		pass(130 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(cycles) != 6 || cycles[0] != 20*time.Second || cycles[5] != 2*time.Minute {
			t.Errorf("cycles at %v, want every 20 s for 130 s", cycles)
		}
		if p := pointer(t, s); p.Version != 1 || p.MaxAge != time.Minute {
			t.Errorf("served %+v, want version 1, fresh for 3 intervals of 20 s", p)
		}
		got := counts(t, reg)
		for name, n := range map[string]float64{"failures": 3, "accepted": 1, "quiet": 2} {
			if got[name] != n {
				t.Errorf("%s: counted %v, want %v", name, got[name], n)
			}
		}
	})
}

// counts are the trainer's counters: failures, the refits by outcome, the
// refusals by ground, and when the last success was.
func counts(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			switch f.GetName() {
			case "spillway_trainer_failures_total":
				out["failures"] = m.GetCounter().GetValue()
			case "spillway_trainer_last_success_timestamp_seconds":
				out["last success"] = m.GetGauge().GetValue()
			case "spillway_trainer_refusals_total":
				out["ground "+m.Label[0].GetValue()] = m.GetCounter().GetValue()
			case "spillway_trainer_drifts_total":
				out["drift"] += m.GetCounter().GetValue()
			case "spillway_trainer_refits_total":
				out[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

func TestRunEndsInTheMiddleOfARefit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &store{Store: &featurestoretest.Memory{}}
		newWorld(t, 14).add(480, time.Now(), time.Second).write(t, s)
		s.onWindow = func(string) error { cancel(); return nil }
		if err := started(t, small(t), "a", s).Run(ctx); err != nil {
			t.Error(err)
		}
		if n := len(bundles(t, s)); n != 0 {
			t.Errorf("%d bundles were stored after the end", n)
		}
		if _, ok, err := s.AcquireLease(t.Context(), leaseName, "b", time.Minute); !ok || err != nil {
			t.Errorf("the lease was not given back: %v %v", ok, err)
		}
	})
}
