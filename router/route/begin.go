package route

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/prefix"
)

// scratch is the memory of one decision, used again by later ones.
type scratch struct {
	hasher    prefix.Hasher
	matches   []int32
	states    []*pool.State // of the candidates
	input     policy.Input
	choice    policy.Choice
	asked     []int // candidates that are forecast
	costs     []float64
	vectors   []feature.Vector
	forecasts []feature.Forecast
}

// Begin decides where q goes and charges it there. The ticket must be ended.
//
// Errors: ErrNoEndpoint, ErrUnknownLLM, *Shed, or ctx's.
func (r *Router) Begin(ctx context.Context, q *Query) (*Ticket, error) {
	began := time.Now()
	s := r.scratch.Get().(*scratch)
	defer r.scratch.Put(s)
	snap := r.pool.Snapshot()
	if err := s.serving(snap, q.LLM); err != nil {
		return nil, err
	}
	chain := s.chain(q)

	state := r.observe(s, snap, q, chain, began)
	var answer Answer
	result, why := correction.Untrained, ""
	asked := false
	if r.forecaster != nil && r.config.Policy == policy.Predicted && asks(state) {
		s.choose(r.config.ForecastCandidates, r.config.Settings)
		answer, result, why = r.ask(ctx, q.LLM, s.vectors, s.forecasts)
		asked = true
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return r.decide(s, snap, q, chain, asking{asked, answer, result, why})
}

// asking is how asking for a request's forecasts went.
type asking struct {
	asked  bool
	answer Answer
	result correction.Result
	why    string
}

// serving finds the endpoints that may serve an LLM.
func (s *scratch) serving(snap *pool.Snapshot, name string) error {
	s.states = s.states[:0]
	for i := range snap.Endpoints {
		e := &snap.Endpoints[i]
		if name == "" || len(e.LLMs) == 0 || slices.Contains(e.LLMs, name) {
			s.states = append(s.states, e)
		}
	}
	switch {
	case len(s.states) > 0:
		return nil
	case len(snap.Endpoints) == 0:
		return ErrNoEndpoint
	default:
		return fmt.Errorf("%w: %q", ErrUnknownLLM, name)
	}
}

// chain hashes the prompt in place.
func (s *scratch) chain(q *Query) []uint64 {
	if q.Prompt == nil {
		return nil
	}
	s.hasher.Reset(prefix.Seed{LLM: q.LLM, Salt: q.Salt}, prefix.DefaultBlockBytes)
	for span := range q.Prompt {
		s.hasher.Write(span)
	}
	return s.hasher.Chain()
}

// observe fills the candidates from the pool, the ledger, the index and what
// was learned, as of now.
func (r *Router) observe(s *scratch, snap *pool.Snapshot, q *Query, chain []uint64, now time.Time) correction.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sync(snap)
	l := r.llm(q.LLM, now)
	prompt := l.promptTokens(q)
	s.input = policy.Input{
		Policy:     r.config.Policy,
		Settings:   r.config.Settings,
		Candidates: slices.Grow(s.input.Candidates[:0], len(s.states))[:len(s.states)],
		Request: policy.Request{
			PromptTokens:         prompt,
			ExpectedOutputTokens: l.output.expect(prompt, q.limit()),
			MaxOutputTokens:      q.limit(),
			Completions:          float64(max(1, q.Completions)),
			SLOTTFT:              q.SLOTTFT,
			SLOTPOT:              q.SLOTPOT,
			Priority:             float64(q.Priority),
		},
	}
	for _, e := range s.states {
		r.endpoint(e) // a new one gets its slot before the walk
	}
	if n := r.index.Slots(); len(s.matches) < n {
		s.matches = make([]int32, n)
	}
	clear(s.matches)
	if len(chain) > 0 {
		r.index.Match(chain, s.matches)
	}
	blockTokens := float64(prefix.DefaultBlockBytes) * l.bytes.perByte
	for i, e := range s.states {
		known := r.endpoint(e)
		profile := r.profile(e)
		c := &s.input.Candidates[i]
		*c = policy.Candidate{
			Endpoint:     e.ID,
			Class:        e.Class,
			Standing:     r.standing(e, now),
			CachedTokens: min(prompt, math.Floor(float64(s.matches[known.slot])*blockTokens)),
			Coefficients: profile.Coefficients,
			Residual:     feature.NoResidual,
			Load: feature.Load{
				Scraped: e.Scraped(now),
				Ledger:  r.ledger.State(e.ID, e.Incarnation, now, e.ScrapedAt),
				Profile: profileLoad(profile, e.KVCapacityTokens, known.speed.Factor(now)),
			},
		}
	}
	state, _, _ := l.machine.State()
	return state
}

func (r *Router) standing(e *pool.State, now time.Time) policy.Standing {
	switch {
	case e.Draining:
		return policy.Barred
	case !e.Healthy:
		return policy.Doubtful
	case e.ScrapedAt.IsZero() || now.Sub(e.ScrapedAt) > r.config.ScrapeMaxAge:
		return policy.Dated
	default:
		return policy.Good
	}
}

// choose picks the candidates to forecast, k at most beside the warm ones, by
// their cost under the prior, and makes their vectors.
func (s *scratch) choose(k int, settings policy.Settings) {
	n := len(s.input.Candidates)
	s.asked = s.asked[:0]
	for i := range n {
		s.asked = append(s.asked, i)
	}
	if k > 0 && n > k {
		s.costs = s.costs[:0]
		for i := range n {
			p := s.input.Candidates[i].Prior(&s.input.Request)
			cost := float64(p.TTFT) + float64(p.TPOT)*s.input.Request.ExpectedOutputTokens
			cost += float64(s.input.Candidates[i].Standing) * 1e6
			if policy.Sticky(&s.input, i) {
				cost -= 1e9
			}
			s.costs = append(s.costs, cost)
		}
		slices.SortStableFunc(s.asked, func(a, b int) int { return cmp.Compare(s.costs[a], s.costs[b]) })
		for k < n && s.costs[s.asked[k]] < -1e8 { // the whole warm set
			k++
		}
		s.asked = s.asked[:k]
	}
	s.vectors = s.vectors[:0]
	for _, i := range s.asked {
		s.vectors = append(s.vectors, s.input.Candidates[i].Vector(&s.input.Request))
	}
	s.forecasts = slices.Grow(s.forecasts[:0], len(s.asked))[:len(s.asked)]
	for i := range s.forecasts {
		s.forecasts[i] = feature.NoForecast
	}
}

// decide makes the choice and charges it in one locked step, from the ledger
// as it is now.
func (r *Router) decide(s *scratch, snap *pool.Snapshot, q *Query, chain []uint64, a asking) (*Ticket, error) {
	r.mu.Lock()
	now := time.Now()
	l := r.llm(q.LLM, now)
	if a.asked {
		r.settled(l, now, a.answer, a.result, a.why)
	}
	state, stateReason, _ := l.machine.State()
	var peak float64
	for i := range s.input.Candidates {
		c := &s.input.Candidates[i]
		known := r.endpoint(s.states[i])
		c.Load.Ledger = r.ledger.State(c.Endpoint, known.incarnation, now, s.states[i].ScrapedAt)
		peak += c.Load.Profile.PeakPrefillThroughput
	}
	answered := a.asked && a.result == correction.Answered
	if answered {
		for j, i := range s.asked {
			c := &s.input.Candidates[i]
			c.Residual = s.forecasts[j].Residual
			known := r.endpoints[c.Endpoint]
			c.Correction = feature.Residual{
				TTFT: feature.LogQuantiles{P50: known.offset.TTFT(), P90: known.offset.TTFT() + l.coverage.TTFT()},
				TPOT: feature.LogQuantiles{P50: known.offset.TPOT(), P90: known.offset.TPOT() + l.coverage.TPOT()},
			}
		}
	}
	s.input.Fallback = r.config.Fallback
	if s.input.Fallback == Auto {
		s.input.Fallback = l.matched(now, peak)
	}
	s.input.Forecasts = answered && state == correction.Live && r.config.Mode == ModeLive
	s.input.Seed = draw()
	s.input.Turn = r.turn
	r.turn++
	if err := policy.Decide(&s.input, &s.choice); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if s.choice.Index < 0 {
		r.mu.Unlock()
		return nil, ErrNoEndpoint
	}
	t := r.charge(s, snap, q, chain, now, l)
	l.decisions++
	if s.input.Forecasts {
		l.forecasts++
	}
	r.mu.Unlock()

	id, err := uuid.NewV7()
	if err != nil {
		t.End(End{Status: feature.Lost})
		return nil, fmt.Errorf("make a decision id: %w", err)
	}
	t.id, t.decidedAt = feature.ID(id), now.UTC().Truncate(time.Microsecond)
	why := fallbackReason(r, &s.input, state, stateReason, a)
	t.record(s, snap, q, why, state, a)
	r.metrics.decided(s, state)
	return t, nil
}

// charge books the chosen candidate in ledger, index and counters.
func (r *Router) charge(s *scratch, snap *pool.Snapshot, q *Query, chain []uint64, now time.Time, l *llm) *Ticket {
	i := s.choice.Index
	c := &s.input.Candidates[i]
	known := r.endpoints[c.Endpoint]
	request := &s.input.Request
	uncached := feature.Request{PromptTokens: request.PromptTokens, CachedTokens: c.CachedTokens}.UncachedTokens()
	t := &Ticket{
		router:   r,
		llm:      l,
		snapshot: snap,
		endpoint: known,
		state:    s.states[i],
		policy:   s.choice.Policy,
		query:    *q,
		prompt:   request.PromptTokens,
		output:   request.ExpectedOutputTokens,
		cached:   c.CachedTokens,
		class:    c.Class,
	}
	t.query.Prompt = nil // the body is not ours to keep
	t.corrected = s.choice.Forecasts[i]
	t.plain = plain(t.corrected, c.Correction)
	t.entry = ledger.Entry{PromptTokens: int(request.PromptTokens), UncachedTokens: int(uncached), ExpectedOutput: int(request.ExpectedOutputTokens)}
	if !q.Streaming {
		wait := c.Prior(request).TTFT
		if t.corrected.Known() {
			wait = t.corrected.TTFT.P90
		}
		t.entry.MoveAt = now.Add(wait.Duration())
	}
	t.work = prefillWork(c, request)
	t.handle = r.ledger.Charge(c.Endpoint, known.incarnation, t.entry, now)
	if len(chain) > 0 {
		r.index.Insert(known.slot, chain, now)
	}
	l.prefill.add(now, uncached)
	known.live[t] = struct{}{}
	known.chosen++
	return t
}

// prefillWork is the seconds of prefill the step model gives for the request.
func prefillWork(c *policy.Candidate, request *policy.Request) float64 {
	uncached := feature.Request{PromptTokens: request.PromptTokens, CachedTokens: c.CachedTokens}.UncachedTokens()
	return float64(c.Coefficients.Work(request.PromptTokens, uncached))
}

// plain takes the online correction out of a forecast again: what the bundle
// and the prior alone say.
func plain(f feature.Forecast, c feature.Residual) feature.Forecast {
	if !f.Known() {
		return f
	}
	f.TTFT.P50 *= feature.Seconds(math.Exp(-c.TTFT.P50))
	f.TTFT.P90 *= feature.Seconds(math.Exp(-c.TTFT.P90))
	f.TPOT.P50 *= feature.Seconds(math.Exp(-c.TPOT.P50))
	f.TPOT.P90 *= feature.Seconds(math.Exp(-c.TPOT.P90))
	return f
}
