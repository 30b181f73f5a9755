//go:build !linux

package main

import "time"

// sleeper returns what sleeps until a time.
func sleeper() func(until time.Time) {
	return func(until time.Time) { time.Sleep(time.Until(until)) }
}

// threadTime is the CPU time of this process, in which little else runs while
// it is asked for.
func threadTime() time.Duration { return used().sum() }
