package trainer_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// refused fits a window of n rows that change spoils and wants it refused on a
// ground, for a reason that says so.
func refused(t *testing.T, n int, ground trainer.Ground, says string, change func(*world), config func(*trainer.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w, c := newWorld(t, 30).add(n, time.Now(), time.Second), small(t)
		if change != nil {
			change(w)
		}
		if config != nil {
			config(&c)
		}
		w.write(t, s)
		r := once(t, c, s)
		if r.Verdict == nil || !slices.Contains(r.Verdict.Grounds, ground) || !strings.Contains(r.Why, says) {
			t.Fatalf("outcome %s because %s, want the ground %s and %q", r.Outcome, r.Why, ground, says)
		}
		if p := pointer(t, s); p.Version != 0 {
			t.Errorf("version %d is served", p.Version)
		}
		list := bundles(t, s)
		var stored trainer.Verdict
		if len(list) != 1 || json.Unmarshal(list[0].Verdict, &stored) != nil || !slices.Contains(stored.Grounds, ground) || stored.Accepted || stored.Until.IsZero() {
			t.Errorf("the stored refusal is %s", list[0].Verdict)
		}
	})
}

func TestALatencyThatIsTheSameForAllTeachesNothing(t *testing.T) {
	refused(t, 480, trainer.NoBetterThanLevel, "one number for all", func(w *world) {
		for i := range w.outcomes {
			o := &w.outcomes[i]
			o.TTFT = 0.3
			o.E2E = o.TTFT + o.TPOT*feature.Seconds(max(0, o.OutputTokens-1))
			o.FinishedAt = o.DecidedAt.Add(o.E2E.Duration())
		}
	}, nil)
}

func TestAColumnThatTellsTheFutureIsNamed(t *testing.T) {
	refused(t, 480, trainer.Leak, "scrape_age tells the latency", func(w *world) {
		for i := range w.decisions {
			w.decisions[i].ChosenVector[feature.Index("scrape_age")] = float32(w.outcomes[i].TTFT)
		}
	}, nil)
}

func TestWhatIsTooLargeIsRefused(t *testing.T) {
	refused(t, 480, trainer.TooLarge, "bytes, want at most 1000", nil, func(c *trainer.Config) { c.MostBytes = 1000 })
}

// What an endpoint adds to all its requests is taken out of what is learned. Here
// one was slow in a third of them, told apart by what only it reports; later it
// reports that of all, and is slow in none.
func TestUnlikeBiasesAreRefused(t *testing.T) {
	refused(t, 1600, trainer.UnlikeBiases, "differs by", func(w *world) {
		age := feature.Index("scrape_age")
		cut := 1200 // what is learned from comes before
		for i := range w.decisions {
			d, o := &w.decisions[i], &w.outcomes[i]
			if !strings.HasSuffix(d.Chosen, ".1:8000") || i < cut && i%3 > 0 {
				continue
			}
			d.ChosenVector[age] = 50 + d.ChosenVector[age]
			if i < cut { // it was slow, and is no more
				o.TTFT, o.TPOT = 1.6*o.TTFT, 1.6*o.TPOT
				o.E2E *= 1.6
				o.FinishedAt = o.DecidedAt.Add(o.E2E.Duration())
			}
		}
	}, nil)
}

// TestAWindowOfRowsThatAreNoneIsNotLearnedFrom: a tenth of them is enough to
// leave the others alone, and fewer are left out and counted.
func TestAWindowOfRowsThatAreNoneIsNotLearnedFrom(t *testing.T) {
	const rows = 440  // that enough of them judge
	quick := small(t) // what is learned from the rest is not looked at
	quick.Fit.Trees = 3
	age := feature.Index("scrape_age")
	for _, c := range []struct {
		flaw  trainer.Flaw
		spoil func(*feature.Decision, *feature.Outcome)
	}{
		{trainer.FlawUnknown, func(d *feature.Decision, _ *feature.Outcome) {
			d.ChosenVector[feature.Index("inflight_requests")] = float32(math.NaN())
		}},
		{trainer.FlawRange, func(d *feature.Decision, _ *feature.Outcome) { d.ChosenVector[age] = -1 }},
		{trainer.FlawSums, func(d *feature.Decision, _ *feature.Outcome) { d.ChosenVector[feature.ColumnUncachedTokens] += 10_000 }},
		{trainer.FlawTimes, func(_ *feature.Decision, o *feature.Outcome) {
			o.TTFT, o.TPOT, o.E2E = 1000*o.TTFT, 1000*o.TPOT, 1000*o.E2E
		}},
		{trainer.FlawTimes, func(_ *feature.Decision, o *feature.Outcome) { o.FinishedAt = o.DecidedAt.Add(-time.Second) }},
		{trainer.FlawFast, func(_ *feature.Decision, o *feature.Outcome) { o.TTFT = 0.0005 }},
		{trainer.FlawEmpty, func(_ *feature.Decision, o *feature.Outcome) {
			o.OutputTokens, o.TPOT, o.E2E = 0, feature.Seconds(feature.Unknown), o.TTFT
		}},
	} {
		for _, every := range []int{4, 20} {
			synctest.Test(t, func(t *testing.T) {
				s := &store{Store: &featurestoretest.Memory{}}
				w := newWorld(t, 31).add(rows, time.Now(), time.Second)
				for i := range w.outcomes {
					if i%every == 0 {
						c.spoil(&w.decisions[i], &w.outcomes[i])
					}
				}
				w.write(t, s)
				r := once(t, quick, s)
				if r.Verdict == nil || r.Verdict.Flawed[c.flaw] != (rows+every-1)/every || r.Rows != rows-(rows+every-1)/every {
					t.Fatalf("%s in every %dth row: %+v", c.flaw, every, r)
				}
				if many := every == 4; many != (r.Outcome == trainer.Spoilt) || many != slices.Contains(r.Verdict.Grounds, trainer.SpoiltWindow) {
					t.Errorf("%s in every %dth row: %s (%s)", c.flaw, every, r.Outcome, r.Why)
				}
			})
		}
	}
}

// TestNobodyHasToWaitForRoom: the prior saw a full cache, and the request found its
// prefix in use there. Such a row is a measurement, unless it was faster than the
// engine is without waiting.
func TestNobodyHasToWaitForRoom(t *testing.T) {
	for _, c := range []struct {
		ttft   feature.Seconds // 0: as measured
		flawed int
	}{{0, 0}, {0.0005, 120}} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{Store: &featurestoretest.Memory{}}
			w := newWorld(t, 34).add(480, time.Now(), time.Second)
			for i := 0; i < len(w.decisions); i += 4 {
				v := &w.decisions[i].ChosenVector
				v[feature.ColumnPriorTTFT] += 60
				v[feature.ColumnPriorAdmission] += 60
				if c.ttft > 0 {
					w.outcomes[i].TTFT = c.ttft
				}
			}
			w.write(t, s)
			if r := once(t, small(t), s); r.Verdict == nil || r.Verdict.Flawed[trainer.FlawFast] != c.flawed {
				t.Errorf("TTFT of %v: want %d flawed, got %+v", c.ttft, c.flawed, r.Verdict)
			}
		})
	}
}

// TestPriorsOfOtherRowsAreNotLearnedFrom: every row has the TTFT prior of
// another one.
func TestPriorsOfOtherRowsAreNotLearnedFrom(t *testing.T) {
	refused(t, 480, trainer.SpoiltWindow, "prior_ttft does not follow", func(w *world) {
		first := w.decisions[0].ChosenVector[feature.ColumnPriorTTFT]
		for i := range w.decisions {
			other := first
			if i+1 < len(w.decisions) {
				other = w.decisions[i+1].ChosenVector[feature.ColumnPriorTTFT]
			}
			w.decisions[i].ChosenVector[feature.ColumnPriorTTFT] = other
		}
	}, nil)
}

// TestInterferenceNeedNotFollow: where prefill takes most of the time from
// decoding, the TPOT prior is what the router knows of rates of prefill, which no
// other column tells. Such a window is as good as any.
func TestInterferenceNeedNotFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 32).add(480, time.Now(), time.Second)
		for i := range w.decisions {
			v, o := &w.decisions[i].ChosenVector, &w.outcomes[i]
			interference := feature.Seconds(0.3 * w.rng.Float64())
			v[feature.ColumnPriorTPOT] += float32(interference)
			v[feature.ColumnPriorInterference] = float32(interference)
			longer := interference * feature.Seconds(o.OutputTokens-1)
			o.TPOT, o.E2E, o.FinishedAt = o.TPOT+interference, o.E2E+longer, o.FinishedAt.Add(longer.Duration())
		}
		w.write(t, s)
		if r := once(t, small(t), s); r.Outcome != trainer.Accepted && r.Outcome != trainer.Refused {
			t.Errorf("%s (%s), want a candidate that is judged", r.Outcome, r.Why)
		}
	})
}

// TestAVerdictSaysWhatItIsMadeOf looks at the numbers beside the losses.
func TestAVerdictSaysWhatItIsMadeOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}}
		w := newWorld(t, 32)
		load := w.ttft
		w.ttft = func(l feature.Load) float64 { return load(l) + 0.2*math.Tanh(20*(float64(l.Scraped.Age)-0.5)) } // which no prior knows
		w.add(1600, time.Now(), time.Second).write(t, s)
		r := once(t, small(t), s)
		want(t, r, trainer.Accepted)
		v := r.Verdict
		if len(v.Order) != 2 || v.Order[0].Latency != "ttft" || v.Order[1].Latency != "tpot" {
			t.Fatalf("order %+v", v.Order)
		}
		for _, o := range v.Order {
			if !(o.Candidate.Mean > 0.6 && o.Candidate.Low <= o.Candidate.Mean && o.Candidate.High <= 1) || o.Served != nil {
				t.Errorf("%s orders %+v of the pairs", o.Latency, o.Candidate)
			}
			if diff := float64(o.Candidate.Mean - o.Prior.Mean - o.OverPrior.Mean); math.Abs(diff) > 1e-9 {
				t.Errorf("%s is %v over the prior, %v and %v alone", o.Latency, o.OverPrior.Mean, o.Candidate.Mean, o.Prior.Mean)
			}
			if o.Spread.Endpoints != 6 || !(o.Spread.Typical < 0.05) {
				t.Errorf("%s: bias spread %+v of six endpoints that are alike", o.Latency, o.Spread)
			}
		}
		if len(v.Coverage) != 2*5 {
			t.Fatalf("%d lines of coverage, want all and four bands, twice", len(v.Coverage))
		}
		for i := 0; i < len(v.Coverage); i += 5 {
			rows := 0
			for _, c := range v.Coverage[i+1 : i+5] {
				rows += c.Rows
				if c.Judged || c.Head != v.Coverage[i].Head {
					t.Errorf("a band of 100 rows is judged alone: %+v", c)
				}
			}
			if c := v.Coverage[i]; !c.Judged || c.Band != "all" || c.Rows != rows || c.Rows != 400 || c.Effective < 100 ||
				!(c.Share.Low < c.Share.Mean && c.Share.Mean < c.Share.High) {
				t.Errorf("coverage of all %+v", c)
			}
		}
		if v.Cost.Bytes < 1000 || v.Pairs < 1000 || v.JudgedAt.IsZero() || v.Beside != nil || !v.Until.Before(time.Now()) {
			t.Errorf("cost %+v, %d pairs, judged %v until %v beside %v", v.Cost, v.Pairs, v.JudgedAt, v.Until, v.Beside)
		}
		if list := v.Heads[bundle.TTFTP50].GoesBy; len(list) == 0 || list[0].Feature != "scrape_age" || !(list[0].Rise > 0) {
			t.Errorf("the forest of TTFT goes by %+v, want scrape_age first", list)
		}
		if !(v.VersusLevel.High < 0) {
			t.Errorf("against one number for all %+v", v.VersusLevel)
		}
	})
}

// TestADryRunLeavesNoTrace says what would happen and does nothing of it.
func TestADryRunLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: &featurestoretest.Memory{}, onLease: func() error { t.Error("a dry run takes the lease"); return nil }}
		newWorld(t, 33).add(900, time.Now(), time.Second).write(t, s)
		results, err := started(t, small(t), "a", s).DryRun(t.Context())
		if err != nil || len(results) != 1 {
			t.Fatal(results, err)
		}
		r := results[0]
		want(t, r, trainer.Accepted)
		if r.Version != 0 || r.Verdict == nil || len(bundles(t, s)) != 0 || pointer(t, s).Version != 0 {
			t.Errorf("a dry run left %d bundles and version %d served; result %+v", len(bundles(t, s)), pointer(t, s).Version, r)
		}
		// The real one does what was said, and a pin is known to a dry one.
		s.onLease = nil
		real := once(t, small(t), s)
		want(t, real, trainer.Accepted)
		if real.Verdict.VersusPrior != r.Verdict.VersusPrior || real.Verdict.Cost.Bytes != r.Verdict.Cost.Bytes {
			t.Errorf("the dry run said %+v, the real one %+v", r.Verdict, real.Verdict)
		}
	})
}
