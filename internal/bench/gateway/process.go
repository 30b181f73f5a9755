package main

import (
	"context"
	"encoding/json"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/process"
)

// spent is what a process has used, and holds.
type spent struct {
	CPU     time.Duration
	Mallocs uint64
	Heap    uint64 // bytes in use after a collection; where one was asked for
}

// collectLine asks for a collection before the answer.
const collectLine = "collect"

// used is what this process has used.
func used(collect bool) (s spent) {
	user, system := process.CPU()
	s.CPU = user + system
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/live:bytes"}}
	if collect {
		runtime.GC()
	}
	metrics.Read(samples)
	s.Mallocs, s.Heap = samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return s
}

// server is a process that serves requests.
type server struct {
	*process.Process
	ready ready
}

// ready is where a role serves.
type ready struct {
	URLs  []string
	Admin string // of a router
}

// start starts a role that is to send its requests to the engines at urls.
func start(ctx context.Context, role string, urls []string) (*server, error) {
	var s server
	var err error
	s.Process, err = process.Start(ctx, role, urls, &s.ready)
	return &s, err
}

// used asks the process what it has used; line may be collectLine. A nil one
// uses nothing.
func (s *server) used(line string) (u spent, err error) {
	if s == nil {
		return u, nil
	}
	err = s.Ask(line, &u)
	return u, err
}

// end ends the process and waits for that.
func (s *server) end() {
	if s != nil {
		s.End()
	}
}

// roles are those that this program plays itself.
var roles = map[string]process.Role{"engines": serving(beginEngines), "proxy": serving(beginProxy), "router": serving(beginRouter)}

// serving is a role whose setting is where the engines are, and which answers
// every line with what it has used.
func serving(begin func(context.Context, []string) (ready, error)) process.Role {
	return func(ctx context.Context, setting []byte) (any, func(string) any, error) {
		var urls []string
		if err := json.Unmarshal(setting, &urls); err != nil {
			return nil, nil, err
		}
		at, err := begin(ctx, urls)
		return at, func(line string) any { return used(line == collectLine) }, err
	}
}
