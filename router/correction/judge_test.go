package correction_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// settled is an outcome of a forecast of 1 s and 20 ms, p90 at twice that, a minute
// after the one before it.
func settled(i int, ttft, tpot float64) *correction.Settled {
	return &correction.Settled{
		Endpoint: string(rune('a' + i%3)), DispatchedAt: start.Add(time.Duration(i) * time.Minute),
		Forecast: forecast(1, 0.02), TTFT: feature.Seconds(ttft), TPOT: feature.Seconds(0.02 * tpot), OutputTokens: 100,
	}
}

func TestTooFewOutcomesJudgeNothing(t *testing.T) {
	var j correction.Judge
	for i := range 49 {
		j.Observe(settled(i, 30, 30))
		j.Observe(settled(i, feature.Unknown, feature.Unknown))
		j.Observe(settled(i, -1, 0))
	}
	if f := j.Fault(); f != "" {
		t.Errorf("after 49 outcomes: %q", f)
	}
	if j.Observe(settled(49, 30, 30)); j.Fault() == "" {
		t.Error("after 50 outcomes, all 30 times their forecast, nothing is said")
	}
}

// share is n of 200 that are this, evenly, and others.
func share(n int, is, other float64) func(int) float64 {
	return func(i int) float64 {
		if i*7%200 < n {
			return is
		}
		return other
	}
}

// The rules at their edges, with the last 200 outcomes behind them: as much beyond
// what they allow as a day of chance does not explain.
func TestFaults(t *testing.T) {
	right := func(int) float64 { return 1.2 }
	last := func(n, of int, is float64) func(int) float64 {
		return func(i int) float64 {
			if i >= 200-of && i*7%of < n {
				return is
			}
			return 1
		}
	}
	for _, c := range []struct {
		name       string
		ttft, tpot func(int) float64
		want       string
	}{
		{"right", right, right, ""},
		{"all are off by a little less", share(200, 1.49, 1), right, ""},
		{"135 of 200 are off", share(135, 1.51, 1), right, ""},
		{"136 of 200 are off", share(136, 1.51, 1), right, "TTFT is off by more than 1.5 times"},
		{"136 of 200 are too fast", share(136, 0.66, 1), right, "TTFT is off by more than 1.5 times"},
		{"75 of the last 100 are off", last(75, 100, 1.51), right, ""},
		{"76 of the last 100 are off", last(76, 100, 1.51), right, "TTFT is off by more than 1.5 times"},
		{"42 of the last 50 are off", last(42, 50, 1.51), right, ""},
		{"43 of the last 50 are off", last(43, 50, 1.51), right, "TTFT is off by more than 1.5 times"},
		{"TPOT is off", right, share(136, 1.51, 1), "TPOT is off by more than 1.5 times"},
		{"80 of 200 are not covered", share(80, 2.41, 1), right, ""},
		{"81 of 200 are not covered", share(81, 2.41, 1), right, "under 75 % of TTFTs"},
		{"27 of the last 50 are not covered", last(27, 50, 2.41), right, ""},
		{"28 of the last 50 are not covered", last(28, 50, 2.41), right, "under 75 % of TTFTs"},
		{"81 of 200 are nearly covered", share(81, 2.39, 1), right, ""},
		{"TPOT is not covered", right, share(81, 2.41, 1), "under 75 % of TPOTs"},
	} {
		var j correction.Judge
		for i := range 200 {
			j.Observe(settled(i, 1, 1))
		}
		for i := range 200 { // push all of those out
			j.Observe(settled(200+i, c.ttft(i), c.tpot(i)))
		}
		if f := j.Fault(); c.want == "" && f != "" || !strings.HasPrefix(f, c.want) {
			t.Errorf("%s: %q, want %q", c.name, f, c.want)
		}
	}
}

// What is refuted stays so until no rule is broken as counted.
func TestAFaultLastsUntilOutcomesBearForecastsOut(t *testing.T) {
	var j correction.Judge
	i := 0
	observe := func(n int, ttft func(int) float64) {
		for k := range n {
			j.Observe(settled(i, ttft(k), 1))
			i++
		}
	}
	observe(200, share(200, 30, 1))
	for _, n := range []int{120, 102} {
		if observe(200, share(n, 30, 1)); j.Fault() == "" {
			t.Errorf("%d of 200 are off, and nothing is said", n)
		}
	}
	if observe(200, share(40, 2, 1)); j.Fault() != "" {
		t.Errorf("40 of 200 are off: %q", j.Fault())
	}
	if observe(200, share(120, 2, 1)); j.Fault() != "" {
		t.Errorf("120 of 200 are off again: %q", j.Fault())
	}
}

// Requests of one moment met the same fleet: however many they are, and in whatever
// order their outcomes come, they are one outcome.
func TestRequestsOfOneMomentAreOneOutcome(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var j correction.Judge
	observe := func(from, moments int, ttft float64) {
		for _, k := range rng.Perm(10 * moments) {
			s := settled(k, ttft, 1)
			s.Endpoint = strconv.Itoa(k)
			s.DispatchedAt = start.Add(time.Duration(from+k/10)*25*time.Millisecond + time.Duration(k%10)*2*time.Millisecond)
			s.Overdue = ttft > 1 && k%2 == 0
			if s.Overdue {
				j.Overdue(s)
			}
			j.Observe(s)
		}
	}
	observe(0, 150, 1)
	observe(150, 75, 30)
	if f := j.Fault(); f != "" {
		t.Errorf("750 outcomes of 75 moments: %q", f)
	}
	if observe(225, 6, 30); j.Fault() == "" {
		t.Error("outcomes of 81 moments say nothing")
	}
}

// Requests that wait at one endpoint at once stand in one queue: that they are late is
// one outcome for each 5 s of it, however many they are.
func TestRequestsOfOneQueueAreOneOutcome(t *testing.T) {
	// run lets queues build up, each of 40 requests in 40 s, none of which is served
	// before the last has come, and says how many it takes to find fault.
	run := func(endpoint func(k int) string, overdue bool) int {
		var j correction.Judge
		i := 0
		for range 200 {
			j.Observe(settled(i, 1, 1))
			i++
		}
		for queue := range 200 {
			began := start.Add(time.Duration(i+2*queue) * time.Minute)
			for k := range 40 {
				s := settled(0, float64(60-k), feature.Unknown)
				s.Plain = s.Forecast // as the prior: nobody could know
				s.Endpoint, s.DispatchedAt = endpoint(k), began.Add(time.Duration(k)*time.Second)
				if s.Overdue = overdue; overdue {
					j.Overdue(s)
				}
				j.Observe(s)
				if j.Fault() != "" {
					return queue*40 + k + 1
				}
			}
		}
		return 0
	}
	one := func(int) string { return "a" }
	if n := run(one, false); n != 376 { // what comes within 5 s is one
		t.Errorf("found wrong after %d outcomes, want 376", n)
	}
	if n := run(strconv.Itoa, false); n != 76 {
		t.Errorf("at endpoints of their own, found wrong after %d outcomes, want 76", n)
	}
	// Of those that have not come it is known only that they have waited 2.4 s, in
	// which three come.
	if n := run(one, true); n != 216 {
		t.Errorf("overdue, found wrong after %d outcomes, want 216", n)
	}
}

// Where the prior alone would have been about as far off, the last 50 outcomes are nothing
// against the bundle, and only 100 are.
func TestABundleIsHeldAgainstItsPrior(t *testing.T) {
	run := func(prior, ttft float64, overdue bool) (outcomes int, fault string) {
		var j correction.Judge
		for i := range 400 {
			s := settled(i, 1, 1)
			s.Plain = s.Forecast
			s.Plain.Residual.TTFT.P50 = -math.Log(prior) // it said 1 s after such a prior
			s.Forecast.TTFT.P90 = 100
			if i >= 200 {
				s.TTFT = feature.Seconds(ttft)
				if s.Overdue = overdue; overdue {
					j.Overdue(s)
				}
			}
			j.Observe(s)
			if f := j.Fault(); f != "" {
				return i + 1 - 200, f
			}
		}
		return 0, ""
	}
	for _, c := range []struct {
		prior, ttft float64
		after       int
	}{
		{1, 3, 76},
		{0.9, 3, 76},
		{1.19, 3, 76},
		{1.21, 3, 43},
		{3, 3, 43},
		{7, 3, 43},
		{8, 3, 76},
		{10, 3, 76},
		{0.9, 0.3, 76},
		{0.8, 0.3, 43},
		{1.1, 0.3, 76},
		{3, 1.4, 0},
	} {
		if n, f := run(c.prior, c.ttft, false); n != c.after {
			t.Errorf("prior %v s, forecast 1 s, outcomes of %v s: %q after %d, want after %d", c.prior, c.ttft, f, n, c.after)
		}
	}
	// Nor is what has not come yet.
	if n, f := run(3, 30, true); n != 76 || !strings.HasPrefix(f, "TTFT is off") {
		t.Errorf("overdue: %q after %d, want after 76", f, n)
	}
}

// In a fleet that is full, prior and forecast are off together, and TPOTs are so for a
// while: the last 100 are nothing against the bundle then, and only 200 are.
func TestTPOTIsHeldAgainstThePriorForLonger(t *testing.T) {
	run := func(prior float64) int {
		var j correction.Judge
		for i := range 400 {
			s := settled(i, 1, 1)
			s.Plain = s.Forecast
			s.Plain.Residual.TPOT.P50 = -math.Log(prior / float64(s.Forecast.TPOT.P50))
			s.Forecast.TPOT.P90 = 100
			if i >= 200 {
				s.TPOT, s.OutputTokens = 3*s.Forecast.TPOT.P50, 100
			}
			j.Observe(s)
			if j.Fault() != "" {
				return i + 1 - 200
			}
		}
		return 0
	}
	per := float64(settled(0, 1, 1).Forecast.TPOT.P50)
	if n := run(per); n != 136 {
		t.Errorf("as far off as the prior, wrong after %d outcomes, want 136", n)
	}
	if n := run(3 * per); n != 43 {
		t.Errorf("where the prior is right, wrong after %d outcomes, want 43", n)
	}
}

// A handful of tokens says nothing of TPOT.
func TestShortAnswersSayNothingOfTPOT(t *testing.T) {
	var j correction.Judge
	for i := range 200 {
		s := settled(i, 1, 30)
		s.OutputTokens = 31
		j.Observe(s)
		s.OutputTokens = feature.Unknown
		j.Observe(s)
	}
	if f := j.Fault(); f != "" {
		t.Errorf("%q", f)
	}
}

// Requests that wait too long speak against their forecasts before they have an
// outcome, and only once.
func TestRequestsThatWaitTooLongAreCountedOnce(t *testing.T) {
	f := forecast(1, 0.02)
	for waited, want := range map[feature.Seconds]bool{2.39: false, 2.41: true} {
		if correction.Refuted(&f, waited) != want {
			t.Errorf("after %v s: want %t", waited, want)
		}
	}
	if none := feature.NoForecast; correction.Refuted(&none, 1000) {
		t.Error("refuted what was not forecast")
	}
	var j correction.Judge
	for i := range 49 {
		j.Overdue(settled(i, feature.Unknown, 1))
	}
	for i := range 49 {
		s := settled(i, 30, 1)
		s.Overdue = true
		j.Observe(s)
	}
	if f := j.Fault(); f != "" {
		t.Errorf("49 of them: %q", f)
	}
	if j.Overdue(settled(49, feature.Unknown, 1)); !strings.HasPrefix(j.Fault(), "TTFT is off") {
		t.Errorf("50 of them: %q", j.Fault())
	}
}

// TestTheWrongOrderIsAFault: forecasts near enough to be covered, and that tell
// the slower endpoint for the faster.
func TestTheWrongOrderIsAFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		skill  float64 // log outcome for one of the forecast
		prior  float64 // and of the prior
		spread float64
		gap    time.Duration
		of     int
		fault  bool
	}{
		{"the order is right", 1, 1, 0.2, time.Second, 4, false},
		{"the order is reversed", -0.9, -1, 0.15, time.Second, 4, true},
		{"reversed, by the prior alone too", -0.9, 1, 0.15, time.Second, 4, false},
		{"reversed, but too far apart in time", -0.9, -1, 0.15, 6 * time.Second, 4, false},
		{"reversed, but on one endpoint", -0.9, -1, 0.15, time.Second, 1, false},
		{"forecasts that are about equal order nothing", -0.9, -1, 0.005, time.Second, 4, false},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		var j correction.Judge
		for i := range 400 {
			x := c.spread * rng.NormFloat64()
			s := &correction.Settled{
				Endpoint: string(rune('a' + rng.IntN(c.of))), DispatchedAt: start.Add(time.Duration(i) * c.gap),
				Forecast: forecast(feature.Seconds(math.Exp(x)), 0.02),
				TTFT:     feature.Seconds(math.Exp(c.skill*x + 0.1*rng.NormFloat64())), TPOT: 0.02,
			}
			s.Plain = s.Forecast
			s.Plain.Residual.TTFT.P50 = x - c.prior*x
			j.Observe(s)
		}
		f := j.Fault()
		if c.fault != (f != "") || c.fault && !strings.Contains(f, "worse than chance") {
			t.Errorf("%s: %q", c.name, f)
		}
	}
}

// Streams of outcomes that nothing is wrong with are not found wrong, however often
// they are looked at, and those that are wrong are, soon: with 2,000 of each.
func TestFalseAlarmsAreRareAndGarbageIsFoundSoon(t *testing.T) {
	const streams = 2000
	// run shows outcomes of which so many are far off, and reports when that is a fault.
	run := func(seed uint64, outcomes int, off float64) int {
		rng := rand.New(rand.NewPCG(seed, 7))
		var j correction.Judge
		s := settled(0, 1, 1)
		s.TPOT = feature.Seconds(feature.Unknown)
		s.Endpoint = "one" // so that it is the one question
		s.Forecast.TTFT.P90 = 100
		for i := range outcomes {
			s.DispatchedAt = start.Add(time.Duration(i) * time.Minute)
			s.TTFT = 1
			if rng.Float64() < off {
				s.TTFT = 3
			}
			if j.Observe(s); j.Fault() != "" {
				return i + 1
			}
		}
		return 0
	}
	// The worst that is allowed: every other outcome is far off.
	alarms := 0
	for seed := range uint64(streams) {
		if run(seed, 400, 0.5) != 0 {
			alarms++
		}
	}
	if alarms > 2 {
		t.Errorf("%d of %d streams of coins were found wrong, want hardly one", alarms, streams)
	}
	slowest := 0
	for seed := range uint64(streams) {
		n := run(seed, 200, 0.95)
		if n == 0 {
			t.Fatalf("seed %d: 190 of 200 outcomes are far off, and nothing is said", seed)
		}
		slowest = max(slowest, n)
	}
	if slowest > 100 {
		t.Errorf("garbage was found after %d outcomes, want 100", slowest)
	}
}

func TestJudgingAllocatesNothing(t *testing.T) {
	var j correction.Judge
	m := correction.NewMachine(limits(), start)
	well(m, 0, 1)
	i, s := 0, settled(0, 1, 1)
	endpoints := []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"}
	if n := testing.AllocsPerRun(1000, func() {
		s.Endpoint, s.DispatchedAt = endpoints[i%3], s.DispatchedAt.Add(time.Second)
		s.Forecast.TTFT.P50 = feature.Seconds(1 + 0.1*float64(i%7))
		j.Observe(s)
		m.Judged(s.DispatchedAt, j.Fault())
		i++
	}); n != 0 {
		t.Errorf("%v allocations an outcome, want none", n)
	}
}
