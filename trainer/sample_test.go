package trainer_test

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// fitted runs one cycle on the rows of w and returns it with the bytes it
// stored. It must be called in a bubble: its time is part of a bundle.
func fitted(t *testing.T, c trainer.Config, w *world) (trainer.Result, []byte) {
	t.Helper()
	s := &store{Store: &featurestoretest.Memory{}}
	w.write(t, s)
	r := once(t, c, s)
	list := bundles(t, s)
	if len(list) != 1 {
		t.Fatalf("%d bundles, result %+v", len(list), r)
	}
	return r, list[0].Bytes
}

func TestTheSameRowsGiveTheSameBytes(t *testing.T) {
	var first []byte
	for _, threads := range []int{1, 2} {
		before := runtime.GOMAXPROCS(threads)
		synctest.Test(t, func(t *testing.T) {
			c := small(t)
			c.Fit.Threads = threads
			_, got := fitted(t, c, newWorld(t, 5).add(480, time.Now(), time.Second))
			if first == nil {
				first = got
			}
			if !bytes.Equal(first, got) {
				t.Error("another bundle with GOMAXPROCS 2 than with 1")
			}
			c.Seed++
			if _, got := fitted(t, c, newWorld(t, 5).add(480, time.Now(), time.Second)); bytes.Equal(first, got) {
				t.Error("the seed makes no difference")
			}
		})
		runtime.GOMAXPROCS(before)
	}
}

// TestWhatWasNotObservedIsNotLearned puts rows between the good ones that
// would spoil any fit, and wants the fit of the good ones alone.
func TestWhatWasNotObservedIsNotLearned(t *testing.T) {
	unknown := feature.Seconds(feature.Unknown)
	kinds := []struct {
		name  string
		spoil func(*feature.Decision, *feature.Outcome)
	}{
		{"client abort", func(_ *feature.Decision, o *feature.Outcome) { o.Status = feature.ClientAbort }},
		{"upstream error", func(_ *feature.Decision, o *feature.Outcome) { o.Status, o.HTTPStatus = feature.UpstreamError, 500 }},
		{"upstream timeout", func(_ *feature.Decision, o *feature.Outcome) { o.Status = feature.UpstreamTimeout }},
		{"lost", func(_ *feature.Decision, o *feature.Outcome) { o.Status = feature.Lost }},
		{"retried", func(_ *feature.Decision, o *feature.Outcome) { o.Attempt = 2 }},
		{"served elsewhere", func(_ *feature.Decision, o *feature.Outcome) { o.Endpoint = "http://elsewhere:8000" }},
		{"another schema", func(d *feature.Decision, _ *feature.Outcome) { d.Schema[0] ^= 1 }},
		{"shed", func(d *feature.Decision, o *feature.Outcome) { d.Chosen, o.Status = "", feature.Shed }},
		{"nothing measured", func(_ *feature.Decision, o *feature.Outcome) { o.TTFT, o.TPOT = unknown, unknown }},
		{"impossible times", func(_ *feature.Decision, o *feature.Outcome) { o.TTFT, o.TPOT = -1, feature.Seconds(math.Inf(1)) }},
		{"no end", func(_ *feature.Decision, o *feature.Outcome) { o.FinishedAt = time.Time{} }},
		{"no prior", func(d *feature.Decision, _ *feature.Outcome) {
			d.ChosenVector[feature.ColumnPriorTPOT] = float32(feature.Unknown)
		}},
		{"infinite load", func(d *feature.Decision, _ *feature.Outcome) { d.ChosenVector[6] = float32(math.Inf(1)) }},
	}
	// junk makes n rows that kind spoils, between those of the good world.
	junk := func(t *testing.T, n int, spoil func(i int) func(*feature.Decision, *feature.Outcome)) *world {
		w := newWorld(t, 7).add(n, time.Now().Add(-time.Millisecond), time.Second)
		for i := range w.decisions {
			w.outcomes[i].TTFT, w.outcomes[i].TPOT = 1e-3, 1e-4
			spoil(i)(&w.decisions[i], &w.outcomes[i])
		}
		return w
	}
	for _, c := range kinds {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{Store: &featurestoretest.Memory{}}
				newWorld(t, 6).add(30, time.Now(), time.Second).write(t, s)
				junk(t, 30, func(int) func(*feature.Decision, *feature.Outcome) { return c.spoil }).write(t, s)
				if r := once(t, small(t), s); r.Rows != 30 {
					t.Errorf("%d samples, want the 30 good ones", r.Rows)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		clean, alone := fitted(t, small(t), newWorld(t, 6).add(500, time.Now(), time.Second))
		w := newWorld(t, 6).add(500, time.Now(), time.Second)
		all := junk(t, 500, func(i int) func(*feature.Decision, *feature.Outcome) { return kinds[i%len(kinds)].spoil })
		w.decisions, w.outcomes = append(w.decisions, all.decisions...), append(w.outcomes, all.outcomes...)
		if r, got := fitted(t, small(t), w); r.Rows != clean.Rows || !bytes.Equal(got, alone) {
			t.Errorf("%d samples, want %d, and the same bundle", r.Rows, clean.Rows)
		}
	})
}

// TestNothingOpenIsLearned gives some early requests an end after the
// held-out part began: their labels were not known then.
func TestNothingOpenIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 8).add(800, time.Now(), time.Second)
		from := w.decisions[600].DecidedAt // the latest quarter judges
		known := 0
		for i := range 600 {
			if i%3 == 0 {
				w.outcomes[i].FinishedAt = from.Add(time.Duration(i%2) * time.Minute)
			}
			if w.outcomes[i].FinishedAt.Before(from) {
				known++
			}
		}
		newest := w.decisions[0].DecidedAt
		for i := range 600 {
			if at := w.decisions[i].DecidedAt; w.outcomes[i].FinishedAt.Before(from) {
				newest = at
			}
		}
		r, bytes := fitted(t, small(t), w)
		if r.Verdict.LearnRows != known || known > 400 || r.Verdict.HeldOut != 200 {
			t.Errorf("learned from %d rows and judged on %d, want %d and 200", r.Verdict.LearnRows, r.Verdict.HeldOut, known)
		}
		b, err := bundle.Decode(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if b.Window.Rows != known || !b.Window.To.Equal(newest) {
			t.Errorf("the bundle says %+v, want %d rows to %v", b.Window, known, newest)
		}
	})
}

// TestWithoutTPOTThePriorStays is about an LLM whose answers are one token:
// its TTFT can be learned all the same.
func TestWithoutTPOTThePriorStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 9)
		w.oneOnly = true
		w.add(480, time.Now(), time.Second).write(t, s)
		r := once(t, small(t), s)
		want(t, r, trainer.Accepted)
		if !strings.Contains(r.Why, "TPOT") {
			t.Errorf("why is %q, want it to say what is missing", r.Why)
		}
		served, err := s.Store.Served(t.Context(), llm)
		if err != nil {
			t.Fatal(err)
		}
		b, err := bundle.Decode(served.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		e, err := b.Evaluator()
		if err != nil {
			t.Fatal(err)
		}
		d, _ := w.row(time.Now())
		out := make([]feature.Forecast, 1)
		e.Evaluate([]feature.Vector{d.ChosenVector}, out)
		if prior := d.ChosenVector.Prior(); out[0].TPOT.P50 != prior.TPOT || out[0].TPOT.P90 != prior.TPOT || out[0].TTFT.P50 == prior.TTFT {
			t.Errorf("forecast %+v of prior %+v, want the prior's TPOT and a TTFT of its own", out[0], prior)
		}
		if v := r.Verdict.Heads[bundle.TPOTP50]; v.Rows != 0 || !feature.IsUnknown(v.Candidate.Mean) {
			t.Errorf("TPOT is judged on nothing: %+v", v)
		}
	})
}

// TestAServedTPOTIsNotGivenUp: a day of one-token answers must not replace a
// bundle that knows TPOT by one that doesn't.
func TestAServedTPOTIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 10).add(480, time.Now(), time.Second)
		w.write(t, s)
		want(t, once(t, small(t), s), trainer.Accepted)
		pass(8 * 24 * time.Hour)
		w.oneOnly, w.began = true, time.Now()
		w.add(480, time.Now(), time.Second).write(t, s)
		r := once(t, small(t), s)
		want(t, r, trainer.Refused)
		if !strings.Contains(r.Why, "TPOT") {
			t.Errorf("refused because %s, want TPOT named", r.Why)
		}
	})
}

// TestWithoutTTFTNothingIsJudged is about traffic that never streams.
func TestWithoutTTFTNothingIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 9).add(480, time.Now(), time.Second)
		for i := range w.outcomes {
			w.outcomes[i].TTFT = feature.Seconds(feature.Unknown)
		}
		w.write(t, s)
		r := once(t, small(t), s)
		want(t, r, trainer.TooFew)
		if !strings.Contains(r.Why, "TTFT") {
			t.Errorf("why is %q, want it to say what is missing", r.Why)
		}
	})
}
