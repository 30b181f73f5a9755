package pool

import (
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Snapshot is everything known of all endpoints at one moment. It never
// changes; do not write to it.
type Snapshot struct {
	Epoch     uint64  // raised with every snapshot
	Endpoints []State // sorted by ID
}

// Find returns the state of an endpoint, or nil.
func (s *Snapshot) Find(id string) *State {
	i, ok := slices.BinarySearchFunc(s.Endpoints, id, func(e State, id string) int { return strings.Compare(e.ID, id) })
	if !ok {
		return nil
	}
	return &s.Endpoints[i]
}

// State is what is known of one endpoint. Numbers never seen, or missing from
// its last metrics page, are NaN.
type State struct {
	ID      string
	URL     string // without a trailing slash and without /v1
	Class   string
	Profile string   // as configured, or empty
	LLMs    []string // sorted; empty while not known

	// Incarnation numbers the lives of endpoints: upwards, never used twice
	// by one pool.
	Incarnation uint64
	// Since is when this life was first seen to answer. Zero when it answered
	// at the first try of a pool that began with it: it may be warm.
	Since time.Time
	// Started is when the engine's process says it began, in Unix seconds; NaN
	// while it does not say. It names this life to other routers, which number
	// lives of their own.
	Started float64

	Healthy  bool // it answers; false until it did so once
	Draining bool // send nothing new

	Waiting   float64   // requests queued in the engine
	Running   float64   // requests in its batch
	KVUsed    float64   // used share of its KV cache, 0 to 1
	ScrapedAt time.Time // when these three were asked for; zero: never

	KVCapacityTokens float64 // tokens its KV cache holds
	BlockTokens      float64 // tokens in one cache block
	MaxNumSeqs       float64 // most sequences in one batch
}

// Scraped is what the endpoint last said of itself, with its age at now.
func (s *State) Scraped(now time.Time) feature.Scraped {
	age := feature.Seconds(feature.Unknown)
	if !s.ScrapedAt.IsZero() {
		age = max(0, feature.SecondsOf(now.Sub(s.ScrapedAt)))
	}
	return feature.Scraped{Waiting: s.Waiting, Running: s.Running, KVUsed: s.KVUsed, Age: age}
}

// Serves reports whether the endpoint is known to serve the LLM.
func (s *State) Serves(llm string) bool {
	_, ok := slices.BinarySearch(s.LLMs, llm)
	return ok
}
