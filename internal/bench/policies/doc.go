// Policies judges the policies in simulation: predicted, with forests that the
// production trainer fitted and its gate let through, beside the two matched
// configurations, the published predictor pipeline, the legacy blend and
// round-robin, on the same requests and the same engines.
//
//	go run ./internal/bench/policies --data DIR --out docs/results
//
// # Worlds
//
// Ten engines, none of which is what the router believes: every coefficient is
// off by its own factor from 0.8 to 1.25, and every request is held for 20 to
// 100 ms that no prior knows of (fleet.Perturb). A world is a workload, or a part
// of a public trace, at a few loads; a seed draws its engines and its traffic.
//
// # What predicted has learned
//
// For each world and seed the fleet first serves other traffic of the same kind:
// by the fallback, whose rows the trainer refits from, and then by what came of
// that, after which it refits again. A bundle that the gate refuses is not
// served; where it refuses both, the fallback decides in what is judged too, as
// it would in production.
//
// # Loads
//
// A share of the knee, which is the greatest load at which the better of the two
// matched configurations keeps the class-balanced slowdown at 3 or below: where
// requests take three times as long as alone on an idle engine with nothing
// cached. --knees finds it, on development seeds. Closed loops have published
// numbers of clients.
//
// # Judgement
//
// A request that fails counts as one that took as long as its client's patience.
// Every number of an arm is compared with the reference's in the same run of
// requests, as a ratio; intervals are 95 % of Student's t over seeds, of the mean
// logarithm. The reference of a world is that of token-load and active-request
// which has the lower mean E2E over all its loads and seeds: it is chosen with
// hindsight, which nobody who configures a router has.
package main
