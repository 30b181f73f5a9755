package experiment_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

// queues are servers with lines of their own, before which a router tries two
// policies: the first server that comes to mind, or the one with the least work.
// One policy's requests wait behind the other's, and what each would do alone is
// known from running it alone.
type queues struct {
	rng  *rand.Rand
	free []float64 // when each server has done all that it was given, in seconds
	now  float64

	alone bool // nobody waits for anybody: a wait is drawn, and the second arm's is shorter by gain
}

const gain = 0.2

const (
	servers = 4
	load    = 0.75
)

var start = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func newQueues(seed uint64) *queues {
	return &queues{rng: rand.New(rand.NewPCG(seed, 3)), free: make([]float64, servers)}
}

// next sends the next request by an arm; its wait is its TTFT.
func (q *queues) next(arm func(at time.Time) int) (d feature.Decision, o feature.Outcome) {
	q.now += q.rng.ExpFloat64() / (load * servers)
	at := start.Add(time.Duration(q.now * float64(time.Second)))
	work, best := q.rng.ExpFloat64(), q.rng.IntN(servers)
	chosen := arm(at)
	if chosen == 1 {
		other := q.rng.IntN(servers) // power of two choices
		if q.free[other] < q.free[best] {
			best = other
		}
	}
	wait := max(0, q.free[best]-q.now)
	q.free[best] = q.now + wait + work
	if q.alone {
		wait = 1 + q.rng.ExpFloat64() - gain*float64(chosen)
	}
	unknown := feature.Seconds(feature.Unknown)
	d = feature.Decision{
		DecidedAt: at, LLM: "toy", Policy: "toy", Chosen: "server", PromptTokens: 100, ExpectedOutputTokens: feature.Unknown,
		SLOTTFT: unknown, SLOTPOT: unknown,
	}
	o = feature.Outcome{
		Attempt: 1, Status: feature.OK, TTFT: feature.Seconds(wait), TPOT: unknown, E2E: feature.Seconds(wait + work), OutputTokens: 1000 * work,
		CensoredAt: unknown, FinishedAt: at.Add(time.Duration((wait + work) * float64(time.Second))),
	}
	return d, o
}

// alone is the mean wait where one arm decides everything.
func alone(arm int) float64 {
	q := newQueues(99)
	const n = 400_000
	sum := 0.0
	for range n {
		_, o := q.next(func(time.Time) int { return arm })
		sum += float64(o.TTFT)
	}
	return sum / n
}

var truth = alone(1) - alone(0)

// Of a world whose truth is known, intervals of switchbacks hold it as often as
// they claim.
func TestSwitchbackIntervalsHoldTheTruth(t *testing.T) {
	const runs = 60
	held, rejected := 0, 0
	for seed := range uint64(runs) {
		plan := design.Switchback{
			Name: "toy", Start: start.Add(time.Minute), Block: 3 * time.Minute, BurnIn: 45 * time.Second, Pairs: 8, Seed: seed,
			Arms: [2]string{"random", "two"},
		}
		text := plan.String()
		r := judge(t, experiment.Options{}, seed, newQueues(seed), plan.End(), func(at time.Time) (string, string, int) {
			place, ok := plan.At(at)
			if !ok {
				return "", "", 0
			}
			return text, plan.Arms[place.Arm], place.Arm
		})
		ttft := r.Switchback.Effects[0]
		if float64(ttft.Difference.Low) <= truth && truth <= float64(ttft.Difference.High) {
			held++
		}
		if ttft.P < 0.05 {
			rejected++
		}
	}
	t.Logf("%d of %d intervals hold %.3f s; the test says in %d that there is an effect", held, runs, truth, rejected)
	if held < runs*90/100 {
		t.Errorf("%d of %d intervals of 95 %% hold the true effect of %.3f s", held, runs, truth)
	}
	if rejected < runs*9/10 {
		t.Errorf("an effect of %.3f s is found in %d of %d", truth, rejected, runs)
	}
}

// Where requests of both arms wait behind each other, the naive difference is far
// from what the arms would do alone, and the difference in Q is nearer.
func TestDifferencesInQAreLessBiased(t *testing.T) {
	const runs = 8
	naive, dq := 0.0, 0.0
	for seed := range uint64(runs) {
		e := tossed(t, seed, 2*time.Hour, newQueues(seed))
		naive += float64(e.Naive.Mean) / runs
		dq += float64(e.DQ.Mean) / runs
	}
	t.Logf("truth %.3f s, naive %.3f, DQ %.3f", truth, naive, dq)
	if off, less := abs(naive-truth), abs(dq-truth); less > off/2 {
		t.Errorf("the naive difference is off by %.3f s, that in Q by %.3f, of %.3f", off, less, truth)
	}
}

// Where no request has to do with another both are right, and their intervals hold
// the truth as often as they claim.
func TestSplitIntervalsHoldTheTruth(t *testing.T) {
	const runs = 50
	naive, dq := 0, 0
	for seed := range uint64(runs) {
		q := newQueues(seed)
		q.alone = true
		e := tossed(t, seed, 10*time.Minute, q)
		for count, i := range map[*int]evaluate.Interval{&naive: e.Naive, &dq: e.DQ} {
			if i.Low <= -gain && -gain <= i.High {
				*count++
			}
		}
	}
	t.Logf("of %d intervals %d hold the truth, of the difference in Q %d", runs, naive, dq)
	if naive < runs*88/100 || dq < runs*88/100 {
		t.Errorf("of %d intervals of 95 %% %d hold the truth, of the difference in Q %d", runs, naive, dq)
	}
}

// tossed is what a split of queues says of the wait.
func tossed(t *testing.T, seed uint64, long time.Duration, q *queues) experiment.SplitEffect {
	t.Helper()
	split := design.Split{Share: 0.5, Arms: [2]string{"random", "two"}}
	coin := rand.New(rand.NewPCG(seed, 4))
	text := split.String()
	return judge(t, experiment.Options{Horizon: 30 * time.Second}, seed, q, start.Add(long), func(time.Time) (string, string, int) {
		arm := coin.IntN(2)
		return text, split.Arms[arm], arm
	}).Split.Effects[0]
}

func abs(v float64) float64 { return max(v, -v) }

// judge runs queues until a time and judges what they log. arm says which design
// and arm a request has.
func judge(t *testing.T, o experiment.Options, seed uint64, q *queues, until time.Time, arm func(time.Time) (design, name string, i int)) experiment.Report {
	t.Helper()
	a, err := experiment.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var text, name string
		d, out := q.next(func(at time.Time) (i int) { text, name, i = arm(at); return i })
		if d.Experiment, d.Arm = text, name; !d.DecidedAt.Before(until) {
			d.Experiment, d.Arm = "", ""
		}
		if err := a.Add(&d, &out); err != nil {
			t.Fatal(err)
		}
		if !d.DecidedAt.Before(until) {
			break
		}
	}
	r, err := a.Report(seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
