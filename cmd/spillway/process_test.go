package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a running verb of the binary.
type process struct {
	t              *testing.T
	name           string
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{} // closed when it has ended
}

// start runs a verb that stays. A failing test shows what it said.
func start(t *testing.T, database string, args ...string) *process {
	t.Helper()
	p := launch(t, database, args...)
	t.Cleanup(func() { // runs before the process is killed
		if t.Failed() {
			t.Logf("spillway %s\n%s%s", p.name, lastBytes(p.stdout.String()), lastBytes(p.stderr.String()))
		}
	})
	return p
}

// launch runs the verb in a directory of its own, and kills it with the test.
// database is its DATABASE_URL; empty leaves it unset.
func launch(t *testing.T, database string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: strings.Join(args, " "), cmd: exec.Command(bench.binary, args...), done: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DATABASE_URL=") && !strings.HasPrefix(v, "PG") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	if database != "" {
		p.cmd.Env = append(p.cmd.Env, "DATABASE_URL="+database)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = childAttributes()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState says the same
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	})
	return p
}

// lastBytes keeps a failing test's report readable.
func lastBytes(s string) string {
	const most = 6000
	if len(s) > most {
		return "[...]" + s[len(s)-most:]
	}
	return s
}

// run runs the verb to its end.
func run(t *testing.T, database string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := launch(t, database, args...)
	code = p.wait()
	return p.stdout.String(), p.stderr.String(), code
}

// must runs the verb, which must succeed, and returns its standard output.
func must(t *testing.T, database string, args ...string) string {
	t.Helper()
	stdout, stderr, code := run(t, database, args...)
	if code != 0 {
		t.Fatalf("spillway %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// wait waits for the process to end and returns its exit code.
func (p *process) wait() int {
	p.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.t.Fatalf("spillway %s has not ended after %s", p.name, patience)
	}
	return p.cmd.ProcessState.ExitCode()
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

// terminate asks the process to end in order.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// logged waits until a line of the process's log contains text, and returns
// that line.
func (p *process) logged(text string) (line string) {
	p.t.Helper()
	eventually(p.t, func(context.Context) error {
		for l := range strings.Lines(p.stderr.String()) {
			if strings.Contains(l, text) && strings.HasSuffix(l, "\n") {
				line = strings.TrimSpace(l)
				return nil
			}
		}
		if p.ended() {
			p.t.Fatalf("spillway %s ended without logging %q", p.name, text)
		}
		return fmt.Errorf("spillway %s has not logged %q", p.name, text)
	})
	return line
}

// attribute is the value of a key in a line of the text log.
func attribute(t *testing.T, line, key string) string {
	t.Helper()
	for field := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(field, key+"="); ok {
			return value
		}
	}
	t.Fatalf("no %s in the log line %s", key, line)
	return ""
}

// patience ends a test that hangs. It says nothing of how fast anything is: a
// machine may have much else to do.
const patience = 90 * time.Second

// eventually asks until check returns nil: other processes tell nobody when
// they are done. The test fails with the last error once the time is up.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not after %s: %v", patience, last)
		case <-tick.C:
		}
	}
}
