// Command evaluate asks how far each instrument can be trusted that says, without
// trying it or by trying it, what another way to route would do to a fleet.
//
//	go run ./internal/bench/evaluate --out docs/results
//
// # Worlds
//
// Each is a workload at a load, on engines of which none is what the router
// believes (fleet.Perturb). More than half of the worlds have a mechanism that no
// fitted step model has: asynchronous scheduling, speculative decoding, a prefill
// threshold, data-parallel ranks, a second cache, or decoding that reads shared
// blocks for every sequence. A router writes the log of a few thousand requests:
// predicted which explores 1 %, 5 % or all of its shortlist, with forests or on
// the prior alone, or a canary. What it did while caches filled is not in the log.
//
// # Pairs
//
// Of each log a few targets are asked about: other policies, thresholds and terms
// of the cost, fallbacks, forecasts. The true effect is that on the mean of all
// requests of the very traffic of the log, on the very engines, from runs of both
// with equal noise, several times, more often where these differ much; its interval
// is Student's over them. Targets take over from the log's policy before the log
// begins, as of a fleet that runs. That of a switchback is the same on longer
// traffic, from fewer runs.
//
// # Instruments
//
// Estimators of one request, with the externality of the cost model and without;
// the naive difference, which is what comes of a log without thinking: requests
// that the target would have sent where they went, against all; a fleet fitted to
// the log; a switchback of twelve pairs of blocks on six times the log's
// traffic or more; and a coin for each request on traffic as long as the log's, with its
// naive difference and differences in Q. Arms of an experiment share their
// router's bundle, so pairs that differ in it are not tried, nor canaries.
//
// # Judgement
//
// Errors are of effects relative to the log's policy. An instrument that refuses
// has no error, and is counted. The simulator is also scored as if it had not been
// asked whether its check on the log held. If it misses a bar over all worlds and
// in those with a mechanism that it lacks, switchback is judged as the primary
// instrument.
package main
