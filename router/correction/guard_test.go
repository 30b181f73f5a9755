package correction_test

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

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

// A predictor that turns the order round, or tells none, is found out by its answers
// alone; one that turns what is much alike is not.
func TestAnswersThatLoseTheOrderOfPriors(t *testing.T) {
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
		{"all alike", []float32{0.1, 1, 0.5}, []feature.Seconds{1, 1, 1}, true},
		{"much alike", []float32{0.1, 1, 0.5}, []feature.Seconds{1, 1.05, 1.08}, true},
		{"what endpoints add to all alike", []float32{0.1, 1, 0.5}, []feature.Seconds{9.1, 10, 9.5}, false},
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
			g.Answered(start.Add(time.Duration(answers)*25*time.Millisecond), correction.Answer{Bundle: 1}, v, out)
			if g.Lost() != c.wrong {
				t.Errorf("%s: of answer %d it says lost %t", c.name, answers, g.Lost())
			}
			if !g.Live() {
				break
			}
		}
		if c.wrong && answers != 7 || !c.wrong && answers < 100 {
			state, reason, _ := g.State()
			t.Errorf("%s: %s after %d answers (%s)", c.name, state, answers, reason)
		}
	}
}

// One answer that loses the order says nothing of the next.
func TestLostIsOfTheLastAnswerAlone(t *testing.T) {
	g := correction.NewGuard(limits(), start)
	v := make([]feature.Vector, 2)
	for i, x := range []float32{0.1, 1} {
		v[i][feature.ColumnPriorTTFT], v[i][feature.ColumnPriorTPOT] = x, 0.02
	}
	order, turned := []feature.Forecast{forecast(0.1, 0.02), forecast(1, 0.02)}, []feature.Forecast{forecast(1, 0.02), forecast(0.1, 0.02)}
	for i, c := range []struct {
		bundle int64
		out    []feature.Forecast
		lost   bool
	}{{1, order, false}, {1, turned, true}, {1, turned, true}, {1, order, false}, {2, turned, true}, {1, order, false}, {2, order, false}} {
		g.Answered(start, correction.Answer{Bundle: c.bundle}, v, c.out) // also within a moment
		if g.Lost() != c.lost || !g.Live() {
			t.Errorf("answer %d: lost %t, live %t, want lost %t and live", i, g.Lost(), g.Live(), c.lost)
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
	now := start.Add(-time.Second)
	for range 100 { // of one moment
		answer(&g, now, 1, 0.2)
	}
	if !g.Live() {
		t.Fatal("one moment refutes")
	}
	for ; now.Before(start); now = now.Add(125 * time.Millisecond) {
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
	for range 8 {
		answer(&g, now, 1, 0.2)
		now = now.Add(25 * time.Millisecond)
	}
	if g.Live() {
		t.Error("an order that is turned round again decides")
	}
}

// Predictors that serve different bundles may answer by turns. Each bundle is judged by
// its own outcomes, and a bad one among them keeps forecasts from deciding.
func TestBundlesThatAnswerByTurnsAreJudged(t *testing.T) {
	hold := limits().ReturnHold
	g := correction.NewGuard(limits(), start)
	now, superseded := start, 0
	answer := func(bundle int64) {
		if g.Forgets(bundle) != nil {
			superseded++
		}
		g.Answered(now, correction.Answer{Bundle: bundle}, nil, nil)
	}
	i := 0
	serve := func(n int, ttft map[int64]float64) (changes int) {
		for range n {
			for bundle := int64(1); bundle <= 2; bundle++ {
				before := g.Live()
				answer(bundle)
				g.Settled(now, bundle, settled(i, ttft[bundle], 1))
				if g.Live() != before {
					changes++
				}
				now, i = now.Add(100*time.Millisecond), i+1
			}
		}
		return changes
	}
	if serve(60, map[int64]float64{1: 1, 2: 30}); g.Live() {
		t.Error("60 outcomes of one of two bundles are 30 times their forecast, and it decides")
	}
	if n := serve(500, map[int64]float64{1: 1, 2: 30}); n != 0 {
		t.Errorf("the state changed %d times more", n)
	}
	if superseded != 1 {
		t.Errorf("%d bundles took the place of another, want 1", superseded)
	}
	// Once the bad one no longer answers, the other comes back.
	for until := now.Add(hold + time.Second); now.Before(until); now = now.Add(time.Second) {
		answer(1)
	}
	if !g.Live() {
		t.Error("the good bundle does not decide a hold after the bad one's last answer")
	}
	// And what is served again later is new.
	if answer(2); superseded != 2 || !g.Live() {
		t.Errorf("a bundle that is served again is not new (%d, live %t)", superseded, g.Live())
	}
	if g.Settled(now, 3, settled(0, 30, 1)); g.Bundle() != 2 {
		t.Errorf("an outcome made %d the bundle that answers", g.Bundle())
	}
}

// Of what endpoints add to the forecasts of a bundle, a quarter is still believed of
// the next, but nothing when outcomes had refuted it.
func TestAnotherBundleHasErrorsOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuted bool
	}{{"believed", false}, {"refuted", true}} {
		g := correction.NewGuard(limits(), start)
		g.Answered(start, correction.Answer{Bundle: 1}, nil, nil)
		var o correction.Offset
		for i := range 200 {
			ttft := 1.2
			if c.refuted {
				ttft = 30
			}
			g.Settled(start, 1, settled(i, ttft, 1))
			o.Observe(forecast(1, 0.02), feature.Seconds(ttft), 0.02)
		}
		if g.Forgets(1) != nil {
			t.Errorf("%s: another answer of the same bundle forgets", c.name)
		}
		before := o.TTFT(1)
		g.Forgets(2)(&o)
		switch after := o.TTFT(1); {
		case c.refuted && after != 0:
			t.Errorf("%s: %.3f of %.3f is left", c.name, after, before)
		case !c.refuted && (after <= 0 || after >= before):
			t.Errorf("%s: %.3f of %.3f is left", c.name, after, before)
		}
	}
}

// A predictor that went away refuted may come back as another, in the name of the same
// bundle: 50 outcomes of its own bear it out, or don't.
func TestAPredictorThatCameBackIsJudgedByItself(t *testing.T) {
	for _, c := range []struct {
		name    string
		ttft    float64 // once it is back
		away    correction.Result
		needs   int // outcomes until it is well; 0: never
		forgets bool
	}{
		{"a good one", 1, correction.Broken, 50, true},
		{"the same", 30, correction.Broken, 0, true},
		{"one that was only late", 1, correction.Late, 150, false},
	} {
		g := correction.NewGuard(limits(), start)
		answer := correction.Answer{Bundle: 1}
		now := start
		g.Answered(now, answer, nil, nil)
		i := 0
		settle := func(n int, ttft float64) {
			for range n {
				g.Settled(now, 1, settled(i, ttft, 1))
				i++
			}
		}
		settle(200, 30)
		g.Failed(now, c.away, "away")
		g.Failed(now, c.away, "away")
		settle(20, 30) // of before
		if forgets := g.Forgets(1) != nil; forgets != c.forgets {
			t.Errorf("%s: forgets the errors of before: %t", c.name, forgets)
		}
		g.Answered(now, answer, nil, nil)
		if g.Forgets(1) != nil {
			t.Errorf("%s: forgets twice", c.name)
		}
		needs := 0
		for n := 1; n <= 300 && needs == 0; n++ {
			settle(1, c.ttft)
			g.Answered(now, answer, nil, nil)
			if g.Answered(now.Add(limits().ReturnHold), answer, nil, nil); g.Live() {
				needs = n
			}
		}
		if needs != c.needs {
			t.Errorf("%s: decides again after %d outcomes, want %d", c.name, needs, c.needs)
		}
	}
	// One that nothing was said against keeps what was learned.
	g := correction.NewGuard(limits(), start)
	g.Answered(start, correction.Answer{Bundle: 1}, nil, nil)
	if g.Failed(start, correction.Broken, "away"); g.Forgets(1) != nil {
		t.Error("a believed bundle's predictor restarts, and what was learned is forgotten")
	}
}

// A predictor that goes away again and again while it is refuted is believed no sooner.
func TestAPredictorThatComesAndGoesIsNotBelieved(t *testing.T) {
	for _, between := range []int{0, 1, 20} {
		g := correction.NewGuard(limits(), start)
		answer := correction.Answer{Bundle: 1}
		g.Answered(start, answer, nil, nil)
		i := 0
		settle := func(n int) {
			for range n {
				g.Settled(start, 1, settled(i, 30, 1))
				i++
			}
		}
		settle(200)
		for range 3 {
			g.Failed(start, correction.Broken, "away")
			g.Answered(start, answer, nil, nil)
			settle(between)
		}
		settle(1)
		g.Answered(start, answer, nil, nil)
		if g.Answered(start.Add(limits().ReturnHold), answer, nil, nil); g.Live() {
			t.Errorf("%d outcomes between: it decides", between)
		}
	}
}
