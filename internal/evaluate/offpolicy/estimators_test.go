package offpolicy_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
)

var begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// distribution draws probabilities that add up to a share, some of them 0.
func distribution(rng *rand.Rand, n int, share float64) []float64 {
	p, sum := make([]float64, n), 0.0
	for i := range p {
		if rng.IntN(3) > 0 {
			p[i] = math.Pow(rng.Float64(), 4)
			sum += p[i]
		}
	}
	if sum == 0 {
		p[rng.IntN(n)], sum = 1, 1
	}
	for i := range p {
		p[i] *= share / sum
	}
	return p
}

// drawn is an action of a distribution, -1 for what it lacks of 1.
func drawn(rng *rand.Rand, p []float64) int {
	u := rng.Float64()
	for i, x := range p {
		if u < x {
			return i
		}
		u -= x
	}
	return -1
}

// samples are decisions of any kind: some certain, some that do nothing.
func samples(rng *rand.Rand, n int) []offpolicy.Sample {
	out := make([]offpolicy.Sample, n)
	at := begin
	idle := 1.0
	if rng.IntN(2) == 0 {
		idle = 0.9
	}
	for i := range out {
		at = at.Add(time.Duration(rng.ExpFloat64() * float64(time.Second)))
		actions := make([]offpolicy.Action, 1+rng.IntN(6))
		logged, target := distribution(rng, len(actions), idle), distribution(rng, len(actions), idle)
		for k := range actions {
			actions[k] = offpolicy.Action{Logged: logged[k], Target: target[k], Model: 9 * rng.Float64()}
		}
		s := offpolicy.Sample{At: at, Actions: actions, Chosen: drawn(rng, logged), Value: 10 * rng.Float64()}
		if s.Chosen < 0 && idle == 1 { // rounding
			s.Chosen = 0
			for k := range logged {
				if logged[k] > 0 {
					s.Chosen = k
				}
			}
		}
		out[i] = s
	}
	return out
}

// slow is every estimator written down as in the papers, over all samples at
// once.
func slow(all []offpolicy.Sample, tau float64) (target, logged map[string]float64, effective, largest, missing float64) {
	sure := func(s offpolicy.Sample) bool {
		most := 0.0
		for _, a := range s.Actions {
			most = max(most, a.Logged)
		}
		return s.Chosen >= 0 && s.Actions[s.Chosen].Logged > 1-1e-9 || s.Chosen < 0 && most < 1e-9
	}
	done := func(s offpolicy.Sample) (q float64) {
		for _, a := range s.Actions {
			q += a.Target
		}
		return q
	}
	forecast := func(s offpolicy.Sample) (v float64) {
		for _, a := range s.Actions {
			v += a.Target * a.Model
		}
		return v
	}
	mean := func(of func(offpolicy.Sample) (v, n float64), every bool) float64 {
		var v, n float64
		for _, s := range all {
			if every || !sure(s) {
				a, b := of(s)
				v, n = v+a, n+b
			}
		}
		return v / n
	}
	w := func(s offpolicy.Sample) float64 {
		if s.Chosen < 0 {
			return 0
		}
		return s.Actions[s.Chosen].Target / s.Actions[s.Chosen].Logged
	}
	miss := func(s offpolicy.Sample) float64 {
		if s.Chosen < 0 {
			return 0
		}
		return s.Value - s.Actions[s.Chosen].Model
	}
	came := func(s offpolicy.Sample) (float64, float64) {
		if s.Chosen < 0 {
			return 0, 0
		}
		return s.Value, 1
	}
	target = map[string]float64{
		offpolicy.DirectAll: mean(func(s offpolicy.Sample) (float64, float64) { return forecast(s), done(s) }, true),
		offpolicy.Direct:    mean(func(s offpolicy.Sample) (float64, float64) { return forecast(s), done(s) }, false),
		offpolicy.IPS:       mean(func(s offpolicy.Sample) (float64, float64) { return w(s) * s.Value, done(s) }, false),
		offpolicy.SNIPS:     mean(func(s offpolicy.Sample) (float64, float64) { return w(s) * s.Value, w(s) }, false),
		offpolicy.DR:        mean(func(s offpolicy.Sample) (float64, float64) { return forecast(s) + w(s)*miss(s), done(s) }, false),
		offpolicy.SwitchDR: mean(func(s offpolicy.Sample) (float64, float64) {
			if w(s) > tau {
				return forecast(s), done(s)
			}
			return forecast(s) + w(s)*miss(s), done(s)
		}, false),
	}
	said := func(s offpolicy.Sample) (float64, float64) {
		if s.Chosen < 0 {
			return 0, 0
		}
		return s.Actions[s.Chosen].Model, 1
	}
	logged = map[string]float64{offpolicy.DirectAll: mean(said, true), offpolicy.Direct: mean(said, false)}
	for _, name := range []string{offpolicy.IPS, offpolicy.SNIPS, offpolicy.DR, offpolicy.SwitchDR} {
		logged[name] = mean(came, false)
	}
	var sum, square, without, does float64
	for _, s := range all {
		if sure(s) {
			continue
		}
		sum, square, largest = sum+w(s), square+w(s)*w(s), max(largest, w(s))
		for _, a := range s.Actions {
			does += a.Target
			if a.Logged == 0 {
				without += a.Target
			}
		}
	}
	return target, logged, sum * sum / square, largest, without / does
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

// Every estimator is what it is written down to be.
func TestEstimatorsAsWrittenDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		all := samples(rng, rapid.IntRange(2, 500).Draw(t, "samples"))
		e := offpolicy.NewEstimators(10)
		for i := range all {
			if err := e.Add(&all[i]); err != nil {
				t.Fatal(err)
			}
		}
		target, logged, effective, largest, missing := slow(all, e.Switch())
		for _, got := range e.Estimates(1) {
			if got.Withheld != "" {
				if got.Target.Mean == got.Target.Mean {
					t.Fatalf("%s is withheld and has a number", got.Name)
				}
				continue
			}
			if !near(float64(got.Target.Mean), target[got.Name]) || !near(float64(got.Logged), logged[got.Name]) ||
				!near(float64(got.Effect.Mean), target[got.Name]-logged[got.Name]) {
				t.Fatalf("%s: %v beside %v, want %v beside %v", got.Name, got.Target.Mean, got.Logged, target[got.Name], logged[got.Name])
			}
			if !(got.Effect.Low <= got.Effect.Mean && got.Effect.Mean <= got.Effect.High) && len(all) > 50 {
				t.Fatalf("%s: an effect of %v outside its interval %v to %v", got.Name, got.Effect.Mean, got.Effect.Low, got.Effect.High)
			}
		}
		if _, certain := e.Samples(); int(certain) == len(all) {
			return
		}
		o := e.Overlap()
		if effective == effective && !near(o.Effective, effective) || !near(o.Largest, largest) || missing == missing && !near(o.Missing, missing) {
			t.Fatalf("%v effective samples, largest weight %v, missing %v: want %v, %v, %v", o.Effective, o.Largest, o.Missing, effective, largest, missing)
		}
	})
}

// The threshold of switch-DR is the one with the least bound, tried one by one.
func TestSwitchThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		all := samples(rng, rapid.IntRange(10, 300).Draw(t, "samples"))
		e := offpolicy.NewEstimators(10)
		for i := range all {
			if err := e.Add(&all[i]); err != nil {
				t.Fatal(err)
			}
		}
		bound := func(tau float64) float64 {
			var n, sum, square, beyond, largest float64
			for _, s := range all {
				if s.Chosen >= 0 && s.Actions[s.Chosen].Logged > 1-1e-9 {
					continue
				}
				y := 0.0
				for k, a := range s.Actions {
					y += a.Target * a.Model
					if a.Logged > 0 && a.Target/a.Logged > tau {
						beyond += a.Target
					} else if k == s.Chosen {
						y += a.Target / a.Logged * (s.Value - a.Model)
					}
				}
				if s.Chosen >= 0 {
					largest = max(largest, s.Value)
				}
				n, sum, square = n+1, sum+y, square+y*y
			}
			bias := largest * beyond / n
			return max(0, square/n-sum*sum/n/n)/n + bias*bias
		}
		chosen := bound(e.Switch())
		for k := range 15 {
			if other := bound(math.Ldexp(1, k)); other < chosen*(1-1e-9) {
				t.Fatalf("threshold %v has the bound %v, %v has %v", e.Switch(), chosen, math.Ldexp(1, k), other)
			}
		}
		if other := bound(math.Inf(1)); other < chosen*(1-1e-9) {
			t.Fatalf("threshold %v has the bound %v, none has %v", e.Switch(), chosen, other)
		}
	})
}

// bandit is a problem without interference whose truth is known: contexts with
// a scale, actions that are better or worse, a forecast that is biased.
type bandit struct {
	rng  *rand.Rand
	bias float64
}

const arms = 4

func (b *bandit) mean(scale float64, arm int) float64 { return scale * (1 + float64(arm)) }

// one is a decision of a policy that prefers the worst arm; the target takes
// the best one mostly.
func (b *bandit) one(at time.Time) offpolicy.Sample {
	scale := 0.5 + b.rng.Float64()
	logged, target := [arms]float64{0.1, 0.2, 0.3, 0.4}, [arms]float64{0.7, 0.1, 0.1, 0.1}
	s := offpolicy.Sample{At: at, Actions: make([]offpolicy.Action, arms), Chosen: drawn(b.rng, logged[:])}
	if s.Chosen < 0 {
		s.Chosen = arms - 1
	}
	for k := range arms {
		s.Actions[k] = offpolicy.Action{Logged: logged[k], Target: target[k], Model: b.bias * b.mean(scale, k)}
	}
	s.Value = b.mean(scale, s.Chosen) * (0.5 + b.rng.Float64())
	return s
}

// The truth: the mean of scale is 1.
const (
	banditTarget = 0.7*1 + 0.1*2 + 0.1*3 + 0.1*4
	banditLogged = 0.1*1 + 0.2*2 + 0.3*3 + 0.4*4
)

// Every estimator finds the truth of a bandit, and its interval covers it about
// as often as it says; a forecast that is wrong misleads the direct method
// alone.
func TestBandit(t *testing.T) {
	const repeats, rows = 60, 600
	for _, bias := range []float64{1, 0.6} {
		covered, sequence := map[string]int{}, 0
		sum := map[string]float64{}
		for repeat := range repeats {
			b := bandit{rand.New(rand.NewPCG(uint64(repeat), 77)), bias}
			e := offpolicy.NewEstimators(10)
			always := true
			for i := range rows {
				s := b.one(begin.Add(time.Duration(i) * 100 * time.Millisecond))
				if err := e.Add(&s); err != nil {
					t.Fatal(err)
				}
				low, high, ok := e.Sequence()
				always = always && ok && low <= banditTarget-banditLogged && banditTarget-banditLogged <= high
			}
			if always {
				sequence++
			}
			for _, x := range e.Estimates(uint64(repeat)) {
				sum[x.Name] += float64(x.Target.Mean)
				if float64(x.Effect.Low) <= banditTarget-banditLogged && banditTarget-banditLogged <= float64(x.Effect.High) {
					covered[x.Name]++
				}
			}
		}
		for name, n := range covered {
			if mean := sum[name] / repeats; math.Abs(mean-banditTarget) > 0.04 && !(bias != 1 && (name == offpolicy.Direct || name == offpolicy.DirectAll)) {
				t.Errorf("forecasts off by %v, %s: %v on average, the truth is %v", bias, name, mean, banditTarget)
			}
			if bias == 1 && n < 51 {
				t.Errorf("%s covers the truth %d times of %d", name, n, repeats)
			}
		}
		if sequence < 57 {
			t.Errorf("forecasts off by %v: the confidence sequence holds throughout %d times of %d", bias, sequence, repeats)
		}
	}
}

// Samples whose numbers make no sense are refused; others are taken without
// allocating.
func TestSamplesThatMakeNoSense(t *testing.T) {
	good := offpolicy.Sample{At: begin, Actions: []offpolicy.Action{{0.5, 1, 1}, {0.5, 0, 1}}, Chosen: 0, Value: 1}
	for name, spoil := range map[string]func(*offpolicy.Sample){
		"value of nothing":         func(s *offpolicy.Sample) { s.Value = math.NaN() },
		"value too large":          func(s *offpolicy.Sample) { s.Value = 11 },
		"value below 0":            func(s *offpolicy.Sample) { s.Value = -1 },
		"no such action":           func(s *offpolicy.Sample) { s.Chosen = 2 },
		"done without probability": func(s *offpolicy.Sample) { s.Actions[0].Logged = 0 },
		"no probability":           func(s *offpolicy.Sample) { s.Actions[1].Logged = math.NaN() },
		"probabilities of more":    func(s *offpolicy.Sample) { s.Actions[1].Target = 0.5 },
		"no forecast":              func(s *offpolicy.Sample) { s.Actions[0].Model = math.NaN() },
	} {
		e := offpolicy.NewEstimators(10)
		s := good
		s.Actions = append([]offpolicy.Action(nil), good.Actions...)
		spoil(&s)
		if e.Add(&s) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	e := offpolicy.NewEstimators(10)
	if err := e.Add(&good); err != nil {
		t.Fatal(err)
	}
	if allocs := testing.AllocsPerRun(1000, func() { _ = e.Add(&good) }); allocs > 0 {
		t.Errorf("a sample allocates %v times", allocs)
	}
}

// A log without chance leaves the direct method alone.
func TestDeterministicLog(t *testing.T) {
	e := offpolicy.NewEstimators(10)
	for i := range 200 {
		s := offpolicy.Sample{At: begin.Add(time.Duration(i) * time.Second), Chosen: 0, Value: 2,
			Actions: []offpolicy.Action{{1, 0, 2}, {0, 1, 1}}}
		if err := e.Add(&s); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range e.Estimates(1) {
		if all := x.Name == offpolicy.DirectAll; all != (x.Withheld == "") || all && x.Effect.Mean != -1 {
			t.Errorf("%s: %+v", x.Name, x)
		}
	}
	if all, certain := e.Samples(); all != 200 || certain != 200 {
		t.Errorf("%d samples, %d of them deterministic", all, certain)
	}
	if _, _, ok := e.Sequence(); ok {
		t.Error("there is a confidence sequence")
	}
}

// Where one of the policies does nothing, or never the same, there are no
// numbers but a reason.
func TestNothingInCommon(t *testing.T) {
	both := []offpolicy.Action{{Logged: 0.5, Target: 0.5, Model: 1}, {Logged: 0.5, Target: 0.5, Model: 1}}
	for says, s := range map[string]offpolicy.Sample{
		"the target does nothing": {Actions: []offpolicy.Action{{Logged: 0.5, Model: 1}, {Logged: 0.5, Model: 1}}, Chosen: 0, Value: 1},
		"nothing was done":        {Actions: []offpolicy.Action{{Logged: 0.5, Target: 1, Model: 1}}, Chosen: -1},
		"is ever done":            {Actions: append([]offpolicy.Action{{Logged: 0.01, Model: 1}}, both[0], offpolicy.Action{Logged: 0.49, Target: 0.5, Model: 1}), Chosen: 0, Value: 1},
	} {
		e := offpolicy.NewEstimators(10)
		for i := range 50 {
			s.At = begin.Add(time.Duration(i) * time.Second)
			if err := e.Add(&s); err != nil {
				t.Fatal(err)
			}
		}
		told := false
		for _, x := range e.Estimates(1) {
			if x.Withheld == "" && !(x.Effect.Mean == x.Effect.Mean) || x.Withheld != "" && x.Effect.Mean == x.Effect.Mean {
				t.Errorf("%s: %+v", says, x)
			}
			told = told || strings.Contains(x.Withheld, says)
		}
		if !told {
			t.Errorf("nobody says %q: %+v", says, e.Estimates(1))
		}
	}
}
