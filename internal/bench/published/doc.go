// Published runs the three published workloads through the simulator, over their
// ladders, for a plain Kubernetes service, the weighted blend and the two matched
// configurations, and lays what comes out beside what was measured on real GPUs.
//
//	go run ./internal/bench/published --data DIR --out docs/results
//
// DIR holds codegen.csv, reasoning.csv and b2b-saas.csv as llm-d's benchmark
// results were transcribed. All arms and workloads share one engine profile; the
// mechanisms in mechanism.go are facts about engines and clients, and what comes out
// without each of them is shown too, unless --ablate=false.
package main
