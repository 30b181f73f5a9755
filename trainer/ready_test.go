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

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// runs starts a trainer that refits every minute; the bubble's end ends it.
func runs(t *testing.T, s *store) (*trainer.Trainer, *prometheus.Registry) {
	t.Helper()
	c, reg := small(t), prometheus.NewRegistry()
	c.Schedule = "@every 1m"
	tr, err := trainer.New(c, "a", s, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tr.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return tr, reg
}

func TestReadinessFollowsTheCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var away atomic.Pointer[error] // what the database answers
		answers := func(err error) { away.Store(&err) }
		answers(nil)
		s := &store{Store: &featurestoretest.Memory{}, onLease: func() error { return *away.Load() }}
		tr, reg := runs(t, s)
		ready := func(says string) {
			t.Helper()
			err := tr.Ready()
			if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("after %s: %v, want %q", time.Since(began), err, says)
			}
		}
		success := func(want time.Time) {
			t.Helper()
			if got := counts(t, reg)["last success"]; got != float64(want.Unix()) {
				t.Errorf("after %s: the last success was at %.0f, want %d", time.Since(began), got, want.Unix())
			}
		}
		ready("") // waits for its first cycle
		success(time.Unix(0, 0))
		answers(errors.New("no database"))
		pass(61 * time.Second)
		ready("no database")
		success(time.Unix(0, 0))
		answers(nil)
		pass(time.Minute)
		ready("")
		success(began.Add(2 * time.Minute))
		answers(errors.New("gone again"))
		pass(time.Minute)
		ready("gone again")
		success(began.Add(2 * time.Minute))

		// Another trainer works: this one is as well as can be.
		answers(nil)
		if _, ok, err := s.AcquireLease(t.Context(), leaseName, "other", time.Hour); !ok || err != nil {
			t.Fatal(ok, err)
		}
		pass(time.Minute)
		ready("")
		success(began.Add(2 * time.Minute))
	})
}

// A cycle that does not come to its end is no success, and in time that shows.
func TestAHangingRefitIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		s := &store{Store: &featurestoretest.Memory{}, onLease: func() error { <-goOn; return nil }}
		tr, _ := runs(t, s)
		pass(3*time.Minute - time.Second)
		if err := tr.Ready(); err != nil {
			t.Errorf("within 3 intervals: %v", err)
		}
		pass(2 * time.Second)
		if err := tr.Ready(); err == nil || !strings.Contains(err.Error(), "every 1m0s") {
			t.Errorf("after 3 intervals: %v", err)
		}
		close(goOn)
		synctest.Wait()
		if err := tr.Ready(); err != nil {
			t.Errorf("once it ended: %v", err)
		}
	})
}

func TestRefusalsAreCountedByGround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		newWorld(t, 4).honest().add(480, time.Now(), time.Second).write(t, s)
		_, reg := runs(t, s)
		pass(61 * time.Second)
		got := counts(t, reg)
		if got["refused"] != 1 || got["ground prior"] != 1 || got["ground missing"] != 0 {
			t.Errorf("counted %v, want one refusal for the prior", got)
		}
		for _, ground := range []string{"prior", "cart", "level", "served", "constant", "head", "missing", "order", "bias", "coverage", "monotone", "leak", "window", "size", "cost", "fit"} {
			if _, ok := got["ground "+ground]; !ok {
				t.Errorf("refusals for %q are not counted from the start", ground)
			}
		}
	})
}

// What a person rolled back stays fresh and stays served while refits pass the
// gate, until it is released.
func TestAPinnedBundleIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 2).add(480, time.Now(), time.Second)
		w.write(t, s)
		want(t, once(t, small(t), s), trainer.Accepted)
		first := pointer(t, s).Version
		if err := s.Rollback(t.Context(), llm, first); err != nil {
			t.Fatal(err)
		}

		// The engines change so far that a new bundle is better for sure.
		pass(8 * 24 * time.Hour)
		w.began = time.Now()
		ttft, tpot := w.ttft, w.tpot
		w.ttft = func(l feature.Load) float64 { return ttft(l) + 0.3 }
		w.tpot = func(l feature.Load) float64 { return tpot(l) + 0.3 }
		w.add(900, time.Now(), time.Second)
		w.write(t, s)
		tr := started(t, small(t), "b", s)
		r := again(t, tr)
		want(t, r, trainer.Held)
		if r.Version == first || r.Verdict == nil || !r.Verdict.Accepted || !strings.Contains(r.Why, "pinned") {
			t.Errorf("result %+v", r)
		}
		p := pointer(t, s)
		if p.Version != first || !p.Pinned {
			t.Errorf("the pointer is %+v, want version %d pinned", p, first)
		}
		if list := bundles(t, s); len(list) != 2 || !list[1].Accepted {
			t.Errorf("%d bundles are stored, want the held one too", len(list))
		}

		// It was judged, so the same rows are not fitted over and over.
		pass(10 * time.Minute)
		want(t, again(t, tr), trainer.Quiet)

		if err := s.Release(t.Context(), llm); err != nil {
			t.Fatal(err)
		}
		w.add(60, time.Now(), time.Second)
		w.write(t, s)
		r = again(t, tr)
		want(t, r, trainer.Accepted)
		if p := pointer(t, s); p.Version != r.Version || p.Pinned {
			t.Errorf("released the pointer is %+v, want version %d", p, r.Version)
		}
	})
}
