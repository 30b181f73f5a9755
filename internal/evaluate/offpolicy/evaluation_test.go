package offpolicy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// log makes decisions as a router does, on endpoints whose load is drawn, and
// outcomes that follow the corrected forecast but for noise.
type log struct {
	rng      *rand.Rand
	settings policy.Settings
	policy   string
	at       time.Time
}

func newLog(seed uint64) *log {
	l := &log{rng: rand.New(rand.NewPCG(seed, 5)), settings: policy.Defaults(), policy: policy.Predicted, at: begin}
	l.settings.Exploration, l.settings.ExplorationHarm = 0.3, 1e6
	return l
}

func nan() feature.Seconds { return feature.Seconds(feature.Unknown) }

func (l *log) input() *policy.Input {
	rng := l.rng
	in := &policy.Input{
		Policy: l.policy, Fallback: policy.CombinedLoad, Forecasts: true, Settings: l.settings, Seed: rng.Uint64(), Turn: rng.Uint64() % 100,
		Request: policy.Request{
			PromptTokens: 200 + math.Floor(4000*rng.Float64()), ExpectedOutputTokens: 200, MaxOutputTokens: feature.Unknown, Completions: 1,
			SLOTTFT: nan(), SLOTPOT: nan(),
		},
	}
	for i := range 5 {
		c := policy.Candidate{
			Endpoint: fmt.Sprintf("10.0.0.%d:8000", i), Class: "h100", ColdAgo: nan(), HotTokens: feature.Unknown, SpeedSteps: 1000,
			Coefficients: physics.Coefficients{A: 0.014, B: 48e-6, C: 1.5e-9, D: 0.06e-3, E: 53e-9},
			Residual:     feature.Residual{TTFT: feature.LogQuantiles{P50: 0.1, P90: 0.5}, TPOT: feature.LogQuantiles{P50: 0, P90: 0.2}},
		}
		n := float64(rng.IntN(40))
		c.Load.Ledger = feature.Ledger{Requests: n, Decoding: n, ContextTokens: 1000 * n, PrefillTokens: math.Floor(20000 * rng.Float64()), PrefillRate: 100 * n}
		c.Load.Ledger.Remaining[5] = n
		c.Load.Scraped = feature.Scraped{Waiting: 0, Running: n, KVUsed: n / 60, Age: 0.5}
		c.Load.Profile = feature.Profile{PeakPrefillThroughput: 20000, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, SpeedFactor: 1}
		if rng.IntN(4) == 0 {
			c.CachedTokens = math.Floor(in.Request.PromptTokens * rng.Float64())
		}
		in.Candidates = append(in.Candidates, c)
	}
	return in
}

// one is the row of a decision, and what came of it.
func (l *log) one() (*feature.Decision, *feature.Outcome) { return l.of(l.input()) }

func (l *log) of(in *policy.Input) (*feature.Decision, *feature.Outcome) {
	var out policy.Choice
	if err := policy.Decide(in, &out); err != nil {
		panic(err)
	}
	l.at = l.at.Add(time.Duration(l.rng.ExpFloat64() * float64(300*time.Millisecond)))
	d := &feature.Decision{
		DecidedAt: l.at, LLM: "llm", Mode: "live", Policy: out.Policy, PolicyVersion: policy.Version, Bundle: 3, Schema: feature.Schema, State: "live",
		SLOTTFT: in.Request.SLOTTFT, SLOTPOT: in.Request.SLOTPOT, Complete: true, States: policy.Encode(nil, in), Seed: in.Seed,
	}
	for i := range in.Candidates {
		c := &in.Candidates[i]
		d.Candidates = append(d.Candidates, feature.Candidate{
			Endpoint: c.Endpoint, Class: c.Class, Vector: c.Vector(&in.Request), Corrected: out.Forecasts[i],
			Cost: out.Costs[i], Probability: out.Probabilities[i],
		})
	}
	o := &feature.Outcome{Attempt: 1, Status: feature.Shed, TTFT: nan(), TPOT: nan(), E2E: nan(), CensoredAt: nan(), OutputTokens: feature.Unknown, FinishedAt: l.at.Add(time.Second)}
	d.Propensity = out.ShedProbability
	if out.Index >= 0 {
		c := &in.Candidates[out.Index]
		d.Chosen, d.ChosenClass, d.Propensity = c.Endpoint, c.Class, out.Probabilities[out.Index]
		p := c.Prior(&in.Request)
		o.Status, o.Endpoint, o.OutputTokens = feature.OK, c.Endpoint, 200
		o.TTFT = p.TTFT * feature.Seconds(math.Exp(0.1+0.3*l.rng.NormFloat64()))
		o.TPOT = p.TPOT * feature.Seconds(math.Exp(0.1*l.rng.NormFloat64()))
		o.E2E = o.TTFT + 199*o.TPOT
	}
	return d, o
}

func evaluation(t *testing.T, o offpolicy.Options) *offpolicy.Evaluation {
	t.Helper()
	e, err := offpolicy.NewEvaluation(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func add(t *testing.T, e *offpolicy.Evaluation, d *feature.Decision, o *feature.Outcome) {
	t.Helper()
	if err := e.Add(d, o); err != nil {
		t.Fatal(err)
	}
}

func report(t *testing.T, e *offpolicy.Evaluation) offpolicy.Report {
	t.Helper()
	r, err := e.Report(1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func find(r *offpolicy.Report, name string) *offpolicy.Estimate {
	for i := range r.Estimates {
		if r.Estimates[i].Name == name {
			return &r.Estimates[i]
		}
	}
	return nil
}

// A target that is the log's own policy has the effect 0 to all estimators that
// weigh, with weights of 1; the decisions come out as they were.
func TestTheSamePolicy(t *testing.T) {
	e, l := evaluation(t, offpolicy.Options{Quantity: offpolicy.TTFT}), newLog(1)
	for range 500 {
		d, o := l.one()
		add(t, e, d, o)
	}
	r := report(t, e)
	chance := float64(r.Judged - r.Deterministic)
	if r.Judged != 500 || r.Unlike != 0 || chance < 250 || len(r.LeftOut) > 0 || len(r.Warnings) > 0 || r.Target != "the configured policy" {
		t.Errorf("%+v", r)
	}
	if math.Abs(r.Overlap.Effective-chance) > 1e-6 || r.Overlap.Largest != 1 || r.Overlap.Missing != 0 || math.Abs(r.Overlap.Common-1) > 1e-9 {
		t.Errorf("overlap %+v", r.Overlap)
	}
	for _, name := range []string{offpolicy.IPS, offpolicy.SNIPS} {
		if x := find(&r, name); math.Abs(float64(x.Effect.Mean)) > 1e-12 {
			t.Errorf("%s: effect %v", name, x.Effect)
		}
	}
	if x := find(&r, offpolicy.DR); math.Abs(float64(x.Effect.Mean)) > 0.05*float64(r.Logged.Mean) {
		t.Errorf("DR: effect %v of %v", x.Effect, r.Logged.Mean)
	}
	if r.Sequence == nil || !(r.Sequence.Low <= 0 && 0 <= r.Sequence.High) {
		t.Errorf("sequence %v", r.Sequence)
	}
}

// Another policy's probabilities are those that Decide gives for it, and the
// estimates those of these probabilities, written down slowly. Priced ones add
// what the terms of the cost say of others.
func TestAnotherPolicy(t *testing.T) {
	for name, options := range map[string]offpolicy.Options{
		"token-load":    {Quantity: offpolicy.TTFT, Target: offpolicy.Target{Policy: policy.TokenLoad}},
		"random":        {Quantity: offpolicy.TPOT, Target: offpolicy.Target{Policy: policy.Random}},
		"no valve":      {Quantity: offpolicy.E2E, Target: offpolicy.Target{Change: func(s *policy.Settings) { s.PredictedPenalty = 0 }}},
		"priced":        {Quantity: offpolicy.E2E, Priced: true, Target: offpolicy.Target{Policy: policy.ActiveRequest}},
		"another":       {Quantity: offpolicy.TTFT, Target: offpolicy.Target{Forecaster: reversed{}}},
		"prior alone":   {Quantity: offpolicy.TTFT, Target: offpolicy.Target{Forecaster: offpolicy.Prior{}}},
		"round-robin":   {Quantity: offpolicy.TTFT, Target: offpolicy.Target{Policy: policy.RoundRobin}},
		"short latency": {Quantity: offpolicy.TTFT, Longest: 0.5, Target: offpolicy.Target{Policy: policy.LeastRequest}},
	} {
		e, l := evaluation(t, options), newLog(2)
		var all []offpolicy.Sample
		for range 400 {
			d, o := l.one()
			add(t, e, d, o)
			all = append(all, dumb(t, d, o, &options))
		}
		r := report(t, e)
		tau := float64(r.Switch)
		target, logged, effective, largest, _ := slow(all, tau)
		for _, x := range r.Estimates {
			if x.Withheld == "" && (!near(float64(x.Target.Mean), target[x.Name]) || !near(float64(x.Logged), logged[x.Name])) {
				t.Errorf("%s: %s is %v beside %v, want %v beside %v", name, x.Name, x.Target.Mean, x.Logged, target[x.Name], logged[x.Name])
			}
		}
		if !near(r.Overlap.Effective, effective) || !near(r.Overlap.Largest, largest) {
			t.Errorf("%s: %v effective samples, want %v", name, r.Overlap.Effective, effective)
		}
		if x := find(&r, offpolicy.DR); x.Withheld != "" {
			t.Errorf("%s: DR is withheld: %s", name, x.Withheld)
		}
	}
}

// reversed forecasts the longest TTFT where the prior says the shortest.
type reversed struct{}

func (reversed) Evaluate(vectors []feature.Vector, out []feature.Forecast) {
	for i := range vectors {
		p := vectors[i].Prior()
		r := feature.Residual{TTFT: feature.LogQuantiles{P50: -2 * math.Log(float64(p.TTFT)), P90: 1 - 2*math.Log(float64(p.TTFT))}}
		out[i] = feature.Forecast{TTFT: feature.Quantiles{P50: 1, P90: 2}, TPOT: feature.Quantiles{P50: 1, P90: 2}, Residual: r, Support: 1}
	}
}

// dumb is a sample made from a row in the plainest way.
func dumb(t *testing.T, d *feature.Decision, o *feature.Outcome, options *offpolicy.Options) offpolicy.Sample {
	t.Helper()
	in, err := policy.Replay(d)
	if err != nil {
		t.Fatal(err)
	}
	target := &options.Target
	if target.Policy != "" {
		in.Policy = target.Policy
	}
	if target.Change != nil {
		target.Change(&in.Settings)
	}
	if target.Forecaster != nil {
		var answers []feature.Forecast
		for i := range in.Candidates {
			out := []feature.Forecast{feature.NoForecast}
			target.Forecaster.Evaluate([]feature.Vector{d.Candidates[i].Vector}, out)
			answers = append(answers, out[0])
		}
		correction.Temper(answers, in.Request.ExpectedOutputTokens)
		for i, f := range answers {
			in.Candidates[i].Residual, in.Candidates[i].Correction = f.Residual, feature.Residual{}
		}
	}
	var choice, costs policy.Choice
	if err := policy.Decide(in, &choice); err != nil {
		t.Fatal(err)
	}
	longest := float64(options.Longest)
	if longest == 0 {
		longest = float64(options.Quantity.Longest())
	}
	priced := *in
	priced.Policy = policy.Predicted
	if err := policy.Decide(&priced, &costs); err != nil {
		t.Fatal(err)
	}
	mean := func(q feature.Quantiles) float64 {
		p50, sd := float64(q.P50), math.Log(float64(q.P90/q.P50))/1.2815515655446004
		if sd < 1e-9 {
			return min(p50, longest)
		}
		phi := func(z float64) float64 { return (1 + math.Erf(z/math.Sqrt2)) / 2 }
		z := (math.Log(longest) - math.Log(p50)) / sd
		return math.Exp(math.Log(p50)+sd*sd/2)*phi(z-sd) + longest*(1-phi(z))
	}
	s := offpolicy.Sample{At: d.DecidedAt, Chosen: -1}
	for i := range in.Candidates {
		f := choice.Forecasts[i]
		a := offpolicy.Action{Logged: d.Candidates[i].Probability, Target: choice.Probabilities[i]}
		came := 0.0
		switch options.Quantity {
		case offpolicy.TTFT:
			a.Model, came = mean(f.TTFT), float64(o.TTFT)
		case offpolicy.TPOT:
			a.Model, came = mean(f.TPOT), float64(o.TPOT)
		case offpolicy.E2E:
			a.Model, came = min(longest, mean(f.TTFT)+199*mean(f.TPOT)), float64(o.E2E)
		}
		came = min(came, longest)
		if options.Priced {
			terms := costs.Terms(&priced, i)
			extra := min(longest, float64(terms.Cost()-terms.TTFT-terms.Output-terms.Impatience))
			a.Model, came = a.Model+extra, came+extra
		}
		if d.Candidates[i].Endpoint == d.Chosen {
			s.Chosen, s.Value = i, came
		}
		s.Actions = append(s.Actions, a)
	}
	return s
}

// Rows of an earlier version are judged under policies that read them as they always
// did; they lack what predicted reads now.
func TestRowsOfAnEarlierVersion(t *testing.T) {
	const rows = 100
	for _, c := range []struct {
		target offpolicy.Target
		judged int64
	}{
		{offpolicy.Target{Policy: policy.ActiveRequest}, 2 * rows},
		{offpolicy.Target{Policy: policy.Predicted}, rows},
	} {
		e, l := evaluation(t, offpolicy.Options{Quantity: offpolicy.TTFT, Target: c.target}), newLog(5)
		for i := range 2 * rows {
			in := l.input()
			in.Policy = policy.TokenLoad
			d, o := l.of(in)
			d.PolicyVersion -= i % 2
			add(t, e, d, o)
		}
		r := report(t, e)
		if r.Judged != c.judged || c.judged < 2*rows && (len(r.LeftOut) != 1 || r.LeftOut[0] != (offpolicy.Left{Why: offpolicy.OldVersion, Decisions: rows})) {
			t.Errorf("%s: %d judged, left out %+v", c.target.Policy, r.Judged, r.LeftOut)
		}
	}
}

// Of what is not seen each kind counts as the documentation says.
func TestWhatIsNotSeen(t *testing.T) {
	unseen := func(o *feature.Outcome) { o.TTFT, o.TPOT, o.E2E = nan(), nan(), nan() }
	for name, c := range map[string]struct {
		change  func(*feature.Decision, *feature.Outcome)
		left    offpolicy.LeftOut
		failed  int64
		aborted bool
	}{
		"served":    {change: func(*feature.Decision, *feature.Outcome) {}},
		"no states": {change: func(d *feature.Decision, _ *feature.Outcome) { d.States = nil }, left: offpolicy.Incomplete},
		"some candidates": {change: func(d *feature.Decision, _ *feature.Outcome) { d.Complete, d.Candidates = false, d.Candidates[1:] },
			left: offpolicy.Incomplete},
		"an older predicted": {change: func(d *feature.Decision, _ *feature.Outcome) { d.PolicyVersion = 1 }, left: offpolicy.OldVersion},
		"broken states":      {change: func(d *feature.Decision, _ *feature.Outcome) { d.States = d.States[:9] }, left: offpolicy.OldVersion},
		"no propensities": {change: func(d *feature.Decision, _ *feature.Outcome) {
			for i := range d.Candidates {
				d.Candidates[i].Probability = feature.Unknown
			}
		}, left: offpolicy.NoChance},
		"chosen against all odds": {change: func(d *feature.Decision, _ *feature.Outcome) {
			for i := range d.Candidates {
				d.Candidates[i].Probability = 0
			}
		}, left: offpolicy.NoChance},
		"before it began": {change: func(d *feature.Decision, o *feature.Outcome) { o.FinishedAt = d.DecidedAt.Add(-time.Minute) }, left: offpolicy.ClockJump},
		"no outcome":      {change: func(_ *feature.Decision, o *feature.Outcome) { unseen(o); o.Attempt, o.Status = 0, "" }, left: offpolicy.Unended},
		"lost":            {change: func(_ *feature.Decision, o *feature.Outcome) { unseen(o); o.Status = feature.Lost }, left: offpolicy.Lost},
		"elsewhere":       {change: func(_ *feature.Decision, o *feature.Outcome) { o.Endpoint = "10.9.9.9:1" }, left: offpolicy.Elsewhere},
		"given up": {change: func(_ *feature.Decision, o *feature.Outcome) {
			unseen(o)
			o.Status, o.CensoredAt = feature.ClientAbort, 3
		}, left: offpolicy.Aborted, aborted: true},
		"given up later": {change: func(_ *feature.Decision, o *feature.Outcome) { o.Status, o.E2E = feature.ClientAbort, nan() }},
		"not measured":   {change: func(_ *feature.Decision, o *feature.Outcome) { unseen(o); o.E2E = 9 }, left: offpolicy.Unmeasured},
		"error":          {change: func(_ *feature.Decision, o *feature.Outcome) { unseen(o); o.Status = feature.UpstreamError }, failed: 1},
		"time-out":       {change: func(_ *feature.Decision, o *feature.Outcome) { unseen(o); o.Status = feature.UpstreamTimeout }, failed: 1},
		"second attempt": {change: func(_ *feature.Decision, o *feature.Outcome) { o.Attempt, o.Endpoint = 2, "10.9.9.9:1" }, failed: 1},
	} {
		e, l := evaluation(t, offpolicy.Options{Quantity: offpolicy.TTFT}), newLog(3)
		const rows = 120
		for range rows {
			d, o := l.one()
			add(t, e, d, o)
		}
		before := report(t, e)
		d, o := l.one()
		c.change(d, o)
		add(t, e, d, o)
		r := report(t, e)
		if c.left != "" {
			if r.Judged != rows || len(r.LeftOut) != 1 || r.LeftOut[0] != (offpolicy.Left{Why: c.left, Decisions: 1}) {
				t.Errorf("%s: %d judged, left out %+v", name, r.Judged, r.LeftOut)
			}
			if r.Logged != before.Logged {
				t.Errorf("%s moves the mean", name)
			}
		} else if r.Judged != rows+1 || len(r.LeftOut) != 0 || r.Failed != c.failed {
			t.Errorf("%s: %d judged, left out %+v, %d failed", name, r.Judged, r.LeftOut, r.Failed)
		}
		if want := (rows*float64(before.Logged.Mean) + 60) / (rows + 1); c.failed > 0 && !near(float64(r.Logged.Mean), want) {
			t.Errorf("%s: mean %v, want %v", name, r.Logged.Mean, want)
		}
		if c.aborted != (r.Aborted != nil) || c.aborted && !(r.Aborted.Least.Mean <= r.Aborted.Most.Mean || r.Aborted.Requests != 1) {
			t.Errorf("%s: %+v", name, r.Aborted)
		}
	}
}

// Objectives are met or not; a request that is turned away meets none, and a
// request without one is left out unless the question gives it one.
func TestObjectives(t *testing.T) {
	strict := func(ttft feature.Seconds, priority float64) func(*policy.Input) {
		return func(in *policy.Input) { in.Request.SLOTTFT, in.Request.Priority = ttft, priority }
	}
	run := func(o offpolicy.Options, change func(*policy.Input)) offpolicy.Report {
		e, l := evaluation(t, o), newLog(4)
		for range 300 {
			in := l.input()
			change(in)
			d, o := l.of(in)
			add(t, e, d, o)
		}
		r, err := e.Report(1)
		if err != nil && !strings.Contains(err.Error(), "--slo-ttft") {
			t.Fatal(err)
		}
		return r
	}
	slo := offpolicy.Options{Quantity: offpolicy.Attained}
	if r := run(slo, strict(1000, 0)); r.Logged.Mean != 1 || float64(find(&r, offpolicy.DirectAll).Target.Mean) < 0.999 {
		t.Errorf("an objective that all meet: %v", r.Logged)
	}
	r := run(slo, strict(0.02, -1)) // nobody meets it, and it may be shed
	if r.TurnedAway < 100 || r.Logged.Mean > 0.01 || r.Sheds < 0.3 || r.Unlike != 0 {
		t.Errorf("an objective that nobody meets: %d turned away, %v met, %v shed again, %d unlike", r.TurnedAway, r.Logged.Mean, r.Sheds, r.Unlike)
	}
	if r := run(slo, strict(nan(), 0)); r.Judged != 0 || r.LeftOut[0].Why != offpolicy.NoAim {
		t.Errorf("no objective: %+v", r.LeftOut)
	}
	slo.SLOTTFT = 1000
	if r := run(slo, strict(nan(), 0)); r.Judged != 300 || r.Logged.Mean != 1 {
		t.Errorf("an objective that the question gives: %+v", r.Logged)
	}
	// Turning away has no latency; IPS must not count it as 0.
	r = run(offpolicy.Options{Quantity: offpolicy.TTFT, Target: offpolicy.Target{Policy: policy.Random}}, strict(0.3, -1))
	if r.TurnedAway == 0 || r.Sequence != nil {
		t.Errorf("%d turned away, sequence %v", r.TurnedAway, r.Sequence)
	}
	if x := find(&r, offpolicy.Direct); x.Withheld != "" || !(x.Target.Mean > 0.05) {
		t.Errorf("%+v", x)
	}
}

// In the shadow forecasts decide for the target.
func TestShadow(t *testing.T) {
	e, l := evaluation(t, offpolicy.Options{Quantity: offpolicy.TTFT}), newLog(5)
	for range 50 {
		in := l.input()
		in.Forecasts = false
		d, o := l.of(in)
		d.Mode = "shadow"
		add(t, e, d, o)
	}
	r := report(t, e)
	if len(r.TargetBy) != 1 || r.TargetBy[0].Policy != policy.Predicted || r.LoggedBy[0].Policy != policy.CombinedLoad {
		t.Errorf("logged by %v, again by %v", r.LoggedBy, r.TargetBy)
	}
}

// What can't be judged is one sentence.
func TestOneSentence(t *testing.T) {
	for name, c := range map[string]struct {
		options offpolicy.Options
		change  func(*policy.Input)
		rows    int
		says    string
	}{
		"no decisions": {rows: 0, says: "no decisions"},
		"no forecasts": {rows: 10, options: offpolicy.Options{Target: offpolicy.Target{Policy: policy.Predicted}}, says: "policy predicted needs forecasts that may decide, and none of the 10 decisions has any: --bundle",
			change: func(in *policy.Input) {
				for i := range in.Candidates {
					in.Candidates[i].Residual = feature.NoResidual
				}
			}},
		"no scrapes": {rows: 10, options: offpolicy.Options{Target: offpolicy.Target{Policy: policy.WeightedBlend}}, says: "policy weighted-blend needs the queue",
			change: func(in *policy.Input) {
				for i := range in.Candidates {
					in.Candidates[i].Load.Scraped.Waiting = feature.Unknown
				}
			}},
	} {
		c.options.Quantity = offpolicy.TTFT
		e, l := evaluation(t, c.options), newLog(6)
		for range c.rows {
			in := l.input()
			c.change(in)
			d, o := l.of(in)
			add(t, e, d, o)
		}
		if _, err := e.Report(1); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, l := evaluation(t, offpolicy.Options{Quantity: offpolicy.TTFT}), newLog(7)
	d, o := l.one()
	add(t, e, d, o)
	d.Schema[0]++
	if err := e.Add(d, o); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("another schema: %v", err)
	}
	d.Schema = feature.Schema
	d.DecidedAt = d.DecidedAt.Add(-time.Hour)
	if err := e.Add(d, o); err == nil || !strings.Contains(err.Error(), "clock") {
		t.Errorf("time goes back: %v", err)
	}
	for name, o := range map[string]offpolicy.Options{
		"no policy":       {Quantity: offpolicy.TTFT, Target: offpolicy.Target{Policy: "luck"}},
		"no fallback":     {Quantity: offpolicy.TTFT, Target: offpolicy.Target{Fallback: policy.Predicted}},
		"no quantity":     {Quantity: "joy"},
		"price of a TPOT": {Quantity: offpolicy.TPOT, Priced: true},
		"no time":         {Quantity: offpolicy.TTFT, Longest: -1},
	} {
		if _, err := offpolicy.NewEvaluation(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
