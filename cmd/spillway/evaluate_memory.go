package main

import (
	"os"
	"runtime/debug"
)

// collectAt is how many percent of what is alive the heap grows by until it is
// collected while rows stream by. By Go's 100 the peak depends on when the collector
// ran, and was a sixth higher for ten times the rows; by 10 it is the same, and takes
// two thirds more CPU.
const collectAt = 10

// collectOften is for verbs that read any number of rows in little memory: it holds
// them to that until restore is called. The variable GOGC, where it is set, decides
// instead.
func collectOften() (restore func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(collectAt)
	return func() { debug.SetGCPercent(was) }
}
