//go:build !race

package gbdt

// patience is how often one who has nothing to do looks again before sleeping:
// some fifty microseconds.
const patience = 100_000
