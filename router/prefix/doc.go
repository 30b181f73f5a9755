// Package prefix knows which endpoint probably holds which prompt prefix in
// its KV cache.
//
// A prompt becomes a chain of hashes, one per block of bytes, each covering
// everything before it and seeded with what else decides whether a cache
// entry may be shared: LLM, cache salt, LoRA adapter (Hasher). One inverted
// index maps a hash to the set of endpoints that hold the block (Index), so
// that one walk along the chain answers for all endpoints at once.
//
// The index imitates the engines' caches: per endpoint it holds as many
// tokens as the cache does and evicts the least recently used block, the tail
// of a prompt before its head, so what is left of a prompt is always a
// prefix. It believes; only the engine knows.
//
// An Index has no lock: Insert belongs into the same locked step as the
// choice (a burst of equal cold prompts must find its first claim). Match,
// Hot, Len and Slots only read and may run side by side under a read lock.
package prefix
