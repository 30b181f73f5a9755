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
	"syscall"
	"time"
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
func used() spent {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it has no way to fail
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return spent{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano()), Mallocs: m.Mallocs}
}

// process is this program once more, in one of its roles.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
}

// start starts a role with its setting and returns what it says when it is
// ready.
func start(ctx context.Context, role string, setting, ready any) (*process, error) {
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
	if err := json.NewEncoder(p.in).Encode(setting); err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	if err := p.answers.Decode(ready); err != nil {
		return nil, fmt.Errorf("%s: it did not start: %w", role, err)
	}
	return p, nil
}

// used asks the process what it has used.
func (p *process) used() (s spent, err error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return s, err
	}
	err = p.answers.Decode(&s)
	return s, err
}

// end ends the process and waits for that.
func (p *process) end() {
	_ = p.in.Close() // which ends it
	_ = p.cmd.Wait()
}

// play is the other side: one role, until its standard input ends.
func play(ctx context.Context, role string, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	if !lines.Scan() {
		return fmt.Errorf("%s: there is no setting", role)
	}
	begin, ok := map[string]func(context.Context, []byte) (any, func() spent, error){
		"fleet": beginFleet, "predictor": beginPredictor, "router": beginRouter, "echo": beginEcho,
	}[role]
	if !ok {
		return fmt.Errorf("--role: there is no %q", role)
	}
	ready, report, err := begin(ctx, lines.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w", role, err)
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(ready); err != nil {
		return err
	}
	for lines.Scan() {
		if err := answers.Encode(report()); err != nil {
			return err
		}
	}
	return nil
}
