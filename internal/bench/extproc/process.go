package main

import (
	"context"
	"runtime"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/process"
)

// spent is what a process has used.
type spent struct {
	User, System time.Duration
	Mallocs      uint64
	Decisions    uint64    // of a router
	Decide       histogram // of a router, seconds
}

func (s spent) cpu() time.Duration { return s.User + s.System }

// cpuSince is the CPU time used since before, in microseconds for each of n.
func (s spent) cpuSince(before spent, n int) float64 {
	return float64(s.cpu()-before.cpu()) / float64(time.Microsecond) / float64(n)
}

// used is what this process has used.
func used() (s spent) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.User, s.System = process.CPU()
	s.Mallocs = m.Mallocs
	return s
}

// usedBy asks a process what it has used.
func usedBy(p *process.Process) (s spent, err error) {
	err = p.Ask("", &s)
	return s, err
}

// roles are those that this program plays itself.
var roles = map[string]process.Role{
	"fleet": reporting(beginFleet), "predictor": reporting(beginPredictor), "router": reporting(beginRouter), "echo": reporting(beginEcho),
}

// reporting is a role that answers every line with what it has used.
func reporting(begin func(context.Context, []byte) (any, func() spent, error)) process.Role {
	return func(ctx context.Context, setting []byte) (any, func(string) any, error) {
		ready, report, err := begin(ctx, setting)
		return ready, func(string) any { return report() }, err
	}
}
