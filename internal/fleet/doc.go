// Package fleet simulates continuous-batching inference engines in virtual
// time: the step loop, chunked prefill inside a token budget shared with
// decode, the block-based KV cache with its prefix index, preemption. It
// follows the scheduling of vLLM's V1 engine. Nothing here reads a clock or
// starts a goroutine, so one Engine can be driven by a discrete-event loop as
// well as by real time (package server), and the same seed gives the same
// events.
//
// Simulate runs a whole world of them: clients that send the sessions of a
// plan, the router's own policy, ledger, prefix index and corrections, which
// know of engines what a scrape brings and of requests what a prompt shows,
// and engines that may be slower, or work otherwise, than the router believes.
// Several routers may stand before one fleet (Replicas), which share what they
// know as real ones do, or not, and of which one may die.
// One agenda holds when each engine, scraper and so on acts next; nothing else
// moves the clock.
//
// # One step
//
// Running requests are scheduled first, in order of arrival, each with as
// many of its uncomputed tokens as the token budget leaves; then waiting
// requests are admitted in order of arrival while budget, sequences and KV
// blocks last. A running request that finds no free block preempts the one
// that arrived last, which gives up its blocks and goes back to the front of
// the waiting line to be recomputed; no request is admitted in such a step.
// The step takes
//
//	(A + B*prefill + C*sum(chunk*mean context) + D*decoding + E*kv read) * (1 + noise) * slow factor
//
// and every request whose tokens are all computed at its end gains a token.
// Blocks that several sequences hold are read once, as far as the share of
// shared blocks in all held ones says. Options changes this and more.
//
// # Invariants
//
// Engine.Check verifies the first ten, and a world's own check all; tests call
// them after every event.
//
//  1. A submitted request is in exactly one place: arriving, waiting, running,
//     or ended; the numbers submitted, finished, cancelled and live add up.
//  2. A block's reference count is the number of running requests that hold
//     it; a block is on the free list exactly when that number is 0.
//  3. Arriving and waiting requests hold no block and have nothing computed.
//  4. A running request holds exactly the blocks that its computed tokens and
//     its part of the current step need, each once.
//  5. The prefix index maps a hash to a block that carries it, and every block
//     that carries a hash is in the index.
//  6. The clock never goes back, and the next event never lies before it.
//  7. No engine with work is idle: while a request is live there is a next
//     event, and while one waits or runs there is a step.
//  8. A step schedules at least one token and at most the token budget; no
//     more than the maximum of sequences run.
//  9. A request has computed at most the tokens it has, and has generated
//     fewer than its output while it is live.
//  10. Waiting and running requests stand in order of arrival, and all running
//     ones arrived before all waiting ones.
//  11. Every request a client sent is live or has ended with one outcome.
//  12. A live request is at one engine, and the router has it in the same
//     place, in its ledger too; neither has any other.
//  13. No actor's time lies in the past, and an engine's is that of its next
//     event.
//  14. A request is sent, has its first token and its latest in this order, and
//     no client waits longer than its patience.
//  15. A client waits for one request at a time, a closed loop has no more
//     sessions than clients, and no more requests are sent than planned.
package fleet
