package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is one child: a verb of this binary, its output in a log file.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
}

// start runs the verb with its log in dir/name.log. Standard output goes there
// too unless out takes it.
func start(dir, binary, name string, env []string, out *os.File, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if out != nil {
		p.cmd.Stdout = out
	}
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process with SIGKILL and returns when it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop ends the process in order, and with SIGKILL when it takes longer than
// wait.
func (p *process) stop(wait time.Duration) {
	if p == nil || p.ended() {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

// failure describes how the process ended, with the last line of its log.
func (p *process) failure(dir string) error {
	last := lastLine(filepath.Join(dir, p.name+".log"))
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

// until calls ready every 50 ms until it returns nil, the process ends or the
// time is up.
func (p *process) until(ctx context.Context, dir string, within time.Duration, ready func(context.Context) error) error {
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
			return p.failure(dir)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s is not ready after %s: %w", p.name, within, err)
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}
