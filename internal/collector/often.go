// Package collector has a process that reads any number of rows do so in the same
// little memory.
package collector

import (
	"os"
	"runtime/debug"
)

// oftenAt is how many percent of what is alive the heap grows by until it is
// collected while rows stream by. By Go's 100 the peak depends on when the collector
// ran, and was a sixth higher for ten times the rows; by 10 it is the same, and takes
// two thirds more CPU.
const oftenAt = 10

// Often has garbage collected often, until restore is called. The variable GOGC,
// where it is set, decides instead.
func Often() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(oftenAt)
	return func() { debug.SetGCPercent(was) }
}
