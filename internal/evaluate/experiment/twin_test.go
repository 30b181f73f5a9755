package experiment_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

// logged is one row of a made-up log.
type logged struct {
	d feature.Decision
	o feature.Outcome
}

// made is a log of a few requests a second, of which some fail, are given up,
// turned away, or have no outcome.
func made(rng *rand.Rand, n int, from time.Time, spread time.Duration, part func(time.Time) (design, arm string)) []logged {
	unknown := feature.Seconds(feature.Unknown)
	var times []time.Duration
	for range n {
		times = append(times, time.Duration(rng.Int64N(int64(spread))).Truncate(time.Microsecond))
	}
	slices.Sort(times)
	var all []logged
	for _, since := range times {
		at := from.Add(since)
		text, arm := part(at)
		ttft := rng.ExpFloat64() * (1 + 0.3*float64(len(arm)))
		r := logged{
			feature.Decision{
				DecidedAt: at, LLM: "toy", Experiment: text, Arm: arm, Policy: "p-" + arm, Chosen: "e0", PromptTokens: float64(rng.IntN(1000)),
				ExpectedOutputTokens: 10, SLOTTFT: unknown, SLOTPOT: unknown,
			},
			feature.Outcome{
				Attempt: 1, Status: feature.OK, TTFT: feature.Seconds(ttft), TPOT: feature.Seconds(rng.Float64()), E2E: feature.Seconds(ttft + rng.ExpFloat64()),
				OutputTokens: float64(1 + rng.IntN(100)), CensoredAt: unknown, FinishedAt: at.Add(time.Minute),
			},
		}
		switch rng.IntN(12) {
		case 0:
			r.o.Status, r.o.TTFT, r.o.TPOT, r.o.E2E = feature.UpstreamError, unknown, unknown, unknown
		case 1:
			r.o.Status, r.o.TTFT, r.o.TPOT, r.o.E2E, r.o.CensoredAt = feature.ClientAbort, unknown, unknown, unknown, 2
		case 2:
			r.o = feature.Outcome{}
		case 3:
			r.d.Chosen, r.o.Status, r.o.TTFT, r.o.TPOT, r.o.E2E = "", feature.Shed, unknown, unknown, unknown
		}
		all = append(all, r)
	}
	return all
}

func report(t *testing.T, o experiment.Options, log []logged, seed uint64) experiment.Report {
	t.Helper()
	a, err := experiment.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range log {
		if err := a.Add(&log[i].d, &log[i].o); err != nil {
			t.Fatal(err)
		}
	}
	r, err := a.Report(seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near reports whether two numbers are the same but for rounding; both may be
// unknown.
func near(a, b float64) bool {
	return a != a && b != b || math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}

// numbers is what a row is worth, the way the documentation says it.
func (l *logged) numbers(slo float64) (ttft, tpot, e2e, attained, failed float64, judged bool) {
	nan := math.NaN()
	ttft, tpot, e2e, attained, failed = nan, nan, nan, nan, nan
	switch {
	case l.o.Attempt == 0 && l.d.Chosen != "":
		return ttft, tpot, e2e, attained, failed, false
	case l.d.Chosen == "" || l.o.Status == feature.UpstreamError:
		return ttft, tpot, e2e, 0, 1, true
	case l.o.Status == feature.ClientAbort:
		if slo < 2 { // it had waited for longer
			attained = 0
		}
		return ttft, tpot, e2e, attained, failed, true
	}
	attained = 0
	if float64(l.o.TTFT) <= slo {
		attained = 1
	}
	return float64(l.o.TTFT), float64(l.o.TPOT), float64(l.o.E2E), attained, 0, true
}

// The slow way keeps every row and goes through all of them for every number.
func TestSwitchbackIsWhatTheSlowWayFinds(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		plan := design.Switchback{
			Name: "x", Start: start, Block: 10 * time.Second, BurnIn: time.Duration(3+seed%3) * time.Second, Pairs: 7 + rng.IntN(3), Seed: seed,
			Arms: [2]string{"a", "bbb"},
		}
		log := made(rng, 60*plan.Pairs, start, plan.End().Sub(start)+time.Second, func(at time.Time) (string, string) {
			if place, ok := plan.At(at); ok {
				return plan.String(), plan.Arms[place.Arm]
			}
			return "", ""
		})
		slo := []float64{0.5, 1, 3}[seed%3]
		got := report(t, experiment.Options{SLO: experiment.SLO{TTFT: feature.Seconds(slo)}, Detect: 0.1, Unfinished: true}, log, seed)

		value := func(block int, quantity experiment.Quantity, from, to time.Duration) float64 {
			var all []float64
			for i := range log {
				into := log[i].d.DecidedAt.Sub(start) - time.Duration(block)*plan.Block
				if into < from || into >= to {
					continue
				}
				ttft, tpot, e2e, attained, failed, judged := log[i].numbers(slo)
				v := map[experiment.Quantity]float64{
					experiment.TTFT: ttft, experiment.TTFTP90: ttft, experiment.TPOT: tpot, experiment.E2E: e2e,
					experiment.Attained: attained, experiment.Goodput: attained, experiment.Failed: failed,
				}[quantity]
				if judged && v == v {
					all = append(all, v)
				}
			}
			switch quantity {
			case experiment.TTFTP90:
				slices.Sort(all)
				at := 0.9 * float64(len(all)-1)
				low, high := all[int(at)], all[min(len(all)-1, int(at)+1)]
				return low + (at-math.Floor(at))*(high-low)
			case experiment.Goodput:
				return stat.Mean(all, nil) * float64(len(all)) / (to - from).Seconds()
			}
			return stat.Mean(all, nil)
		}
		for i, q := range experiment.Quantities() {
			var first, second, difference, carry []float64
			end := plan.Block
			if q == experiment.TPOT || q == experiment.E2E { // which run on when the other arm decides
				end -= min(plan.BurnIn, plan.Kept()/2)
			}
			middle := (plan.BurnIn + end) / 2
			for pair := range plan.Pairs {
				blocks := [2]int{2 * pair, 2*pair + 1}
				if plan.Arm(2*pair) == 1 {
					blocks = [2]int{2*pair + 1, 2 * pair}
				}
				var whole, early, late [2]float64
				for arm, b := range blocks {
					whole[arm] = value(b, q, plan.BurnIn, end)
					if q != experiment.TTFTP90 {
						early[arm], late[arm] = value(b, q, plan.BurnIn, middle), value(b, q, middle, end)
					}
				}
				first, second = append(first, whole[0]), append(second, whole[1])
				difference = append(difference, whole[1]-whole[0])
				if c := late[1] - late[0] - early[1] + early[0]; c == c || q == experiment.TTFTP90 {
					carry = append(carry, c) // where a half has no request, none
				}
			}
			e := got.Switchback.Effects[i]
			n := float64(len(difference))
			mean, sd := stat.MeanStdDev(difference, nil)
			half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * sd / math.Sqrt(n)
			ratio := stat.Mean(second, nil) / stat.Mean(first, nil)
			var moves []float64
			for k := range first {
				moves = append(moves, second[k]/stat.Mean(second, nil)-first[k]/stat.Mean(first, nil))
			}
			relative := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * stat.StdDev(moves, nil) / math.Sqrt(n)
			for what, pair := range map[string][2]float64{
				"pairs":         {float64(e.Pairs), n},
				"first":         {float64(e.Arms[0]), stat.Mean(first, nil)},
				"second":        {float64(e.Arms[1]), stat.Mean(second, nil)},
				"difference":    {float64(e.Difference.Mean), mean},
				"its low end":   {float64(e.Difference.Low), mean - half},
				"its high end":  {float64(e.Difference.High), mean + half},
				"relative":      {float64(e.Relative.Mean), ratio - 1},
				"relative low":  {float64(e.Relative.Low), ratio*math.Exp(-relative) - 1},
				"relative high": {float64(e.Relative.High), ratio*math.Exp(relative) - 1},
				"p":             {float64(e.P), turnedRound(difference)},
			} {
				if !near(pair[0], pair[1]) {
					t.Fatalf("%s of %s is %v, the slow way %v", what, q, pair[0], pair[1])
				}
			}
			if q != experiment.TTFTP90 && !near(float64(e.Carry.Mean), stat.Mean(carry, nil)) {
				t.Fatalf("carry of %s is %v, the slow way %v", q, e.Carry.Mean, stat.Mean(carry, nil))
			}
		}
	}
}

// turnedRound tries every order of the pairs, one after the other.
func turnedRound(differences []float64) float64 {
	sum := func(order int) (s float64) {
		for i, d := range differences {
			if order>>i&1 == 1 {
				d = -d
			}
			s += d
		}
		return math.Abs(s)
	}
	as := 0.0
	for order := range 1 << len(differences) {
		if sum(order) >= sum(0)-1e-9 {
			as++
		}
	}
	return as / float64(int(1)<<len(differences))
}

// Many pairs are judged by orders that are drawn; of few both are known.
func TestDrawnOrdersAreLikeAllOfThem(t *testing.T) {
	plan := design.Switchback{Name: "x", Start: start, Block: time.Second, Pairs: 18, Seed: 1, Arms: [2]string{"a", "b"}}
	log := made(rand.New(rand.NewPCG(5, 1)), 1200, start, plan.End().Sub(start), func(at time.Time) (string, string) {
		place, _ := plan.At(at)
		return plan.String(), plan.Arms[place.Arm]
	})
	got := report(t, experiment.Options{}, log, 1)
	var differences []float64
	blocks := got.Switchback.Blocks
	for i := 0; i < len(blocks); i += 2 {
		differences = append(differences, float64(blocks[i+1].Values[0]-blocks[i].Values[0])*float64(1-2*blocks[i].Arm))
	}
	p, want := float64(got.Switchback.Effects[0].P), turnedRound(differences)
	if sd := math.Sqrt(want * (1 - want) / 10_000); math.Abs(p-want) > 5*sd {
		t.Errorf("drawn orders say %v, all of them %v", p, want)
	}
}

// The slow way goes through all pairs of requests, and fits traffic by QR.
func TestSplitIsWhatTheSlowWayFinds(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		split := design.Split{Share: 0.3, Arms: [2]string{"a", "bbb"}}
		log := made(rng, 400, start, 200*time.Second, func(time.Time) (string, string) {
			switch x := rng.Float64(); {
			case x < 0.1:
				return split.String(), ""
			case x < 0.37:
				return split.String(), "bbb"
			}
			return split.String(), "a"
		})
		horizon := time.Duration(1+3*seed) * time.Second
		got := report(t, experiment.Options{Horizon: horizon, SLO: experiment.SLO{TTFT: 1}}, log, seed)
		at := func(i int) time.Duration { return log[i].d.DecidedAt.Sub(log[0].d.DecidedAt) }
		second, coins := 0.0, 0.0
		for i := range log {
			if log[i].d.Arm != "" {
				coins++
			}
			if log[i].d.Arm == "bbb" {
				second++
			}
		}
		p := second / coins
		x := mat.NewDense(len(log), 12, nil)
		for i := range log {
			output := log[i].o.OutputTokens
			x.SetRow(i, append([]float64{1, log[i].d.PromptTokens, output}, make([]float64, 9)...))
			for k, h := range []time.Duration{horizon / 16, horizon / 4, horizon} {
				for j := range i {
					if at(i)-at(j) <= h {
						x.Set(i, 3+3*k, x.At(i, 3+3*k)+1)
						x.Set(i, 4+3*k, x.At(i, 4+3*k)+log[j].d.PromptTokens)
						x.Set(i, 5+3*k, x.At(i, 5+3*k)+log[j].o.OutputTokens)
					}
				}
			}
		}
		var qr mat.QR
		qr.Factorize(x)
		for _, e := range got.Split.Effects {
			y := make([]float64, len(log))
			var known []float64
			for i := range log {
				ttft, tpot, e2e, attained, failed, judged := log[i].numbers(1)
				y[i] = map[experiment.Quantity]float64{experiment.TTFT: ttft, experiment.TPOT: tpot, experiment.E2E: e2e, experiment.Attained: attained, experiment.Failed: failed}[e.Quantity]
				if !judged {
					y[i] = math.NaN()
				}
				if y[i] == y[i] {
					known = append(known, y[i])
				}
			}
			centred := mat.NewDense(len(log), 1, nil)
			for i := range y {
				if y[i] == y[i] {
					centred.Set(i, 0, y[i]-stat.Mean(known, nil))
				}
			}
			var beta, fitted mat.Dense
			if err := qr.SolveTo(&beta, false, centred); err != nil {
				t.Fatal(err)
			}
			fitted.Mul(x, &beta)
			// Each choice's Q, then the mean of one arm less that of the other.
			sum, n := 0.0, 0.0
			var arms [2][]float64
			for i := range log {
				if y[i] == y[i] {
					n++
				}
				if log[i].d.Arm == "" {
					continue
				}
				q := 0.0
				for j := i; j < len(log); j++ {
					if at(j)-at(i) <= horizon && y[j] == y[j] {
						q += centred.At(j, 0) - fitted.At(j, 0)
					}
				}
				z := 0.0
				if log[i].d.Arm == "bbb" {
					z = 1
				}
				sum += q * (z - p) / (p * (1 - p))
				if y[i] == y[i] {
					arms[int(z)] = append(arms[int(z)], y[i])
				}
			}
			if dq := sum / n; !near(float64(e.DQ.Mean), dq) {
				t.Fatalf("DQ of %s is %v, the slow way %v", e.Quantity, e.DQ.Mean, dq)
			}
			if naive := stat.Mean(arms[1], nil) - stat.Mean(arms[0], nil); !near(float64(e.Naive.Mean), naive) {
				t.Fatalf("the naive difference of %s is %v, the slow way %v", e.Quantity, e.Naive.Mean, naive)
			}
		}
	}
}
