package policy

import (
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Version is raised when the same Input may come to mean another choice. Since
// version 2 predicted counts what a request does to others, and objectives; since
// version 3 the wait for room is that of all who wait before; since version 4 the
// wait for the first token counts for more than the rest of an answer's time, and
// waiting for room opens the valve later; since version 5 who is held up counts
// everywhere, also behind the request; since version 6 those who will follow a
// prefix to where it is placed count, by how full of prefixes it is there.
const Version = 6

// Input is everything Decide reads.
type Input struct {
	Policy    string // the configured policy
	Fallback  string // the matched configuration that decides when Forecasts is false
	Forecasts bool   // forecasts may decide

	// Canary is the share of the requests, drawn for each, in which forecasts
	// decide when they may; 0 is no canary: in all of them.
	Canary float64

	Settings Settings
	Request  Request
	Seed     uint64 // of this decision's own draws
	Turn     uint64 // counts decisions; round-robin's position

	// Candidates are all endpoints that may serve the LLM, ordered by
	// Endpoint.
	Candidates []Candidate
}

// Request is what the choice reads of the request itself.
type Request struct {
	PromptTokens         float64
	ExpectedOutputTokens float64
	MaxOutputTokens      float64 // NaN when the request gives none
	Completions          float64
	SLOTTFT              feature.Seconds // NaN when unset
	SLOTPOT              feature.Seconds // NaN when unset
	Priority             float64         // below 0 may be shed where it has objectives
}

// Standing says how far an endpoint can be trusted with a request. A lower
// one is always preferred; a higher one is used only when no other is left, so
// no pool is ever without a candidate.
type Standing uint8

// The standings.
const (
	Good     Standing = iota // healthy, its numbers fresh
	Dated                    // healthy, its numbers too old to compare with
	Doubtful                 // failing its checks
	Barred                   // must not get this request (draining)
)

// Standings lists all of them, the best first.
var Standings = []Standing{Good, Dated, Doubtful, Barred}

// String is the standing as reasons and metrics name it.
func (s Standing) String() string {
	switch s {
	case Good:
		return "good"
	case Dated:
		return "dated"
	case Doubtful:
		return "doubtful"
	}
	return "barred"
}

// Candidate is one endpoint as the decision sees it, under the ledger's lock.
type Candidate struct {
	Endpoint     string
	Class        string
	Standing     Standing
	CachedTokens float64         // contiguous prefix of the prompt believed cached there
	ColdAgo      feature.Seconds // since it was last given a request that nobody held a prefix of; NaN when never
	HotTokens    float64         // of its prefixes used in the last 60 s; NaN when not known
	SpeedSteps   float64         // engine steps that its speed factor was measured by
	Load         feature.Load
	Coefficients physics.Coefficients // of its class
	Residual     feature.Residual     // from the bundle; NoResidual when not forecast
	Correction   feature.Residual     // added to the residual, all in log; zero for none
}

// Request joins the decision's request with what c has cached of it.
func (c *Candidate) request(r *Request) feature.Request {
	return feature.Request{
		PromptTokens:         r.PromptTokens,
		CachedTokens:         c.CachedTokens,
		ExpectedOutputTokens: r.ExpectedOutputTokens,
		MaxOutputTokens:      r.MaxOutputTokens,
		Completions:          r.Completions,
	}
}

// Prior is the analytic estimate for r on c.
func (c *Candidate) Prior(r *Request) feature.Prior {
	request := c.request(r)
	return c.Coefficients.Prior(&request, &c.Load)
}

// Vector is what a forecast of r on c is made from.
func (c *Candidate) Vector(r *Request) feature.Vector {
	return feature.Of(c.request(r), c.Load, c.Prior(r))
}

// uncached is the prefill work of r on c in tokens.
func (c *Candidate) uncached(r *Request) float64 { return c.request(r).UncachedTokens() }

// Settings are the numbers of the policies.
type Settings struct {
	StickyShare       float64         `yaml:"sticky_share" json:"sticky_share"`                                       // an endpoint is warm when it holds this share of the prompt, above 0 and at most 1
	StickySaved       feature.Seconds `yaml:"sticky_saved" json:"sticky_saved"`                                       // or when it saves so much prefill
	MaxTTFTPenalty    feature.Seconds `yaml:"max_ttft_penalty" json:"max_ttft_penalty"`                               // valve of the matched configurations, on prefill queued in front; of predicted, on waiting for room
	PredictedPenalty  feature.Seconds `yaml:"predicted_ttft_penalty" json:"predicted_ttft_penalty"`                   // valve of predicted, on forecast TTFT
	TokensPerRequest  float64         `yaml:"tokens_per_request" json:"tokens_per_request"`                           // what one active request counts in combined-load
	Exploration       float64         `yaml:"exploration" json:"exploration"`                                         // probability of trying another of the cheapest, 0 to 1
	ExplorationHarm   feature.Seconds `yaml:"exploration_harm" json:"exploration_harm"`                               // most extra cost an explored endpoint may have
	DefaultThroughput float64         `yaml:"default_peak_prefill_throughput" json:"default_peak_prefill_throughput"` // tokens/s of prefill where a profile gives none, above 0

	// Of the cost of predicted; see Terms. 0 leaves a term out.
	EvictionWeight      float64 `yaml:"eviction_weight" json:"eviction_weight"`           // in the cost of predicted, of prefill that eviction makes necessary again, and of the time that followers of a prefix lose where caches become full
	HeadroomWeight      float64 `yaml:"headroom_weight" json:"headroom_weight"`           // of the time to compute again what goes beyond 90 % of the KV cache
	PrefillExternality  float64 `yaml:"prefill_externality" json:"prefill_externality"`   // of a second that others are held up which decode there
	QueueExternality    float64 `yaml:"queue_externality" json:"queue_externality"`       // of a second that others wait which come later
	EvictionExternality float64 `yaml:"eviction_externality" json:"eviction_externality"` // of a second that others will be held up by what was evicted
	DecodeExternality   float64 `yaml:"decode_externality" json:"decode_externality"`     // of a second that others are slowed, where speeds are unequal
	Impatience          float64 `yaml:"impatience" json:"impatience"`                     // of a second until the first token, beside the second itself

	ShedExcess float64 `yaml:"shed_excess" json:"shed_excess"` // all that may be shed is, where the best p90 exceeds its objective by this share
}

// Defaults are the published defaults of the matched configurations (valve
// 18 s at 15,928 tokens/s, stickiness 0.8; llm-d's "sticky until saturated")
// and those of predicted that were best or tied in simulation: twice of eviction
// 3 and headroom 30. Where others are held up, 0.3 of a second counts. Of 0.03,
// replayed traffic of code completion lost 9 % of E2E against the better matched
// configuration; with 0.3 it gains 2, with 0.4 it gains 3, but conversations near
// the knee no longer gain on TTFT p90. Impatience of 2 is what keeps that TTFT p90
// below the matched configuration's, at no cost in E2E. Exploration may cost
// little, since each one also puts a second copy of a prefix somewhere.
func Defaults() Settings {
	return Settings{
		StickyShare:       0.8,
		StickySaved:       1,
		MaxTTFTPenalty:    18,
		PredictedPenalty:  5,
		TokensPerRequest:  8000,
		Exploration:       0.01,
		ExplorationHarm:   0.2,
		DefaultThroughput: 15928,

		EvictionWeight:      3,
		HeadroomWeight:      30,
		PrefillExternality:  0.3,
		QueueExternality:    1,
		EvictionExternality: 0.03,
		DecodeExternality:   0.5,
		Impatience:          2,

		ShedExcess: 0.5,
	}
}
