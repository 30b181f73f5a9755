package route

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/prefix"
)

// scratch is the memory of one decision, used again by later ones.
type scratch struct {
	hasher  prefix.Hasher
	matches []int32 // by slot of the index

	llm         *llm
	state       correction.State
	stateReason string
	drill       bool // a fallback drill is on
	lost        bool // the forecasts lost the order of their priors
	decidedAt   time.Time
	part        part
	fell        fallback // why forecasts did not decide
	without     string   // peers that nothing is heard of

	// The candidates, side by side, and what Decide makes of them. Also the
	// next decision finds here those of which it sees nothing new.
	snapshot *pool.Snapshot // that they were found in
	known    []*endpoint    // of a pool that others look at too: it is not changed
	shown    []shown
	input    policy.Input
	choice   policy.Choice
	beyond   int   // candidates worth asking about whose prior no forecast can start from
	row      []int // of vectors and forecasts that is the candidate's; -1 for none
	epoch    uint64
	peak     float64 // sum of their peak prefill throughputs

	// What was asked, side by side, ordered by endpoint.
	asked     []*endpoint
	vectors   []feature.Vector
	forecasts []feature.Forecast // as they were given
	tempered  []feature.Forecast // the same as decisions use them

	shortlist policy.Shortlist

	encoded  []byte   // see record
	hashed   []uint64 // the prompt's chain
	digester prefix.Digester
}

// chain hashes the prompt in place. A piece that is no text takes as many
// bytes of it as text of its tokens would, at so many tokens a byte.
func (s *scratch) chain(q *Query, perByte float64, salt string) []uint64 {
	if s.hashed = nil; q.Prompt == nil {
		return nil
	}
	s.hasher.Reset(prefix.Seed{Deployment: salt, LLM: q.LLM, Salt: q.Salt}, prefix.DefaultBlockBytes)
	owed := 0.0 // bytes, the fraction that the pieces so far are short of
	for p := range q.Prompt {
		if p.Tokens <= 0 {
			s.hasher.Write(p.Bytes)
			continue
		}
		owed += float64(p.Tokens) / perByte
		size := int(owed)
		s.hasher.WriteOpaque(p.Bytes, size)
		owed -= float64(size)
	}
	s.hashed = s.hasher.Chain()
	return s.hashed
}

// perByte is how many tokens of q a byte of its chain stands for.
func (r *Router) perByte(q *Query) float64 {
	if q.PromptTokens <= 0 { // all is text: nothing asks
		return r.config.TokensPerByte
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.llms[q.LLM]; ok {
		return l.bytes.settled
	}
	return r.config.TokensPerByte
}

// begin starts a decision for q.
func (s *scratch) begin(r *Router, l *llm, q *Query, now time.Time) {
	s.llm = l
	s.asked, s.vectors, s.forecasts = s.asked[:0], s.vectors[:0], s.forecasts[:0]
	prompt := l.promptTokens(q)
	arm, _ := r.at(now)
	s.input = policy.Input{
		Policy:     arm.Policy,
		Settings:   arm.Settings,
		Candidates: s.input.Candidates,
		Request: policy.Request{
			PromptTokens:         prompt,
			ExpectedOutputTokens: l.output.Expect(prompt, q.limit()),
			MaxOutputTokens:      q.limit(),
			Completions:          float64(max(1, q.Completions)),
			SLOTTFT:              q.SLOTTFT,
			SLOTPOT:              q.SLOTPOT,
			Priority:             float64(q.Priority),
		},
	}
}

// candidates finds the endpoints of the present pool that may serve q. Called
// under mu.
func (r *Router) candidates(s *scratch, q *Query) error {
	snap := r.sync()
	if snap == s.snapshot {
		return nil
	}
	s.snapshot, s.epoch, s.known = nil, snap.Epoch, r.serving(q.LLM)
	if q.Within != nil {
		s.known = slices.DeleteFunc(slices.Clone(s.known), func(e *endpoint) bool { return !q.allows(e.address) })
	}
	switch {
	case len(r.present) == 0:
		return ErrNoEndpoint
	case len(s.known) > 0:
		s.snapshot = snap
		return nil
	case q.Within != nil:
		return fmt.Errorf("%w: none of the %d that may serve this request does", ErrNoEndpoint, len(q.Within))
	}
	if l := r.llms[q.LLM]; l != nil && !l.listed.IsZero() {
		return fmt.Errorf("%w: those that served %q are gone", ErrNoEndpoint, q.LLM)
	}
	return fmt.Errorf("%w: %q", ErrUnknownLLM, q.LLM)
}

// serving are the endpoints of the present pool that may serve an LLM, ordered by
// id. Decisions share the list of an LLM that is known until the pool changes.
// Called under mu.
func (r *Router) serving(name string) []*endpoint {
	l := r.llms[name]
	if l != nil && l.servedIn == r.snapshot {
		return l.serving
	}
	var all []*endpoint
	for _, e := range r.present {
		if serves(e.state, name) {
			all = append(all, e)
		}
	}
	if l != nil {
		l.serving, l.servedIn = all, r.snapshot
	}
	return all
}

// view describes the candidates as the pool, the ledger, the index and what
// was learned show them now. Called under mu.
func (r *Router) view(s *scratch, chain []uint64, now time.Time) {
	if n := r.index.Slots(); len(s.matches) < n {
		s.matches = make([]int32, n)
	}
	if len(chain) > 0 {
		r.index.Match(chain, s.matches)
	} else {
		clear(s.matches)
	}
	s.peak = 0
	blockTokens := s.llm.blockTokens()
	n := len(s.known)
	s.input.Candidates, s.shown = slices.Grow(s.input.Candidates[:0], n)[:n], slices.Grow(s.shown[:0], n)[:n]
	for i, e := range s.known {
		c, seen := &s.input.Candidates[i], e.look(r, now)
		if is := (shown{e, e.sights}); s.shown[i] != is {
			s.shown[i] = is
			// Field by field: candidates are large, and a whole one is copied twice.
			c.Endpoint, c.Class = e.id, e.state.Class
			c.HotTokens, c.SpeedSteps, c.Load = seen.hotTokens, seen.speedSteps, seen.load
			c.Coefficients = e.profile.Coefficients
		}
		c.Standing = r.standing(e.state, now)
		c.CachedTokens = s.llm.held(e.slot, chain, int(s.matches[e.slot]), s.input.Request.PromptTokens, blockTokens)
		c.ColdAgo = e.coldAgo(now)
		c.Residual, c.Correction = feature.NoResidual, feature.Residual{}
		s.peak += c.Load.Profile.PeakPrefillThroughput
	}
}

// serves reports whether an endpoint may serve an LLM. One that has not said
// what it serves may serve anything, and a request that names nothing may go
// anywhere.
func serves(e *pool.State, llm string) bool {
	return llm == "" || len(e.LLMs) == 0 || e.Serves(llm)
}

// standing says how far an endpoint can be trusted with a request.
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
