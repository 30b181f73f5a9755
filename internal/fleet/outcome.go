package fleet

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Outcome is what a client saw of one request. Times of it are in virtual
// time and start when it was sent.
type Outcome struct {
	Session  int            `json:"session"` // of the plan
	Turn     int            `json:"turn"`    // of the session, from 0
	Class    string         `json:"class"`
	Endpoint int            `json:"endpoint"` // number of the engine in WorldConfig.Engines; -1: nobody took it
	Status   feature.Status `json:"status"`   // ok; client_abort: timed out; upstream_error: refused; shed: turned away by the router; lost: the run ended first
	At       time.Duration  `json:"at"`       // when it was sent

	TTFT time.Duration `json:"ttft"` // to the first token; 0: none came
	TPOT time.Duration `json:"tpot"` // per token after the first; 0: fewer than two came
	E2E  time.Duration `json:"e2e"`  // to the last token, or to the end without one

	PromptTokens  int `json:"prompt_tokens"`
	MatchedTokens int `json:"matched_tokens"` // of them, that the router believed cached there
	CachedTokens  int `json:"cached_tokens"`  // of them, that the engine found
	OutputTokens  int `json:"output_tokens"`  // generated

	// Alone is what E2E would be on an idle engine of the fleet's first kind
	// with nothing cached: the measure of slowdown.
	Alone time.Duration `json:"alone"`

	// Policy is the one that decided: the router's, or its fallback; empty where
	// the client's connection did, or nobody took it.
	Policy string `json:"policy,omitempty"`
}

// Result is what came of a run.
type Result struct {
	// Requests are the outcomes in the order in which the requests ended;
	// empty when a sink took them.
	Requests []Outcome `json:"requests,omitempty"`

	Sent    int       `json:"sent"`    // requests
	Engines []Metrics `json:"engines"` // of each endpoint, as of the end
	Chosen  []int     `json:"chosen"`  // requests sent to each endpoint
	Steps   int64     `json:"steps"`   // of all engines

	// Loaded is when the load was as planned: from the plan's warm-up until no
	// further session was there to begin.
	Loaded Window `json:"loaded"`
	// Ended is when the last request ended.
	Ended time.Duration `json:"ended"`
}

// Window is a time; To is excluded.
type Window struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// Length is how long w is; 0 when it ends before it begins.
func (w Window) Length() time.Duration { return max(0, w.To-w.From) }

// holds reports whether at lies in w.
func (w Window) holds(at time.Duration) bool { return at >= w.From && at < w.To }

// Sample is the state of a world at one moment. It is valid during the call
// that gets it.
type Sample struct {
	At        time.Duration
	Endpoints []EndpointSample
}

// EndpointSample is one endpoint in a Sample, as it is, not as it publishes.
type EndpointSample struct {
	Waiting  int     // requests in the engine's line
	Running  int     // requests in its batch
	KVUsed   float64 // held share of its KV cache, 0 to 1
	InFlight int     // requests the router has there
	Chosen   int     // requests sent there so far
	Speed    float64 // factor the router has learned
}
