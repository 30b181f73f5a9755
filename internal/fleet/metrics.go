package fleet

// Metrics is what an engine publishes about itself. An engine publishes at the
// end of a step, so during a long step its numbers are as old as the step, and
// requests that arrived since are not in them.
type Metrics struct {
	Waiting int     // requests in line
	Running int     // requests in the batch
	KVUsed  float64 // fraction of KV blocks held by running requests, 0 to 1

	// Counted since the engine was made.
	Steps             int64
	PromptTokens      int64 // of requests that reached their first token
	GeneratedTokens   int64
	PrefixQueryTokens int64 // prompt tokens looked up in the prefix cache
	PrefixHitTokens   int64 // of those, found
	Preemptions       int64
	Finished          int64
	Cancelled         int64
}

func (m *Metrics) add(o *Metrics) {
	m.Waiting += o.Waiting
	m.Running += o.Running
	m.KVUsed += o.KVUsed
	m.Steps += o.Steps
	m.PromptTokens += o.PromptTokens
	m.GeneratedTokens += o.GeneratedTokens
	m.PrefixQueryTokens += o.PrefixQueryTokens
	m.PrefixHitTokens += o.PrefixHitTokens
	m.Preemptions += o.Preemptions
	m.Finished += o.Finished
	m.Cancelled += o.Cancelled
}
