// Package child runs verbs of the spillway binary as processes of their own, for
// programs that watch them from outside: each with its output in a log file, out
// of the terminal's signals, and ended with its parent.
package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Command is what to run.
type Command struct {
	Binary string
	Dir    string   // where the log goes, as NAME.log, at its end
	Name   string   // of the process, for the log file and for errors
	Env    []string // beside the parent's own
	Out    *os.File // takes standard output; nil: that goes to the log too
	Args   []string
}

// Process is one child.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
}

// Start runs a command. It does not wait until it is ready.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, log: filepath.Join(c.Dir, c.Name+".log"), cmd: exec.Command(c.Binary, c.Args...), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer log.Close()
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if c.Out != nil {
		p.cmd.Stdout = c.Out
	}
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Log is the path of the log file.
func (p *Process) Log() string { return p.log }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, once it has: nil is in order.
func (p *Process) Err() error { return p.err }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// Stop ends the process in order, and with SIGKILL when it takes longer than
// wait. It does nothing to nil.
func (p *Process) Stop(wait time.Duration) {
	if p == nil || p.Ended() {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Failure describes how the process ended, with the last line of its log.
func (p *Process) Failure() error {
	last := lastLine(p.log)
	if p.err == nil {
		return fmt.Errorf("%s ended early: %s", p.name, last)
	}
	return fmt.Errorf("%s failed (%w): %s", p.name, p.err, last)
}

func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	last := "it said nothing"
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			last = text
		}
	}
	return last
}

// Until calls ready every 50 ms until it returns nil, the process ends or the
// time is up.
func (p *Process) Until(ctx context.Context, within time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.Failure()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s is not ready after %s: %w", p.name, within, err)
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// FreePorts finds loopback ports that nobody listens on.
func FreePorts(n int) ([]int, error) {
	var ports []int
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		open = append(open, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
