package lightgbm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// mostOutput is how much of the end of a program's output is kept.
	mostOutput = 16 << 10
	// mostReason is how much of it goes into an error.
	mostReason = 300
	// afterwards is how long output is waited for once the program has ended.
	afterwards = 2 * time.Second
)

// run runs the program on a configuration until it ends. Its error tells the
// last that the program said.
func run(ctx context.Context, program, dir, config string, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var said tail
	cmd := exec.CommandContext(limited, program, "config="+config)
	cmd.Dir, cmd.Env = dir, environment()
	cmd.Stdout, cmd.Stderr = &said, &said
	// What it starts on its part is ended with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != syscall.ESRCH {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = afterwards
	err := cmd.Run()
	if cmd.Process != nil {
		_ = cmd.Cancel() // what it left behind, whose group still has its number
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it ended well; what it left behind held its output
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return fmt.Errorf("it is not done after %s, the timeout%s", timeout, said.reason())
	}
	return fmt.Errorf("run %s: %w%s", program, err, said.reason())
}

// secrets are what the trainer is told in its environment and no program that
// it runs need know.
var secrets = []string{
	"DATABASE_URL=", "LISTEN_DATABASE_URL=", "PGPASSWORD=", "PGSSLPASSWORD=",
	"OTEL_EXPORTER_OTLP_HEADERS=", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=",
}

func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return slices.ContainsFunc(secrets, func(name string) bool { return strings.HasPrefix(pair, name) })
	})
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-mostOutput):]...)
	if over := len(t.kept) - mostOutput; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// reason is the last line that LightGBM marks as fatal, or else the last one,
// ready to follow an error.
func (t *tail) reason() string {
	var last, fatal []byte
	for line := range bytes.Lines(t.kept) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		last = line
		if bytes.Contains(line, []byte("[Fatal]")) {
			fatal = line
		}
	}
	if fatal != nil {
		last = fatal
	}
	if last == nil {
		return "; it said nothing"
	}
	return ": " + strings.ToValidUTF8(string(last[:min(len(last), mostReason)]), "?")
}
