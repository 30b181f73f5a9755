// Engine checks the simulated engine against a real one: it fits the step model to
// one measured run of LLMServingSim, replays the other runs request by request, and
// splits the error into queue wait and prefill.
//
//	go run ./internal/bench/engine --data DIR --out docs/results
//
// The other runs are other accelerators and another LLM. The first tenth of their
// requests tells how many times as slow these are in prefill and in decode, two
// numbers; nothing of those requests is judged.
//
// Every run is fitted once and all are replayed; the bars are those of the fit to
// the run with two data-parallel ranks. It is the one to fit, not to replay: its 256
// places are just filled for a few seconds, so who of its 44 requests waits hangs on
// single seconds, and not even its own fit tells that within 15 %.
package main
