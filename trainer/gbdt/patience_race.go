//go:build race

package gbdt

// patience is as long under the race detector, where a look costs far more.
const patience = 1000
