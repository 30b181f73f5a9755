// Package predictor serves the published bundles over gRPC, and is the client
// that asks it.
//
// A [Server] keeps one bundle for every LLM. [Server.Run] follows a [Source]:
// it polls and is notified, and a newly published bundle replaces the old one
// in one atomic step, but only after its checksum, schema and forests were
// checked and two independent evaluators gave its known answers. Whatever
// fails leaves the old bundle in place and is logged once, counted and told
// by Status. A forecast is a pure function of (bundle, vector); each answer
// names the bundle and when it was last validated, and it is the router that
// decides how old is too old.
//
// A [Client] asks a server over a Unix socket or TCP; [InProcess] asks one in
// the same process. Both have the same methods and errors. The contract is
// latency.v1 over gRPC, for any client; over a Unix socket a Client sends the
// same messages in frames, which cost less (see frame.go).
//
// No more forecasts are evaluated at once than there are cores. The others
// wait in a bounded queue: a full one refuses with ErrBusy, and a call whose
// deadline passes while it waits is dropped before anything is evaluated. A
// predictor that has a process of its own should [Server.FollowLoad].
//
// The gRPC health service knows two names. "liveness" (also "") is serving
// while the process works. "readiness" (also "latency.v1.Predictor") is
// serving while at least one LLM has a bundle that loaded and is not stale.
// Don't make readiness a Pod's readiness probe: an untrained predictor is no
// reason to take its router out of service.
package predictor
