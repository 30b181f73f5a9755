package child_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/demo/child"
)

func shell(t *testing.T, script string) *child.Process {
	t.Helper()
	p, err := child.Start(child.Command{Binary: "/bin/sh", Dir: t.TempDir(), Name: "shell", Env: []string{"GREETING=hello"}, Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(time.Second) })
	return p
}

func TestFailureTellsTheLastLine(t *testing.T) {
	p := shell(t, "echo one; echo $GREETING >&2; exit 3")
	<-p.Done()
	if err := p.Failure(); p.Err() == nil || !strings.HasPrefix(err.Error(), "shell failed (exit status 3): hello") {
		t.Errorf("%v", err)
	}
	p = shell(t, "exit 0")
	<-p.Done()
	if err := p.Failure(); err.Error() != "shell ended early: it said nothing" {
		t.Errorf("%v", err)
	}
}

func TestStopAsksFirst(t *testing.T) {
	p := shell(t, "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	said := func(context.Context) error {
		if data, err := os.ReadFile(p.Log()); err != nil || !strings.Contains(string(data), "ready") {
			return errors.New("not yet")
		}
		return nil
	}
	if err := p.Until(t.Context(), 20*time.Second, said); err != nil {
		t.Fatal(err)
	}
	p.Stop(20 * time.Second)
	if data, _ := os.ReadFile(p.Log()); !p.Ended() || p.Err() != nil || !strings.HasSuffix(string(data), "asked\n") {
		t.Errorf("it ended with %v and said %q", p.Err(), data)
	}
}

func TestUntilEndsWithTheProcess(t *testing.T) {
	never := func(context.Context) error { return errors.New("never") }
	if err := shell(t, "exit 1").Until(t.Context(), time.Minute, never); err == nil || !strings.Contains(err.Error(), "shell failed") {
		t.Errorf("%v", err)
	}
	p := shell(t, "exec sleep 60")
	if err := p.Until(t.Context(), time.Millisecond, never); err == nil || !strings.Contains(err.Error(), "never") {
		t.Errorf("%v", err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	p.Kill() // also one that is stopped
	if err := p.Signal(syscall.SIGCONT); err == nil {
		t.Error("a process that is gone took a signal")
	}
}

func TestAForeignFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if got, err := child.Folder(dir, ""); err != nil || got != dir {
		t.Errorf("an empty one: %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := child.Folder(dir, ""); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("%v", err)
	}
}

func TestTellWantsStatus200(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	if _, err := child.Tell(t.Context(), address, "/readyz"); err != nil {
		t.Error(err)
	}
	if _, err := child.Tell(t.Context(), address, "/other"); err == nil || !strings.Contains(err.Error(), "/other of "+address+": 404") {
		t.Errorf("%v", err)
	}
	if err := child.Reachable(t.Context(), "tcp", address); err != nil {
		t.Error(err)
	}
}
