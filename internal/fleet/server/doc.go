// Package server puts simulated engines behind the real OpenAI API, in real
// time: each endpoint of a fleet has its own port, serves completions and chat
// completions as vLLM does, and publishes vLLM's metrics.
//
// The tokenizer is simulated: a token is 4 bytes. A completion's prompt is its
// text (or 4 bytes per token id), a chat's prompt is the concatenated role and
// content of its messages. A generated token is a blank and three letters,
// drawn from the prompt and the request's seed, so that the same request gets
// the same answer from every endpoint and a conversation that repeats an
// answer finds its blocks in the prefix cache.
//
// How much is generated: with ignore_eos, exactly max_tokens; otherwise a
// length drawn for the prompt, at least min_tokens and at most max_tokens.
// Sampling parameters other than seed are accepted and have no effect.
//
// Each endpoint takes faults over POST /admin/fault (see Fault), for itself or,
// with ?endpoint=N, for another endpoint of the fleet. GET shows the fault and
// DELETE ends it.
package server
