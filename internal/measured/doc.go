// Package measured reads what others measured on real engines, and brings it
// to three forms: steady states of a closed loop (SteadyState), requests with
// the load that was known when they were dispatched (Dispatch), and requests
// with the times an engine itself noted (Served). A user's own outcomes become
// dispatches too.
//
// Readers take an io.Reader and work line by line in bounded memory. A broken
// line is no reason to give up a file: it is named, counted and skipped.
package measured
