package feature

// Load is one endpoint's state as known at one moment. Numbers that were
// never seen are NaN.
type Load struct {
	Scraped Scraped
	Ledger  Ledger
	Profile Profile
}

// Scraped is what the endpoint last said of itself.
type Scraped struct {
	Waiting float64 // requests in the engine's queue
	Running float64 // requests in the engine's batch
	KVUsed  float64 // used share of the KV cache, 0 to 1
	Age     Seconds // time since these numbers were read; NaN when never
}

// RemainingBuckets is the number of log-spaced buckets in which the remaining
// output of the requests in flight is counted: bucket i holds those with
// [2^i, 2^(i+1)) tokens to go, bucket 0 those with fewer than 2, the last one
// everything longer.
const RemainingBuckets = 18

// Ledger is what this router itself has in flight at the endpoint. It is
// never unknown: a router that sent nothing has zeros.
type Ledger struct {
	Requests       float64 // sent and not yet ended
	PrefillTokens  float64 // uncached prompt tokens of those without a first token
	Decoding       float64 // requests with a first token
	ContextTokens  float64 // prompt and generated tokens of the decoding requests
	SinceScrape    float64 // requests sent since the scraped numbers were read
	SinceScrapeTok float64 // uncached prompt tokens sent since then

	// The rest refines the prior and is not in the vector by itself.

	PrefillContext     float64                   // sum of U*(P-U/2) over those without a first token, in tokens^2
	WaitingContext     float64                   // prompt tokens of those without a first token
	WaitingOutput      float64                   // tokens those are expected to generate
	WaitingStay        float64                   // sum of out*(prompt+out/2) over those, out being their expected output: KV tokens times decode steps that they will take
	SinceScrapeContext float64                   // prompt tokens sent since the scraped numbers were read
	SharedContext      float64                   // prompt tokens in flight that an engine holds once but for each of several requests count here
	HeadTokens         float64                   // uncached prompt tokens of the one that must be in prefill now
	HeadContext        float64                   // U*(P-U/2) of that one
	HeadElapsed        Seconds                   // time it has had: since its dispatch or the last first token before it
	PrefillRate        float64                   // uncached prompt tokens sent per second, over about 30 s
	PrefillContextRate float64                   // U*(P-U/2) of what was sent, per second, over the same time
	GeneratedTokens    float64                   // generated so far by those in flight
	Remaining          [RemainingBuckets]float64 // requests in flight by remaining output
	RemainingContext   [RemainingBuckets]float64 // context tokens held by the requests of each bucket
}

// Profile is what is known of the endpoint's engine.
type Profile struct {
	PeakPrefillThroughput float64 // tokens/s
	MaxBatchedTokens      float64 // token budget of one engine step
	MaxNumSeqs            float64 // most sequences in one batch
	KVCapacityTokens      float64 // tokens the KV cache holds
	SpeedFactor           float64 // how many times slower than its class this endpoint runs; 1 is nominal
}

// Prior is the analytic estimate of one request's latency on one endpoint.
type Prior struct {
	TTFT Seconds
	TPOT Seconds

	// Parts of TTFT; the rest is that of an engine with nothing to do but decode.

	Queue     Seconds // prefill of what was sent before
	Admission Seconds // wait for a sequence and for KV blocks to become free

	Interference Seconds // the part of TPOT that prefill takes from decoding
}
