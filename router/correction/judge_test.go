package correction_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// settled is an outcome of a forecast of 1 s and 20 ms, p90 at twice that.
func settled(i int, ttft, tpot float64) *correction.Settled {
	return &correction.Settled{
		Endpoint: string(rune('a' + i%3)), DispatchedAt: start.Add(time.Duration(i) * time.Second),
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
	if j.Reset(); j.Fault() != "" {
		t.Error("a reset left a fault")
	}
}

// The rules at their edges, with the last 200 outcomes behind them.
func TestFaults(t *testing.T) {
	share := func(n int, is, other float64) func(int) float64 {
		return func(i int) float64 {
			if i*7%200 < n {
				return is
			}
			return other
		}
	}
	right := func(int) float64 { return 1.2 }
	for _, c := range []struct {
		name       string
		ttft, tpot func(int) float64
		want       string
	}{
		{"right", right, right, ""},
		{"half are off by a little less", share(200, 1.49, 1), right, ""},
		{"100 of 200 are off", share(100, 1.51, 1), right, ""},
		{"101 of 200 are off", share(101, 1.51, 1), right, "TTFT is off by more than 1.5 times"},
		{"101 of 200 are too fast", share(101, 0.66, 1), right, "TTFT is off by more than 1.5 times"},
		{"TPOT is off", right, share(101, 1.51, 1), "TPOT is off by more than 1.5 times"},
		{"150 of 200 are covered", share(50, 2.41, 1), right, ""},
		{"149 of 200 are covered", share(51, 2.41, 1), right, "under 75 % of TTFTs"},
		{"149 of 200 are covered, the others nearly", share(51, 2.39, 1), right, ""},
		{"TPOT is not covered", right, share(51, 2.41, 1), "under 75 % of TPOTs"},
	} {
		var j correction.Judge
		for i := range 300 {
			j.Observe(settled(i, 30, 30))
		}
		for i := range 200 { // push all of those out
			j.Observe(settled(i, c.ttft(i), c.tpot(i)))
		}
		if f := j.Fault(); c.want == "" && f != "" || !strings.HasPrefix(f, c.want) {
			t.Errorf("%s: %q, want %q", c.name, f, c.want)
		}
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
	for range 49 {
		j.Overdue()
	}
	for i := range 49 {
		s := settled(i, 30, 1)
		s.Overdue = true
		j.Observe(s)
	}
	if f := j.Fault(); f != "" {
		t.Errorf("49 of them: %q", f)
	}
	if j.Overdue(); !strings.HasPrefix(j.Fault(), "TTFT is off") {
		t.Errorf("50 of them: %q", j.Fault())
	}
}

// TestTheWrongOrderIsAFault: forecasts near enough to be covered, and that tell
// the slower endpoint for the faster.
func TestTheWrongOrderIsAFault(t *testing.T) {
	run := func(skill float64, spread float64, gap time.Duration, endpoints int, seed uint64) string {
		rng := rand.New(rand.NewPCG(seed, 1))
		var j correction.Judge
		for i := range 400 {
			x := spread * rng.NormFloat64()
			f := forecast(feature.Seconds(math.Exp(x)), 0.02)
			j.Observe(&correction.Settled{
				Endpoint: string(rune('a' + rng.IntN(endpoints))), DispatchedAt: start.Add(time.Duration(i) * gap), Forecast: f,
				TTFT: feature.Seconds(math.Exp(skill*x + 0.1*rng.NormFloat64())), TPOT: 0.02,
			})
		}
		return j.Fault()
	}
	for _, c := range []struct {
		name   string
		skill  float64
		spread float64
		gap    time.Duration
		of     int
		fault  bool
	}{
		{"the order is right", 1, 0.2, time.Second, 4, false},
		{"the order is reversed", -0.9, 0.15, time.Second, 4, true},
		{"reversed, but too far apart in time", -0.9, 0.15, 6 * time.Second, 4, false},
		{"reversed, but on one endpoint", -0.9, 0.15, time.Second, 1, false},
		{"forecasts that are about equal order nothing", -0.9, 0.005, time.Second, 4, false},
	} {
		f := run(c.skill, c.spread, c.gap, c.of, 1)
		if c.fault != (f != "") || c.fault && !strings.Contains(f, "worse than chance") {
			t.Errorf("%s: %q", c.name, f)
		}
	}
	// A forecast that says nothing is no better than a coin, and not worse.
	coins := 0
	for seed := range uint64(300) {
		if run(0, 0.15, time.Second, 4, seed) != "" {
			coins++
		}
	}
	if coins > 6 {
		t.Errorf("%d of 300 coins were found worse than chance, want about 1 in 100 at most", coins)
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

func TestOutcomesMakeAMachineWrong(t *testing.T) {
	m := correction.NewMachine(limits(), start)
	if _, moved := m.Judged(start, "never served"); moved {
		t.Error("outcomes moved a cold machine")
	}
	m.Judged(start, "")
	well(m, 0, 1)
	c, moved := m.Judged(start.Add(2*time.Second), "off")
	if !moved || c.To != correction.Wrong || c.Reason != "off" {
		t.Fatalf("a fault gave %+v, %v", c, moved)
	}
	if changes := well(m, 3, 60); len(changes) != 0 {
		t.Errorf("it came back while the fault lasted: %+v", changes)
	}
	m.Judged(start.Add(60*time.Second), "")
	if changes := well(m, 61, 70); len(changes) != 0 {
		t.Errorf("it came back before the hold: %+v", changes)
	}
	if changes := well(m, 71, 71); len(changes) != 1 || changes[0].To != correction.Live {
		t.Errorf("after the hold %+v", changes)
	}

	// A predictor that is away stays Down, whatever outcomes say, and is wrong
	// when it answers again.
	m.Failed(start.Add(80*time.Second), correction.Broken, "gone")
	if c, moved := m.Judged(start.Add(81*time.Second), "off"); moved {
		t.Errorf("outcomes moved a machine that is down: %+v", c)
	}
	if changes := well(m, 82, 82); len(changes) != 1 || changes[0].To != correction.Wrong {
		t.Errorf("an answer while the fault lasts gave %+v", changes)
	}
}

// What comes back and is refuted again has to be well for longer each time, until
// it has been well for long, or its predictor began anew.
func TestRelapsesLengthenTheHold(t *testing.T) {
	hold := limits().ReturnHold
	now := start
	m := correction.NewMachine(limits(), now)
	answer := func() (correction.Change, bool) { return m.Answered(now, now, 0) }
	back := func() (waited time.Duration) {
		for began := now; ; now = now.Add(hold / 10) {
			if c, moved := answer(); moved && c.To == correction.Live {
				return now.Sub(began)
			}
		}
	}
	relapse := func() time.Duration {
		m.Judged(now, "off")
		m.Judged(now, "")
		return back()
	}
	answer()
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 16} {
		if got := relapse(); got != want*hold {
			t.Errorf("return %d after %v, want %v", i, got, want*hold)
		}
		now = now.Add(hold)
	}
	now = now.Add(200 * hold)
	if got := relapse(); got != hold {
		t.Errorf("after a long time of health it came back after %v, want %v", got, hold)
	}
	now = now.Add(hold)
	if got := relapse(); got != 2*hold {
		t.Errorf("it came back after %v, want %v", got, 2*hold)
	}
	m.Failed(now, correction.Broken, "gone")
	if got := back(); got != hold {
		t.Errorf("another predictor came back after %v, want %v", got, hold)
	}
}

// A predictor that turns the order round is found out by its answers alone; one
// that turns what is much alike is not.
func TestAnswersThatTurnTheOrderOfPriorsRound(t *testing.T) {
	vectors := func(ttft ...float32) []feature.Vector {
		out := make([]feature.Vector, len(ttft))
		for i, x := range ttft {
			out[i][feature.ColumnPriorTTFT], out[i][feature.ColumnPriorTPOT] = x, 0.02
		}
		return out
	}
	for _, c := range []struct {
		name  string
		prior []float32
		says  []feature.Seconds
		wrong bool
	}{
		{"in order", []float32{0.1, 1, 0.5}, []feature.Seconds{0.2, 1.5, 0.4}, false},
		{"turned round", []float32{0.1, 1, 0.5}, []feature.Seconds{1, 0.2, 0.4}, true},
		{"all alike", []float32{0.1, 1, 0.5}, []feature.Seconds{1, 1, 1}, false},
		{"not twice the least", []float32{0.4, 0.7}, []feature.Seconds{1, 0.2}, false},
		{"a little more than nothing", []float32{0.01, 0.1}, []feature.Seconds{1, 0.2}, false},
		{"one candidate", []float32{1}, []feature.Seconds{1}, false},
	} {
		g := correction.NewGuard(limits(), start)
		v := vectors(c.prior...)
		out := make([]feature.Forecast, len(v))
		for i := range out {
			out[i] = forecast(c.says[i], 0.02)
		}
		answers := 0
		for ; answers < 100; answers++ {
			g.Answered(start, correction.Answer{Bundle: 1}, v, out)
			if !g.Live() {
				break
			}
		}
		if c.wrong && answers > 14 || !c.wrong && answers < 100 {
			state, reason, _ := g.State()
			t.Errorf("%s: %s after %d answers (%s)", c.name, state, answers, reason)
		}
	}
}

// Where nothing tells the order any more, such as at a load that leaves all
// endpoints alike, what was found out of it does not speak for ever.
func TestAnOrderThatNothingTellsIsForgotten(t *testing.T) {
	hold := limits().ReturnHold
	answer := func(g *correction.Guard, now time.Time, prior, says feature.Seconds) {
		v := make([]feature.Vector, 2)
		out := make([]feature.Forecast, 2)
		for i, x := range []feature.Seconds{0.1, prior} {
			v[i][feature.ColumnPriorTTFT], v[i][feature.ColumnPriorTPOT] = float32(x), 0.02
			out[i] = forecast([]feature.Seconds{1, says}[i], 0.02)
		}
		g.Answered(now, correction.Answer{Bundle: 1}, v, out)
	}
	g := correction.NewGuard(limits(), start)
	now := start
	for range 16 {
		answer(&g, now, 1, 0.2)
	}
	if g.Live() {
		t.Fatal("an order turned round decides")
	}
	for ; now.Sub(start) < hold-time.Second; now = now.Add(time.Second) {
		answer(&g, now, 0.1, 1)
	}
	if state, _, _ := g.State(); state != correction.Wrong {
		t.Errorf("it is %s before a hold is over", state)
	}
	for ; now.Sub(start) < 2*hold+2*time.Second; now = now.Add(time.Second) {
		answer(&g, now, 0.1, 1)
	}
	if !g.Live() {
		state, reason, _ := g.State()
		t.Errorf("it is %s after two holds without a word against it (%s)", state, reason)
	}
	for range 16 {
		answer(&g, now, 1, 0.2)
	}
	if g.Live() {
		t.Error("an order that is turned round again decides")
	}
}
