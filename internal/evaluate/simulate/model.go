package simulate

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

const (
	// What was on its way when the log begins is not known. Nothing is judged before
	// so many times what the first requests took, from and to these shares of the
	// log's time.
	settleTimes, settleLeast, settleMost = 2, 0.05, 0.3
	// patience is how long simulated clients wait, and what a request counts that
	// failed.
	patience = 600 * time.Second
	// rehearsed is the share of the log's time whose traffic comes once before it, and
	// encore the one whose traffic comes once behind it.
	rehearsed, encore = 0.3, 0.1
	// draws is how many times engines are fitted to resampled blocks of the log.
	draws = 8
	// scrapes are as far apart as twice their mean age, from and to here.
	leastScrape, mostScrape = 100 * time.Millisecond, time.Minute
)

// Options say how a log is read.
type Options struct {
	// Forecaster is what policies ask that forecast: the bundle that the log was made
	// with, for the check. nil: the analytic prior alone.
	Forecaster Forecaster

	Most int    // requests that are replayed at most, the first ones; 0: 200,000
	Seed uint64 // of resampling
}

// A Forecaster makes forecasts of vectors: out[i] of vectors[i], and NoForecast of
// what it can't. *bundle.Evaluator is one.
type Forecaster interface {
	Evaluate(vectors []feature.Vector, out []feature.Forecast)
}

// asked is a Forecaster as the simulator asks it.
type asked struct{ Forecaster }

// Forecast asks it.
func (a asked) Forecast(vectors []feature.Vector, out []feature.Forecast) { a.Evaluate(vectors, out) }

// A Model is a log's traffic and the fleet that served it. Its methods may be
// called side by side.
type Model struct {
	log      *log
	options  Options
	fitted   *fitted
	sessions []session
	copied   int // conversations of which the beginning of the log has a copy before it
	believed map[string]physics.Profile
	starts   time.Duration // when the log begins in a run
}

// session is a conversation of the log.
type session struct{ turns []int } // requests

// Fit reads a log and finds the fleet that wrote it.
//
// Errors: those of rows; ErrNoRows; and in one sentence what makes the log unfit:
// no complete decision, several LLMs, vectors of another schema, a clock that
// jumped, decisions that stand there twice, are of one moment or of more than 60 days,
// prompts or answers of more than 16 million tokens, too few answers, caches that matter
// and prompts of which nothing is known.
func Fit(rows iter.Seq2[Logged, error], o Options) (*Model, error) {
	if o.Most <= 0 {
		o.Most = mostRequests
	}
	l, err := read(rows, o.Most)
	if err != nil {
		return nil, err
	}
	if err := l.known(); err != nil {
		return nil, err
	}
	l.begin()
	l.remember()
	m := &Model{log: l, options: o}
	if m.fitted, err = l.fit(draws, rand.New(rand.NewPCG(o.Seed, 1))); err != nil {
		return nil, err
	}
	m.converse()
	m.believe()
	m.rehearse()
	return m, nil
}

// known reports whether caches matter where nothing is known of prompts.
func (l *log) known() error {
	const little = 0.02 // of the prompts' tokens
	if l.digested > 0 {
		return nil
	}
	var cached, prompt float64
	for i := range l.requests {
		if q := &l.requests[i]; q.believed >= 0 {
			cached, prompt = cached+q.believed, prompt+float64(q.prompt)
		}
	}
	if cached > little*prompt {
		return fmt.Errorf("no decision says what its prompt has in common with others (prompt_digest, which routers write since this version), and caches held %.0f %% of the prompts: other policies would hold other parts, which can't be told", 100*cached/prompt)
	}
	return nil
}

// converse gathers the requests into conversations.
func (m *Model) converse() {
	for i := range m.log.requests {
		if m.log.requests[i].goesOn {
			continue
		}
		s := session{}
		for r := i; r >= 0; r = int(m.log.requests[r].next) {
			s.turns = append(s.turns, r)
		}
		m.sessions = append(m.sessions, s)
	}
}

// rehearse says what of the log comes once before it, and behind it: requests of its
// first part, whose prompts are others' but for what caches held.
func (m *Model) rehearse() {
	m.starts = seconds(rehearsed * m.log.to.Sub(m.log.from).Seconds()).Round(time.Millisecond)
	for m.copied < len(m.sessions) && m.log.requests[m.sessions[m.copied].turns[0]].at < m.starts.Seconds() {
		m.copied++
	}
}

// believe is what the router believed of the engines of each class.
func (m *Model) believe() {
	m.believed = map[string]physics.Profile{}
	for class, p := range m.fitted.classes {
		t := m.fitted.common[class]
		p = t.profile(p, limits{})
		p.Overhead = 0
		if c, ok := m.log.setting.believed[class]; ok && c.Check() == nil {
			p.Coefficients = c
		}
		m.believed[class] = p
	}
}

// Plan is the traffic of the log: conversations begin when they began, and each
// further turn comes as long after the answer before it as it did. Until the plan's
// Warmup its first part comes once before, and some of it once more behind it, after
// the plan's only Stage, so that the log begins and ends in the middle of things. Sessions of these have
// indices below 0 and from the number of the log's on.
func (m *Model) Plan() workload.Plan {
	length := seconds(m.log.to.Sub(m.log.from).Seconds())
	return workload.Plan{
		Timeout: patience,
		Warmup:  m.starts,
		Stages:  []workload.Stage{{From: m.starts, To: m.starts + length + 1}},
		Sessions: func(yield func(workload.Session) bool) {
			for k := range m.copied {
				s := m.session(k, true)
				if s.Index = -1 - k; !yield(s) {
					return
				}
			}
			for k := range m.sessions {
				s := m.session(k, false)
				if s.At += m.starts; !yield(s) {
					return
				}
			}
			for k := range m.copied {
				s := m.session(k, true)
				if s.At > time.Duration(encore*float64(length)) {
					break
				}
				s.Index, s.At = len(m.sessions)+k, s.At+m.starts+length
				if !yield(s) {
					return
				}
			}
		},
	}
}

// session is the k-th conversation, or its part that is copied, from the log's
// beginning.
func (m *Model) session(k int, copied bool) workload.Session {
	l := m.log
	of := m.sessions[k].turns
	if copied {
		n := 0
		for n < len(of) && l.requests[of[n]].at < m.starts.Seconds() {
			n++
		}
		of = of[:n]
	}
	first := &l.requests[of[0]]
	s := workload.Session{Index: k, At: seconds(first.at), Class: first.class, Turns: make([]workload.Turn, len(of))}
	for i, r := range of {
		q, t := &l.requests[r], &s.Turns[i]
		*t = workload.Turn{PromptTokens: q.prompt, OutputTokens: q.output, BlockTokens: blockTokens}
		t.Answered = l.ids(nil, r, (q.prompt+q.output+blockTokens-1)/blockTokens, copied)
		t.Blocks = t.Answered[:(q.prompt+blockTokens-1)/blockTokens]
		if i > 0 {
			t.After = seconds(max(0, q.at-l.requests[of[i-1]].ended))
		}
	}
	return s
}

// Engines are the endpoints of the log as fitted, in the order of their names, and
// of those that joined later in that of joining. A draw from 0 to 7 gives them as
// one fit to a resampled log found them; below 0: as the whole of it did.
func (m *Model) Engines(draw int) []fleet.EngineSpec {
	thetas := m.fitted.thetas
	if draw >= 0 {
		thetas = m.fitted.drawn[draw]
	}
	specs := make([]fleet.EngineSpec, len(thetas))
	for e := range specs {
		end := &m.log.endpoints[e]
		tokens := m.fitted.guesses[end.class]
		stepping := thetas[e].stepping(tokens)
		specs[e] = fleet.EngineSpec{
			Profile:  stepping.profile(m.fitted.classes[end.class], end.limits),
			Class:    end.class,
			Overhead: seconds(thetas[e][outside]),
		}
		specs[e].Profile.Overhead = 0
		if tokens > 1 {
			specs[e].Options.Acceptance = map[string]float64{}
			for i := range m.log.asked {
				specs[e].Options.Acceptance[asksName(i)] = tokens
			}
		}
		for _, h := range m.log.holds[e] {
			blocks := m.log.ids(nil, h.request, h.blocks, false)
			specs[e].Holds = append(specs[e].Holds, workload.Turn{PromptTokens: h.blocks * blockTokens, OutputTokens: 1, Blocks: blocks, Answered: blocks, BlockTokens: blockTokens})
		}
	}
	return specs
}

// Router is what the router that wrote the log believed of its endpoints, by class, and
// what its requests asked for, by class of the Plan's traffic.
func (m *Model) Router() (believed map[string]physics.Profile, asked map[string]fleet.Objective) {
	return m.believed, m.log.objectives()
}

// A Setting is a router to try: what is changed of the one that wrote the log. The
// zero value changes nothing.
type Setting struct {
	Policy   string                 // "": the one that was configured
	Fallback string                 // "": as configured; see fleet.RouterConfig
	Change   func(*policy.Settings) // nil: as configured

	// Forecaster is what the policy asks if it forecasts; nil: that of Options, else
	// the analytic prior.
	Forecaster Forecaster
}

// Check reports a policy or fallback that there is none of.
func (s *Setting) Check() error {
	if s.Policy != "" {
		if err := policy.Check(s.Policy); err != nil {
			return err
		}
	}
	if s.Fallback != "" && s.Fallback != fleet.Auto {
		return policy.CheckFallback(s.Fallback)
	}
	return nil
}

// router is how a setting decides.
func (m *Model) router(s *Setting) fleet.RouterConfig {
	logged := &m.log.setting
	c := fleet.RouterConfig{
		Policy: logged.policy, Fallback: logged.fallback(), Settings: logged.settings, Canary: logged.canary,
		Profiles: m.believed, ScrapeInterval: m.log.scrapes(), Objectives: m.log.objectives(),
	}
	forecasts := m.log.anyLive()
	if s.Policy != "" {
		c.Policy, c.Canary, forecasts = s.Policy, 0, true
	}
	if s.Fallback != "" {
		c.Fallback = s.Fallback
	}
	if s.Change != nil {
		s.Change(&c.Settings)
	}
	switch {
	case s.Forecaster != nil:
		c.Forecaster = asked{s.Forecaster}
	case !forecasts:
	case m.options.Forecaster != nil:
		c.Forecaster = asked{m.options.Forecaster}
	default:
		c.Forecaster = fleet.PriorForecaster{}
	}
	return c
}

// fallback is the one that was configured: where several decided, the one that
// follows the traffic.
func (c *configured) fallback() string {
	if len(c.fallbacks) == 1 {
		for name := range c.fallbacks {
			return name
		}
	}
	return fleet.Auto
}

// scrapes is how far apart they were.
func (l *log) scrapes() time.Duration {
	if len(l.ages) == 0 {
		return 0
	}
	sum := 0.0
	for _, a := range l.ages {
		sum += a
	}
	return min(mostScrape, max(leastScrape, seconds(2*sum/float64(len(l.ages)))))
}

// objectives are what requests of each class ask for.
func (l *log) objectives() map[string]fleet.Objective {
	out := map[string]fleet.Objective{}
	for i, a := range l.asked {
		out[asksName(i)] = fleet.Objective{SLO: fleet.SLO{TTFT: a.ttft.Duration(), TPOT: a.tpot.Duration()}, Priority: a.priority}
	}
	return out
}

// Run replays the log's traffic under a setting, once with each seed: of ties,
// exploration and the engines' noise, and of which of the fits to resampled logs
// the engines have. So what differs between seeds is also how little the log tells.
//
// Errors: a setting that Check refuses; ctx's.
func (m *Model) Run(ctx context.Context, s Setting, seeds []uint64) ([]Result, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	results := make([]Result, len(seeds))
	for i, seed := range seeds {
		times, err := m.replay(ctx, &s, seed, int(seed%draws))
		if err != nil {
			return nil, err
		}
		results[i] = Result{Seed: seed, Metrics: m.metrics(times)}
	}
	return results, nil
}

// replay is one run: what became of each request of the log.
func (m *Model) replay(ctx context.Context, s *Setting, seed uint64, draw int) ([]seen, error) {
	out := make([]seen, len(m.log.requests))
	c := fleet.WorldConfig{
		Engines: m.Engines(draw), Router: m.router(s), Plan: m.Plan(), Seed: seed, BlockTokens: blockTokens,
		Sink: func(o fleet.Outcome) {
			if o.Session >= 0 && o.Session < len(m.sessions) {
				out[m.sessions[o.Session].turns[o.Turn]] = seenOf(&o)
			}
		},
	}
	if s.Policy == "" {
		m.followed(&c)
	}
	if _, err := fleet.Simulate(ctx, c); err != nil {
		return nil, fmt.Errorf("replay under %s: %w", c.Router.Policy, err)
	}
	return out, nil
}

// Log says what was read and found.
type Log struct {
	LLM       string    `json:"llm"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Settled   time.Time `json:"settled"` // from when on requests are judged
	Requests  int       `json:"requests"`
	Sessions  int       `json:"conversations"`
	Endpoints []Found   `json:"endpoints"`
	Policy    string    `json:"policy"`   // that was configured
	Fallback  string    `json:"fallback"` // and where forecasts may not decide
	Notes     []string  `json:"notes"`    // what should be known before the numbers are believed
}

// Found is an endpoint as it was found.
type Found struct {
	Name    string          `json:"name"`
	Class   string          `json:"class"`
	Answers int             `json:"answers"`
	Profile physics.Profile `json:"profile"`
}

// Log says what was read and found.
func (m *Model) Log() Log {
	l := m.log
	out := Log{
		LLM: l.llm, From: l.from, To: l.to, Settled: l.from.Add(seconds(l.settled)), Requests: len(l.requests), Sessions: len(m.sessions),
		Policy: l.setting.policy, Fallback: l.setting.fallback(), Notes: m.notes(),
	}
	for e := range l.endpoints {
		end := &l.endpoints[e]
		p := m.fitted.thetas[e].profile(m.fitted.classes[end.class], end.limits)
		out.Endpoints = append(out.Endpoints, Found{end.name, end.class, end.served, p})
	}
	return out
}

func (m *Model) notes() (notes []string) {
	l := m.log
	add := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	if l.leftOut > 0 {
		add("%d later decisions are left out: the first %d are replayed", l.leftOut, len(l.requests))
	}
	switch {
	case l.tried > 0:
		add("an experiment decided about %d requests: the arm that decided last is replayed for all, also where the log is replayed as it was", l.tried)
	case l.setting.changed:
		add("the router's settings changed within the log: those of its end are replayed")
	}
	if n := len(l.routers); n > 1 {
		add("%d routers wrote the log: they are replayed as one that knows what all of them know", n)
	}
	if policy.Forecasting(l.setting.policy) && l.anyLive() && m.options.Forecaster == nil {
		add("forecasts decided when the log was written: without the bundle, those of the prior alone are replayed")
	}
	if without := len(l.requests) - l.digested; l.digested > 0 && 10*without > len(l.requests) {
		add("%d requests do not say what their prompts have in common with others", without)
	}
	return notes
}
