package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
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
func used(collect bool) spent {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it has no way to fail
	}
	s := spent{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/live:bytes"}}
	if collect {
		runtime.GC()
	}
	metrics.Read(samples)
	s.Mallocs, s.Heap = samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return s
}

// process is this program once more, in one of its roles.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	ready   ready
}

// ready is where a role serves.
type ready struct {
	URLs  []string
	Admin string // of a router
}

// start starts a role that is to send its requests to the engines at urls.
func start(ctx context.Context, role string, urls []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "--role", role)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(p.in).Encode(urls); err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	if err := p.answers.Decode(&p.ready); err != nil {
		return nil, fmt.Errorf("%s: it did not start: %w", role, err)
	}
	return p, nil
}

// used asks the process what it has used; line may be collectLine.
func (p *process) used(line string) (s spent, err error) {
	if p == nil {
		return s, nil
	}
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return s, err
	}
	err = p.answers.Decode(&s)
	return s, err
}

// end ends the process and waits for that.
func (p *process) end() {
	if p != nil {
		_ = p.in.Close() // which ends it
		_ = p.cmd.Wait()
	}
}

// play is the other side: one role, until its standard input ends.
func play(ctx context.Context, role string, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("%s: there is no list of engines", role)
	}
	var urls []string
	if err := json.Unmarshal(lines.Bytes(), &urls); err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	begin, ok := map[string]func(context.Context, []string) (ready, error){
		"engines": beginEngines, "proxy": beginProxy, "router": beginRouter,
	}[role]
	if !ok {
		return fmt.Errorf("--role: there is no %q", role)
	}
	at, err := begin(ctx, urls)
	if err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(at); err != nil {
		return err
	}
	for lines.Scan() {
		if err := answers.Encode(used(lines.Text() == collectLine)); err != nil {
			return err
		}
	}
	return nil
}
