package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/predictor"
)

// shelf holds one published bundle, which may be published again and again.
type shelf struct {
	bundle  []byte
	version *atomic.Int64
}

func (s shelf) Published(context.Context) ([]predictor.Published, error) {
	return []predictor.Published{{
		LLM: llm, Version: s.version.Load(), SHA256: sha256.Sum256(s.bundle), ValidatedAt: time.Now(), MaxAge: time.Hour,
	}}, nil
}

func (s shelf) Bundle(context.Context, int64) ([]byte, error) { return s.bundle, nil }

func (s shelf) Listen(context.Context, func()) error { return nil }

// server makes a predictor that serves the bundle, with metrics as in earnest.
// When it next looks it serves the version then given.
func server(ctx context.Context, bundle []byte, version *atomic.Int64, evaluator predictor.Evaluator) (*predictor.Server, error) {
	s := predictor.New(predictor.Config{Evaluator: evaluator, Registerer: prometheus.NewRegistry()}, shelf{bundle, version})
	s.Sync(ctx)
	if all := s.Status().LLMs; len(all) != 1 || all[0].State != predictor.Serving {
		return nil, fmt.Errorf("the bundle is not served: %+v", all)
	}
	return s, nil
}

// usage is the CPU time a process has used.
type usage struct{ User, System time.Duration }

func (u usage) sum() time.Duration { return u.User + u.System }

func (u usage) minus(v usage) usage { return usage{u.User - v.User, u.System - v.System} }

// used is what this process has used.
func used() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // it has no way to fail
	}
	return usage{time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())}
}

// serve is the server's process: it serves the bundle of a file at addr, and
// answers each line of its standard input with the CPU time it has used, until
// that ends. Before it answers swapLine it loads the bundle as a new one. All is as in "spillway predictor".
func serve(ctx context.Context, addr, file string, in io.Reader, out io.Writer) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	version := versionOne()
	s, err := server(ctx, data, version, predictor.Flat)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { s.FollowLoad(ctx) })
	running.Go(func() {
		if err := s.Serve(ctx, addr); err != nil {
			fmt.Fprintln(os.Stderr, "predictor:", err)
		}
	})
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if lines.Text() == swapLine {
			version.Add(1)
			s.Sync(ctx)
		}
		if err := answers.Encode(used()); err != nil {
			return err
		}
	}
	stop()
	return nil
}

// process is a server in a process of its own.
type process struct {
	addr    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
}

// start runs this program once more as the server.
func start(ctx context.Context, folder string, bundle []byte) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "bundle")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		return nil, err
	}
	p := &process{addr: "unix://" + filepath.Join(folder, "p.sock")}
	p.cmd = exec.CommandContext(ctx, self, "--serve", p.addr, "--bundle", file)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = json.NewDecoder(out)
	return p, p.cmd.Start()
}

// swapLine asks for a swap.
const swapLine = "swap"

// versionOne is the version of a bundle that is published first.
func versionOne() *atomic.Int64 {
	v := new(atomic.Int64)
	v.Store(1)
	return v
}

// used asks the server what it has used.
func (p *process) used() (usage, error) { return p.ask("") }

// swap lets the server load a new bundle.
func (p *process) swap() error {
	_, err := p.ask(swapLine)
	return err
}

func (p *process) ask(line string) (u usage, err error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return u, err
	}
	err = p.answers.Decode(&u)
	return u, err
}

// stop ends the server and waits for that.
func (p *process) stop() error {
	_ = p.in.Close() // which ends it
	return p.cmd.Wait()
}
