// Routers judges several routers before one fleet, in simulation: mixed traffic
// at 80 % of the knee, each request through the router whose turn it is, so that
// the turns of a conversation meet all of them.
//
// Its first part compares the TTFT p90 of 2 and 4 routers with that of one, on
// the same seeds: those that share what they have in flight, which prefix they
// sent where and what came of it, and those that do not. Its second part kills
// one of two routers in mid-run. Clients send what was cut off anew, to the
// other; the router stays away, or is back after ten seconds. TTFT p90 from 30 s
// after its death on is compared with that of the same routers undisturbed, on
// the same seeds.
//
//	make bench-routers
package main
