package pglocal_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/featurestore/pglocal"
)

// unsafe is faster and enough where nothing is killed.
var unsafe = map[string]string{"fsync": "off"}

// childEnv makes this test binary start a cluster and wait to be killed.
const childEnv = "PGLOCAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		c, err := pglocal.Start(context.Background(), pglocal.Config{DataDir: dir})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("url", c.URL())
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent ends
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// dir is a directory that the server's user can enter.
func dir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "pglocal-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d) })
	if err := os.Chmod(d, 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func start(t *testing.T, c pglocal.Config) *pglocal.Cluster {
	t.Helper()
	cluster, err := pglocal.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, cluster) })
	return cluster
}

func stop(t *testing.T, c *pglocal.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(values, ",")
}

func TestClusterLives(t *testing.T) {
	d := dir(t)
	c := start(t, pglocal.Config{DataDir: d})
	url := c.URL()
	if got := query(t, url, "SHOW listen_addresses"); got != "" {
		t.Errorf("listens on %q", got)
	}
	query(t, url, "CREATE TABLE kept (v text)")
	query(t, url, "INSERT INTO kept VALUES ('a')")

	if _, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: d}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second start in the same directory: %v", err)
	}

	c.Kill()
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("a killed server answers")
	}
	c.Kill() // changes nothing
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	query(t, url, "INSERT INTO kept VALUES ('b')")
	stop(t, c)
	stop(t, c) // changes nothing
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, url, "SELECT v FROM kept ORDER BY v"); got != "a,b" || c.URL() != url {
		t.Errorf("after kill and stop: %q at %s, want a,b at %s", got, c.URL(), url)
	}
	stop(t, c)
	again := start(t, pglocal.Config{DataDir: d})
	if got := query(t, again.URL(), "SELECT v FROM kept ORDER BY v"); got != "a,b" {
		t.Errorf("by another cluster value: %q", got)
	}
}

// The server ends with the process that started it, and the directory can be
// used at once, also with a stale pid file.
func TestClusterDiesWithParent(t *testing.T) {
	d := dir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+d)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var url string
	if _, err := fmt.Fscanf(stdout, "url %s\n", &url); err != nil {
		t.Fatal(err)
	}
	query(t, url, "CREATE TABLE kept (v text)")
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	c := start(t, pglocal.Config{DataDir: d})
	query(t, c.URL(), "INSERT INTO kept VALUES ('a')")
	stop(t, c)

	// The number of a server long gone is another process now: ourselves.
	pid := filepath.Join(d, "pg", "postmaster.pid")
	if err := os.WriteFile(pid, fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), filepath.Join(d, "pg")), 0o600); err != nil {
		t.Fatal(err)
	}
	c = start(t, pglocal.Config{DataDir: d})
	if got := query(t, c.URL(), "SELECT v FROM kept"); got != "a" {
		t.Errorf("kept %q", got)
	}
}

func TestLongDirectory(t *testing.T) {
	d := filepath.Join(dir(t), strings.Repeat("long/", 25))
	c := start(t, pglocal.Config{DataDir: d, Settings: unsafe})
	url := c.URL()
	query(t, url, "SELECT 'x'")
	stop(t, c)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	query(t, url, "SELECT 'x'")
}

// A directory on the way that the server's user may not enter is named.
func TestUnreachableDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("the server runs as the user of the test: every directory of ours is reachable")
		return
	}
	closed := filepath.Join(dir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: filepath.Join(closed, "data")})
	if err == nil || !strings.Contains(err.Error(), "may not enter "+closed) {
		t.Errorf("%v, want one that names %s", err, closed)
	}
}

func TestNoServer(t *testing.T) {
	_, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: dir(t),
		Binaries: pglocal.Binaries{Search: []string{"/nonexistent/*"}, Repository: "none"}})
	for _, way := range []string{"make setup", "package manager", "DATABASE_URL"} {
		if err == nil || !strings.Contains(err.Error(), way) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line that names %s", err, way)
		}
	}
	absent := httptest.NewServer(http.NotFoundHandler())
	defer absent.Close()
	_, err = pglocal.Start(t.Context(), pglocal.Config{DataDir: dir(t),
		Binaries: pglocal.Binaries{Search: []string{}, Repository: absent.URL, Cache: dir(t)}})
	if err == nil || !strings.Contains(err.Error(), absent.URL) {
		t.Errorf("%v, want one that names %s", err, absent.URL)
	}
}

// Without a server on the machine one is downloaded, once, and runs as the
// unprivileged user. The archive holds scripts that run the server installed
// here, so the way is real and the bytes few.
func TestDownload(t *testing.T) {
	real := installed(t)
	archive := jar(t, map[string]string{
		"bin/initdb":   "#!/bin/sh\nexec " + real + "/initdb \"$@\"\n",
		"bin/postgres": "#!/bin/sh\nexec " + real + "/postgres \"$@\"\n",
		"bin/pg_ctl":   "#!/bin/sh\nexit 1\n",
	})
	sum := sha256.Sum256(archive)
	downloads := 0
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".jar"):
			downloads++
			_, _ = w.Write(archive)
		case strings.HasSuffix(r.URL.Path, ".jar.sha256"):
			_, _ = io.WriteString(w, hex.EncodeToString(sum[:]))
		default:
			http.NotFound(w, r)
		}
	}))
	defer repository.Close()
	cache := dir(t)
	for range 2 {
		c := start(t, pglocal.Config{DataDir: dir(t), Settings: unsafe,
			Binaries: pglocal.Binaries{Search: []string{}, Repository: repository.URL, Cache: cache}})
		query(t, c.URL(), "SELECT 'x'")
		stop(t, c)
	}
	if downloads != 1 {
		t.Errorf("downloaded %d times, want once", downloads)
	}
	left, err := filepath.Glob(filepath.Join(cache, "work-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// installed is where a server of this machine is.
func installed(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Fatal("tests need a Postgres server on this machine: run 'make setup'")
	}
	return found[0]
}

// jar packs files as the zonky project does: a tar.xz in a zip.
func jar(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var plain bytes.Buffer
	tarball := tar.NewWriter(&plain)
	for name, content := range files {
		err := tarball.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tarball.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tarball.Close(); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	w, err := archive.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(xz(plain.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestResolve(t *testing.T) {
	url, c, err := pglocal.Resolve(t.Context(), "postgres://elsewhere/x", "/nonexistent", nil)
	if url != "postgres://elsewhere/x" || c != nil || err != nil {
		t.Errorf("DATABASE_URL does not win: %q %v %v", url, c, err)
	}
	url, c, err = pglocal.Resolve(t.Context(), "", dir(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	query(t, url, "SELECT 'x'")
	stop(t, c)
}
