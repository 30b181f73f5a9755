package simulate

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/prefix"
)

// Logged is a decision and what came of it.
type Logged struct {
	Decision feature.Decision
	Outcome  feature.Outcome // of the last attempt; Attempt is 0 when there is none
}

// request is one of the log.
type request struct {
	at       float64 // seconds since the first
	endpoint int     // that served it; below 0: none did
	class    string  // of what it asks; see objectives
	prompt   int     // tokens
	output   int     // generated, or expected of those that were not answered
	cached   float64 // of the prompt, as the engine said; unknown where it did not
	believed float64 // and as the router believed

	ttft, tpot, e2e float64 // seconds; unknown
	ended           float64 // since the first; unknown
	ok              bool
	live            bool // forecasts might decide about it

	digest prefix.Digest // without marks, once it has its parent
	parent int32         // the request before it that its prompt begins like; below 0: none
	common int32         // blocks of the digest that both begin with
	shared int32         // blocks of BlockTokens that both begin with, with the parent's answer
	origin int32         // the nearest before it, over parents, that brought some of the shared blocks itself
	next   int32         // the one that goes on from its answer; below 0: none
	goesOn bool          // from the parent's answer
	old    int32         // blocks that were there before the log began
	warm   []warm        // what endpoints were believed to hold of it, until remember has read it
}

// warm is how much of a prompt an endpoint was believed to hold.
type warm struct {
	endpoint int32
	tokens   float32
}

// endpoint is one of the log.
type endpoint struct {
	name, class string
	limits      limits
	served      int       // requests that it answered
	speeds      []float64 // factors that the router had learned, at its decisions
}

// limits are what the router knew last.
type limits struct{ batched, sequences, cache, peak float64 }

var (
	columnBudget    = feature.Index("max_batched_tokens")
	columnSequences = feature.Index("max_num_seqs")
	columnCache     = feature.Index("kv_capacity_tokens")
	columnPeak      = feature.Index("peak_prefill_throughput")
	columnAge       = feature.Index("scrape_age")
)

func (l *limits) learn(v *feature.Vector) {
	for _, x := range []struct {
		to     *float64
		column int
	}{{&l.batched, columnBudget}, {&l.sequences, columnSequences}, {&l.cache, columnCache}, {&l.peak, columnPeak}} {
		if n := v[x.column]; n >= 1 { // false where it is not known
			*x.to = float64(n)
		}
	}
}

// log is what was read.
type log struct {
	llm       string
	from, to  time.Time
	requests  []request
	endpoints []endpoint // in order of name
	places    map[string]int
	routers   map[string]int
	ages      []float64 // of scrapes
	setting   configured
	leftOut   int // because there were more than the most
	digested  int
	settled   float64  // seconds, from which on requests are judged
	holds     [][]held // of each endpoint, before the log begins
	per       float64  // tokens of a block of their digests
	objective map[asks]string
	asked     []asks // by number of their class
	always    bool   // forecasts might decide all the time
	early     int    // that ended before they were sent
	tried     int    // that an experiment decided
}

// asks is what a request asks of its router.
type asks struct {
	ttft, tpot feature.Seconds // 0: nothing
	priority   int
}

// configured is how the router that wrote the log was set, as far as its complete
// decisions tell.
type configured struct {
	seen      int // complete decisions looked at
	policy    string
	settings  policy.Settings
	canary    float64
	fallbacks map[string]int
	changed   bool
	believed  map[string]physics.Coefficients // by class
	undecoded error
}

const (
	// fewestAnswers is how many answered requests a fit wants at least.
	fewestAnswers = 200
	// mostRequests is how many requests are replayed at most by default.
	mostRequests = 200_000
	// looked is after how many complete decisions the next one's state is read:
	// settings change rarely, and reading a state takes as long as deciding.
	looked = 32
	// lookedAtFirst is how many are read at the beginning, where caches hold what
	// no logged request brought.
	lookedAtFirst = 5000
	// longestLog is from the first decision to the last: a replay takes time for
	// what it is long, and one whose clock was wrong is years.
	longestLog = 60 * 24 * time.Hour
	// mostTokens is how long a prompt or an answer may be.
	mostTokens = 1 << 24
	// longestObjective bounds what a request asks for, in seconds: who waits so long
	// asks for nothing.
	longestObjective = 1e6
	// earlyShare is of how many requests that ended before they were sent a clock
	// must have jumped.
	earlyShare = 0.001
)

// ErrNoRows says that there was not a single decision.
var ErrNoRows = errors.New("there is no decision in the window")

// read reads a log.
func read(rows iter.Seq2[Logged, error], most int) (*log, error) {
	l := &log{places: map[string]int{}, routers: map[string]int{}, objective: map[asks]string{}}
	l.setting.fallbacks, l.setting.believed = map[string]int{}, map[string]physics.Coefficients{}
	var times []time.Time
	read := map[feature.ID]struct{}{}
	complete := 0
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		d := &r.Decision
		switch {
		case d.Schema != feature.Schema:
			return nil, fmt.Errorf("a decision of %s has vectors of schema %s and this build reads %s: judge it with the version that logged it, or leave it out with a shorter window",
				d.DecidedAt.UTC().Format(time.RFC3339), d.Schema, feature.Schema)
		case len(l.requests) == 0:
			l.llm = d.LLM
		case d.LLM != l.llm:
			return nil, fmt.Errorf("there are decisions of %q and of %q: want those of one LLM", l.llm, d.LLM)
		}
		if len(l.requests) == most {
			l.leftOut++
			continue
		}
		if _, twice := read[d.ID]; twice {
			return nil, fmt.Errorf("decision %s of %s stands there twice: exports overlap, or one was given twice", d.ID, d.DecidedAt.UTC().Format(time.RFC3339))
		}
		read[d.ID] = struct{}{}
		q, err := l.request(&r)
		if err != nil {
			return nil, err
		}
		if d.Complete && d.States != nil {
			if complete < lookedAtFirst || complete%looked == 0 {
				q.warm = l.look(d, q.warm)
			}
			complete++
		}
		l.requests = append(l.requests, q)
		times = append(times, d.DecidedAt)
	}
	if len(times) == 0 {
		return nil, ErrNoRows
	}
	if l.setting.seen == 0 {
		if err := l.setting.undecoded; err != nil {
			return nil, fmt.Errorf("no decision tells how the router was set: %w", err)
		}
		return nil, errors.New("no decision holds all its candidates, so how the router was set is not known: export with --candidates, or raise router.complete_up_to")
	}
	if float64(l.early) > max(1, earlyShare*float64(len(times))) {
		return nil, fmt.Errorf("%d of %d requests ended before they were sent: a clock jumped, and what arrived when is not known; choose a window without it", l.early, len(times))
	}
	if err := l.order(times); err != nil {
		return nil, err
	}
	l.settle()
	return l, nil
}

// order puts the requests in order of time, and the endpoints in that of names.
func (l *log) order(times []time.Time) error {
	l.from, l.to = times[0], times[0]
	for _, t := range times {
		if t.Before(l.from) {
			l.from = t
		}
		if t.After(l.to) {
			l.to = t
		}
	}
	switch length := l.to.Sub(l.from); {
	case length <= 0:
		return fmt.Errorf("all %d decisions are of one moment, so what came when is not known", len(times))
	case length > longestLog:
		return fmt.Errorf("the decisions are from %s to %s, and at most %.0f days can be replayed: choose a shorter window, or look for a clock that was wrong",
			l.from.UTC().Format(time.RFC3339), l.to.UTC().Format(time.RFC3339), longestLog.Hours()/24)
	}
	for i := range l.requests {
		q := &l.requests[i]
		q.at = times[i].Sub(l.from).Seconds()
		q.ended += q.at
	}
	slices.SortStableFunc(l.requests, func(a, b request) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	l.name()
	answered := 0
	l.always = true
	for i := range l.requests {
		l.always = l.always && l.requests[i].live
		if l.requests[i].ttft > 0 {
			answered++
		}
	}
	if answered < fewestAnswers {
		return fmt.Errorf("%d of %d requests have a measured TTFT: want at least %d to fit engines to", answered, len(l.requests), fewestAnswers)
	}
	return nil
}

// name orders the endpoints as routers do.
func (l *log) name() {
	order := make([]int, len(l.endpoints))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if l.endpoints[a].name < l.endpoints[b].name {
			return -1
		}
		return 1
	})
	sorted, place := make([]endpoint, len(order)), make([]int, len(order))
	for to, from := range order {
		sorted[to], place[from] = l.endpoints[from], to
	}
	l.endpoints = sorted
	for i := range l.requests {
		q := &l.requests[i]
		for k := range q.warm {
			q.warm[k].endpoint = int32(place[q.warm[k].endpoint])
		}
		if q.endpoint >= 0 {
			q.endpoint = place[q.endpoint]
			if q.ttft > 0 {
				l.endpoints[q.endpoint].served++
			}
		}
	}
}

// request is what a decision and its outcome say of their request.
func (l *log) request(r *Logged) (request, error) {
	d, o := &r.Decision, &r.Outcome
	l.routers[d.Router]++
	if d.Arm != "" && d.Mode != "canary" { // whose coin a replay tosses too
		l.tried++
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		e := l.endpoint(c.Endpoint, c.Class)
		e.limits.learn(&c.Vector)
	}
	unknown := math.NaN()
	q := request{
		endpoint: -1, parent: -1, next: -1, class: l.ask(d), live: mayDecide(d),
		prompt: int(d.PromptTokens), output: int(d.ExpectedOutputTokens),
		cached: unknown, believed: unknown, ttft: unknown, tpot: unknown, e2e: unknown, ended: unknown,
	}
	if !(d.PromptTokens >= 1) {
		q.prompt = 1
	}
	for _, x := range []struct {
		column string
		tokens float64
	}{{"prompt_tokens", d.PromptTokens}, {"expected_output_tokens", d.ExpectedOutputTokens}, {"output_tokens", o.OutputTokens}} {
		if x.tokens > mostTokens {
			return q, fmt.Errorf("decision %s: %s is %g: want at most %d", d.ID, x.column, x.tokens, mostTokens)
		}
	}
	if d.Chosen != "" {
		chosen := l.endpoint(d.Chosen, d.ChosenClass)
		chosen.limits.learn(&d.ChosenVector)
		if speed := float64(d.ChosenVector[columnSpeed]); speed > 0 {
			chosen.speeds = append(chosen.speeds, speed)
		}
		if q.believed = float64(d.ChosenVector[feature.ColumnCachedTokens]); q.believed >= blockTokens {
			q.warm = append(q.warm, warm{int32(l.places[d.Chosen]), float32(q.believed)})
		}
		if age := float64(d.ChosenVector[columnAge]); age > 0 {
			l.ages = append(l.ages, age)
		}
	}
	if o.Attempt > 0 {
		if o.Endpoint != "" && o.Attempt == 1 {
			l.endpoint(o.Endpoint, d.ChosenClass)
			q.endpoint = l.places[o.Endpoint]
		}
		if o.Attempt == 1 { // when a retry was sent is not known
			q.ttft, q.tpot, q.e2e = float64(o.TTFT), float64(o.TPOT), float64(o.E2E)
		}
		q.cached, q.ok = o.CachedTokens, o.Status == feature.OK
		if o.OutputTokens >= 1 {
			q.output = int(o.OutputTokens)
		}
		if !o.FinishedAt.IsZero() {
			if q.ended = o.FinishedAt.Sub(d.DecidedAt).Seconds(); q.ended < -1 {
				l.early++
			}
		}
	}
	q.output = max(1, q.output)
	var err error
	if q.digest, err = prefix.ParseDigest(d.PromptDigest); err != nil {
		return q, fmt.Errorf("decision %s: %w", d.ID, err)
	}
	if q.digest.Blocks > 0 {
		l.digested++
	}
	return q, nil
}

// endpoint is the one of that name. It is valid until the next call.
func (l *log) endpoint(name, class string) *endpoint {
	i, ok := l.places[name]
	if !ok {
		i = len(l.endpoints)
		l.places[name] = i
		l.endpoints = append(l.endpoints, endpoint{name: name, class: class})
	}
	return &l.endpoints[i]
}

// asksName names the class of those that ask the same.
func asksName(i int) string { return fmt.Sprintf("asks-%d", i) }

// ask is the class of what a request asks for.
func (l *log) ask(d *feature.Decision) string {
	a := asks{priority: d.Priority}
	if d.SLOTTFT > 0 {
		a.ttft = min(d.SLOTTFT, longestObjective)
	}
	if d.SLOTPOT > 0 {
		a.tpot = min(d.SLOTPOT, longestObjective)
	}
	name, ok := l.objective[a]
	if !ok {
		name = asksName(len(l.asked))
		l.objective[a] = name
		l.asked = append(l.asked, a)
	}
	return name
}

// look reads from a complete decision how the router was set and what endpoints
// were believed to hold.
func (l *log) look(d *feature.Decision, known []warm) []warm {
	c := &l.setting
	in, err := policy.Decode(d.States)
	if err != nil {
		c.undecoded = err
		return known
	}
	if c.seen > 0 && (in.Policy != c.policy || in.Settings != c.settings || in.Canary != c.canary) {
		c.changed = true
	}
	c.seen++
	c.policy, c.settings, c.canary = in.Policy, in.Settings, in.Canary
	c.fallbacks[in.Fallback]++
	for i := range in.Candidates {
		if i >= len(d.Candidates) {
			break
		}
		name := d.Candidates[i].Endpoint
		c.believed[d.Candidates[i].Class] = in.Candidates[i].Coefficients
		if cached := in.Candidates[i].CachedTokens; cached >= blockTokens && name != d.Chosen {
			known = append(known, warm{int32(l.places[name]), float32(cached)})
		}
	}
	return known
}
