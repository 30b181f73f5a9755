// Package ledger counts what this router itself has in flight on every
// endpoint, per incarnation: requests, the prompt tokens still to be
// prefilled, the context being decoded, and how much output is left.
//
// A request is charged at the decision, moved from prefill to decode at its
// first token, drawn down as tokens stream, and settled exactly once however
// it ends. Nothing expires by time: an entry lives until it is settled,
// because a stream that is still open is still load.
//
// An entry belongs to the incarnation it was charged to. When the endpoint
// restarts, the new incarnation starts from nothing and what is settled late
// touches only the old one's numbers. When an endpoint leaves the pool and
// comes back as the same incarnation, what it still works on still counts.
//
// Where several routers share what they have in flight, a Mirror of each of
// the others charges their requests to the same accounts: a decision sees all
// that is known to be there, whoever sent it, and what another router sent can
// be told apart and taken out at once.
//
// All counters are integers, so nothing drifts and nothing becomes negative.
//
// # Locking
//
// A Ledger has no lock. Choosing an endpoint and charging it must be one step,
// or concurrent requests see the same idle endpoint and pile on it, so the
// caller holds one lock around State, the choice and Charge, and the same lock
// around every other method. State too changes the ledger: it applies moves
// that have come due.
//
// Time is given by the caller, real or virtual.
package ledger
