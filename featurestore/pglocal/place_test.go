package pglocal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-llm/spillway/featurestore/pglocal"
)

// What stands where the cluster would go and is none stays as it is.
func TestLeavesStrangersAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		place func(pg string) error
	}{
		{"other files", func(pg string) error {
			if err := os.Mkdir(pg, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(pg, "precious"), []byte("x"), 0o644)
		}},
		{"a cluster that lost its PG_VERSION", func(pg string) error { return os.MkdirAll(filepath.Join(pg, "base", "1"), 0o700) }},
		{"a file", func(pg string) error { return os.WriteFile(pg, []byte("x"), 0o644) }},
		{"a PG_VERSION that can't be read", func(pg string) error { return os.MkdirAll(filepath.Join(pg, "PG_VERSION"), 0o700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := dir(t)
			pg := filepath.Join(d, "pg")
			if err := c.place(pg); err != nil {
				t.Fatal(err)
			}
			before := listed(t, d)
			_, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: d})
			if err == nil || !strings.Contains(err.Error(), pg) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line that names %s", err, pg)
			}
			if after := listed(t, d); after != before {
				t.Errorf("there was\n%s\nand is\n%s", before, after)
			}
		})
	}

	// An empty directory and a beginning left behind by an earlier process are
	// in nobody's way.
	d := dir(t)
	for _, leftover := range []string{"pg", "pg.new/base"} {
		if err := os.MkdirAll(filepath.Join(d, leftover), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, pglocal.Config{DataDir: d, Settings: unsafe})
	query(t, c.URL(), "SELECT 'x'")
}

// listed names everything below pg in the data directory d.
func listed(t *testing.T, d string) string {
	t.Helper()
	var names []string
	err := filepath.Walk(d, func(path string, info os.FileInfo, err error) error {
		if err == nil && strings.HasPrefix(path, filepath.Join(d, "pg")) {
			names = append(names, fmt.Sprint(path, " ", info.Size()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

// posing makes a directory of binaries that say to be of another version.
func posing(t *testing.T, version string) string {
	t.Helper()
	bin := filepath.Join(dir(t), "postgresql", version, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{
		"initdb":   "#!/bin/sh\nexit 1\n",
		"postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + ".2 (Posing " + version + ".2)'\n",
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// A cluster is run by the version that made it, also where a newer one is
// installed beside; without it both versions and the place are named.
func TestVersionOfTheCluster(t *testing.T) {
	d, real, newer := dir(t), installed(t), posing(t, "99")
	stop(t, start(t, pglocal.Config{DataDir: d, Settings: unsafe, Binaries: pglocal.Binaries{Search: []string{real}}}))
	content, err := os.ReadFile(filepath.Join(d, "pg", "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.TrimSpace(string(content))

	c := start(t, pglocal.Config{DataDir: d, Settings: unsafe, Binaries: pglocal.Binaries{Search: []string{newer, real}}})
	query(t, c.URL(), "SELECT 'x'")
	stop(t, c)

	_, err = pglocal.Start(t.Context(), pglocal.Config{DataDir: d, Binaries: pglocal.Binaries{Search: []string{newer}}})
	for _, part := range []string{"Postgres " + mine, "Postgres 99", filepath.Join(d, "pg")} {
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line that names %s", err, part)
		}
	}
}

// A server that ends by itself is noticed, and can be started again.
func TestDone(t *testing.T) {
	d := dir(t)
	c := start(t, pglocal.Config{DataDir: d})
	query(t, c.URL(), "CREATE TABLE kept (v text)")
	select {
	case <-c.Done():
		t.Fatal("a running server is done")
	default:
	}
	content, err := os.ReadFile(filepath.Join(d, "pg", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(content), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	query(t, c.URL(), "INSERT INTO kept VALUES ('a')")
	done := c.Done()
	stop(t, c)
	<-done
	<-c.Done()
	if _, err := os.Stat(c.LogFile()); err != nil {
		t.Error(err)
	}
}
