package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A private Postgres that is killed comes back; one that does not stay is
// given up, with the file that says why.
func TestStoreServeKeepsServing(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	serve := start(t, "", "store", "serve", "--data-dir", dir)
	var database string
	eventually(t, func(context.Context) error {
		_, err := fmt.Sscanf(serve.stdout.String(), "export DATABASE_URL='%s", &database)
		database = strings.TrimSuffix(database, "'")
		return err
	})
	var last int
	kill := func() {
		t.Helper()
		eventually(t, func(context.Context) error {
			content, err := os.ReadFile(filepath.Join(dir, "pg", "postmaster.pid"))
			if err != nil {
				return err
			}
			var pid int
			if _, err := fmt.Sscan(string(content), &pid); err != nil {
				return err
			}
			if pid == last {
				return errors.New("the server that was killed has left its pid")
			}
			last = pid
			return syscall.Kill(pid, syscall.SIGKILL)
		})
	}
	kill()
	if line := serve.logged("ended by itself"); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "postgres.log") {
		t.Errorf("logged %s", line)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := texts(ctx, database, "SELECT 'x'")
		return err
	})
	kill()
	eventually(t, func(ctx context.Context) error {
		_, err := texts(ctx, database, "SELECT 'x'")
		return err
	})
	kill()
	if code := serve.wait(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if said := serve.stderr.String(); !strings.Contains(said, "spillway: ") || !strings.Contains(said, filepath.Join(dir, "postgres.log")) {
		t.Errorf("the end says %s", said)
	}
}
