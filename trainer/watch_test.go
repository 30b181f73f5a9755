package trainer_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// forecast says of the rows what a bundle forecast: the world's own median,
// as it was before anything moved.
func (w *world) forecast(bundle int64, moved float64) {
	for i := range w.decisions {
		d, o := &w.decisions[i], &w.outcomes[i]
		d.Bundle = bundle
		f := feature.Forecast{Support: 1}
		f.TTFT.P50, f.TPOT.P50 = o.TTFT/feature.Seconds(math.Exp(0.1*w.rng.NormFloat64())), o.TPOT/feature.Seconds(math.Exp(0.1*w.rng.NormFloat64()))
		f.TTFT.P90, f.TPOT.P90 = f.TTFT.P50*1.14, f.TPOT.P50*1.14
		d.Candidates[0].Forecast, d.Candidates[0].Corrected = f, f
		by := feature.Seconds(math.Exp(moved))
		o.TTFT, o.TPOT, o.E2E = o.TTFT*by, o.TPOT*by, o.E2E*by
		o.FinishedAt = o.DecidedAt.Add(o.E2E.Duration())
	}
}

// lacking takes what was not measured out of the rows: one in ten answers has a
// single token, and one in six was not streamed.
func (w *world) lacking() {
	unknown := feature.Seconds(feature.Unknown)
	for i := range w.outcomes {
		o := &w.outcomes[i]
		if i%10 == 7 {
			o.TPOT, o.OutputTokens = unknown, 1
		}
		if i%6 == 0 {
			o.TTFT, o.TPOT = unknown, unknown
		}
	}
}

// bias is the mean ln(actual/forecast) of TTFT and TPOT.
func bias(t *testing.T, encoded []byte, decisions []feature.Decision, outcomes []feature.Outcome) (off [2]float64) {
	t.Helper()
	b, err := bundle.Decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]feature.Forecast, 1)
	var n [2]float64
	for i, d := range decisions {
		e.Evaluate([]feature.Vector{d.ChosenVector}, out)
		for k, x := range [2][2]feature.Seconds{{outcomes[i].TTFT, out[0].TTFT.P50}, {outcomes[i].TPOT, out[0].TPOT.P50}} {
			if !feature.IsUnknown(float64(x[0])) {
				off[k] += math.Log(float64(x[0] / x[1]))
				n[k]++
			}
		}
	}
	return [2]float64{off[0] / n[0], off[1] / n[1]}
}

// TestDriftRefitsEarly: with a refit an hour, one comes minutes after outcomes
// have moved, and another when they have told where to; that one learns from what
// came since. None does while they stay where they are.
func TestDriftRefitsEarly(t *testing.T) {
	for _, moved := range []float64{0, 0.4} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var cycles []time.Duration
			away, torn := false, false
			s := &store{Store: &featurestoretest.Memory{}}
			s.onLease = func() error { cycles = append(cycles, time.Since(began)); return nil }
			s.onWindow = func(string) error {
				if away {
					return errors.New("no database")
				}
				return nil
			}
			s.afterWindow = func() error {
				if torn {
					return errors.New("the database went away")
				}
				return nil
			}
			c, reg := small(t), prometheus.NewRegistry()
			c.Schedule = "@every 1h"
			tr, err := trainer.New(c, "a", s, slog.New(slog.DiscardHandler), reg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- tr.Run(ctx) }()
			w := newWorld(t, 40)
			var newest []feature.Decision
			var measured []feature.Outcome
			for minute := range 50 {
				pass(time.Minute)
				synctest.Wait()
				away = minute == 5                  // a look that fails is made up for
				torn = minute >= 22 && minute <= 24 // and one that fails half-way sees no row twice
				at := 0.0
				if minute >= 20 {
					at = moved
				}
				w.add(50, time.Now(), time.Second)
				w.forecast(1, at)
				w.lacking()
				newest, measured = w.decisions, w.outcomes
				w.write(t, s)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			early := counts(t, reg)["drift"]
			switch {
			case moved == 0 && (len(cycles) != 0 || early != 0):
				t.Errorf("nothing moved, and there were refits at %v", cycles)
			case moved > 0 && (len(cycles) != 2 || early != 1 || cycles[0] < 21*time.Minute || cycles[0] > 30*time.Minute || cycles[1] > cycles[0]+6*time.Minute):
				t.Errorf("after 20 minutes outcomes moved by %v, and there were refits at %v, for %v drifts", moved, cycles, early)
			}
			if moved == 0 {
				return
			}
			served, err := s.Store.Served(t.Context(), llm)
			if err != nil {
				t.Fatal(err)
			}
			if off := bias(t, served.Bytes, newest, measured); math.Abs(off[0]) > 0.1 || math.Abs(off[1]) > 0.1 {
				t.Errorf("minutes after outcomes moved by %v, what is served is off by %.2f", moved, off)
			}
		})
	}
}
