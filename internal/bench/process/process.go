// Package process runs a benchmark's own program again as the processes it
// measures, each in one role: what a process uses can only be told of a whole
// one. A role gets its setting as the first line of standard input, says as JSON
// what it is ready with, and answers every further line with one JSON value,
// until its input ends.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is this program once more, in one of its roles.
type Process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
}

// Start starts this program with the flag --role and decodes into ready what
// the role says when it is. The process is killed when ctx ends.
func Start(ctx context.Context, role string, setting, ready any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, self, "--role", role)}
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

// Ask sends a line and decodes the answer to it.
func (p *Process) Ask(line string, answer any) error {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return err
	}
	return p.answers.Decode(answer)
}

// End ends the process and waits for that; it does nothing to nil.
func (p *Process) End() {
	if p != nil {
		_ = p.in.Close() // which ends it
		_ = p.cmd.Wait()
	}
}

// A Role begins with its setting as JSON, and returns what it is ready with and
// what answers a line. What it starts ends with ctx or with the process.
type Role func(ctx context.Context, setting []byte) (ready any, answer func(line string) any, err error)

const mostSetting = 16 << 20 // bytes

// Play is the other side of Start: one of the roles, until in ends.
func Play(ctx context.Context, name string, roles map[string]Role, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begin, ok := roles[name]
	if !ok {
		return fmt.Errorf("--role: there is no %q", name)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostSetting)
	if !lines.Scan() {
		return fmt.Errorf("%s: there is no setting", name)
	}
	ready, answer, err := begin(ctx, lines.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(ready); err != nil {
		return err
	}
	for lines.Scan() {
		if err := answers.Encode(answer(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// CPU is the time that this process has used, in its own code and in the
// kernel.
func CPU() (user, system time.Duration) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}
