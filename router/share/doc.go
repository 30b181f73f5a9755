// Package share lets the routers of one fleet know of each other: each streams
// to the others what it has in flight, which prompt prefix it sent where and what
// came of it, so that several decide nearly as well as one.
//
// Every router follows every other by a gRPC stream of its own (sharev1), which
// carries what the other does itself and nothing it has heard. A stream begins
// with all that is in flight; each message has a number; what is heard twice
// changes nothing, and after a gap the stream is begun anew. A router that begins
// also asks for what is believed to be cached, and finds on its disk what it
// believed when it last ended (Node.Save).
//
// # When a peer is not there
//
// Nothing waits for a peer and nothing fails without one. What a peer had in
// flight is forgotten when nothing was heard of it for Config.Silence, and what
// an engine reports of itself counts in its place, as it does for a router that
// shares with nobody. Own requests, those of peers and what engines report are
// never added up: the first two are different requests, and of both together and
// the engine's own count the larger is believed (package physics).
//
// # Bounds
//
// What is to be told waits in one journal for all followers. A follower that is
// so slow that the journal has dropped what it has not read is told all that is
// in flight once more; the prefixes that were dropped it does not learn. Sending
// never holds up a request.
//
// # What travels
//
// Numbers, names of LLMs and endpoints, and hashes of prompts that begin with a
// salt which all routers of the fleet are given. Routers whose salts differ
// refuse each other. Who has the salt can test whether a prompt he knows was
// asked; against listeners there is TLS.
package share
