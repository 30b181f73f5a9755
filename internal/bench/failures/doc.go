// Command failures injects what can go wrong with a predictor into simulated
// fleets at 80 % of their knee, after some time of live operation, and compares
// what clients then see with the matched configuration on the same seeds: the one of
// the two that suits the world, decided by from the beginning.
//
//	go run ./internal/bench/failures --out docs/results
//
// The worlds and the pooling were fixed before any judged seed was looked at:
// mixed, interactive-chat and rag count alike; what is judged of a run is every
// request sent from the injection on; of each seed the logarithms of the ratios
// of the three worlds' TTFT p99 are averaged, and the interval is Student's over
// the seeds. Where a seed stands for several fleets of a world, their mean is the
// world's.
package main
