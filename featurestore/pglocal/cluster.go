package pglocal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	user     = "spillway" // the superuser of a private cluster
	database = "spillway"
	usual    = "5432" // port, only a part of the socket's name

	startAtMost = 60 * time.Second // crash recovery included
	stopAtMost  = 30 * time.Second
	pollEvery   = 20 * time.Millisecond
)

// Config of a private cluster. DataDir is all it needs.
type Config struct {
	// DataDir is where the cluster lives; it is made when missing. Relative
	// paths are made absolute.
	DataDir string
	// Logger hears of starts and stops; nil is silent.
	Logger *slog.Logger
	// Settings are added to the server's configuration, for example
	// {"fsync": "off"} in a test. A port there is also of its socket's name.
	Settings map[string]string
	// Binaries says where the server's binaries come from.
	Binaries Binaries
}

// Cluster is a private Postgres, running or not.
type Cluster struct {
	config  Config
	log     *slog.Logger
	bin     string // directory with initdb and postgres
	as      *account
	sockets string // directory of the socket
	lock    *os.File

	mu      sync.Mutex
	process *process // nil when not running
}

// Start makes the cluster in config.DataDir when there is none and runs it. A
// directory whose server did not end cleanly is recovered. It returns when the
// database accepts connections.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if config.DataDir == "" {
		return nil, errors.New("a private Postgres needs a data directory")
	}
	dir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("private Postgres in %s: %w", config.DataDir, err)
	}
	config.DataDir = dir
	c := &Cluster{config: config, log: config.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.prepare(ctx); err != nil {
		c.release()
		return nil, fmt.Errorf("private Postgres in %s: %w", dir, err)
	}
	if err := c.Start(ctx); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) port() string { return cmp.Or(c.config.Settings["port"], usual) }

func (c *Cluster) data() string { return filepath.Join(c.config.DataDir, "pg") }

// prepare makes everything but the running server.
func (c *Cluster) prepare(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.config.DataDir, 0o755); err != nil {
		return err
	}
	if c.lock, err = lockDir(c.config.DataDir); err != nil {
		return err
	}
	if c.as, err = unprivileged(); err != nil {
		return err
	}
	if err := c.as.canReach(c.config.DataDir); err != nil {
		return err
	}
	version, err := c.version()
	if err != nil {
		return err
	}
	if c.bin, err = c.config.Binaries.find(ctx, c.log, c.data(), version); err != nil {
		return err
	}
	if c.sockets, err = c.socketDir(); err != nil {
		return err
	}
	if version != "" {
		return c.as.own(c.data())
	}
	return c.init(ctx)
}

// version is the major version of the cluster's files, empty where there are
// none yet. A directory that holds anything else is not ours to touch.
func (c *Cluster) version() (string, error) {
	content, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if err == nil {
		return strings.TrimSpace(string(content)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	there, err := os.ReadDir(c.data())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(there) > 0 {
		return "", fmt.Errorf("%s is not empty and no Postgres cluster, for it has no file PG_VERSION: move it away or choose another data directory", c.data())
	}
	return "", nil
}

// init makes the cluster's files beside their place and moves them there, so
// that a directory is either whole or absent. What an earlier attempt left
// beside is removed, what stands in the place never is.
func (c *Cluster) init(ctx context.Context) error {
	begun := c.data() + ".new"
	if err := os.RemoveAll(begun); err != nil {
		return err
	}
	if err := os.Mkdir(begun, 0o700); err != nil {
		return err
	}
	if err := c.as.own(begun); err != nil {
		return err
	}
	args := []string{"-D", begun, "-U", user, "--auth=trust", "--encoding=UTF8", "--no-locale"}
	if c.config.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	initdb := exec.CommandContext(ctx, filepath.Join(c.bin, "initdb"), args...)
	initdb.Dir = begun
	initdb.Env = environment()
	c.as.run(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(string(out)))
	}
	// An empty directory makes room; one that is not stays, with an error.
	if err := os.Remove(c.data()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(begun, c.data())
}

// socketLimit is the longest socket path every system takes: 104 bytes with
// the ending NUL on macOS, 108 on Linux.
const socketLimit = 103

// socketDir makes the directory of the socket: in the data directory, or
// under the temporary one where that path is too long for a socket.
func (c *Cluster) socketDir() (string, error) {
	dir := filepath.Join(c.config.DataDir, "run")
	if len(dir)+len("/.s.PGSQL."+c.port()+".lock") <= socketLimit {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		return dir, c.as.own(dir)
	}
	dir, err := os.MkdirTemp("", "spillway-pg-")
	if err != nil {
		return "", err
	}
	if err := c.as.canReach(filepath.Dir(dir)); err != nil {
		return "", err
	}
	return dir, c.as.own(dir)
}

// Start runs the cluster again after Stop or Kill. URL stays the same.
func (c *Cluster) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && c.process.running() {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startAtMost)
	defer cancel()
	if c.lock == nil {
		var err error
		if c.lock, err = lockDir(c.config.DataDir); err != nil {
			return fmt.Errorf("private Postgres in %s: %w", c.config.DataDir, err)
		}
	}
	if err := endOrphan(ctx, c.data()); err != nil {
		return fmt.Errorf("private Postgres in %s: %w", c.config.DataDir, err)
	}
	for {
		err := c.launch(ctx)
		if err == nil {
			break
		}
		// The processes of a killed server need an instant to let go.
		if ctx.Err() == nil && strings.Contains(err.Error(), "pre-existing shared memory block") {
			select {
			case <-ctx.Done():
			case <-time.After(5 * pollEvery):
			}
			continue
		}
		return fmt.Errorf("start private Postgres in %s: %w", c.config.DataDir, err)
	}
	c.log.Info("private Postgres started", "data", c.config.DataDir, "binaries", c.bin, "seconds", time.Since(began).Seconds())
	return nil
}

// launch runs the server once and waits until it accepts connections.
func (c *Cluster) launch(ctx context.Context) error {
	log, err := os.OpenFile(c.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	said, _ := log.Seek(0, 2)
	if err := os.MkdirAll(c.sockets, 0o700); err != nil {
		return err
	}
	if err := c.as.own(c.sockets); err != nil {
		return err
	}
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": c.sockets,
		"unix_socket_permissions": "0700",
		"port":                    c.port(),
		"shared_buffers":          "64MB",
		"max_connections":         "60",
		"log_min_messages":        "warning",
	}
	for name, value := range c.config.Settings {
		settings[name] = value
	}
	args := []string{"-D", c.data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	server := exec.Command(filepath.Join(c.bin, "postgres"), args...)
	server.Dir = c.data()
	server.Env = environment()
	server.Stdout, server.Stderr = log, log
	c.as.run(server)
	p, err := begin(server)
	if err != nil {
		return err
	}
	if err := c.ready(ctx, p); err != nil {
		p.kill()
		out, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w: %s", err, lastLines(string(out[min(int(said), len(out)):])))
	}
	c.process = p
	return nil
}

// ready waits for the server and makes the database.
func (c *Cluster) ready(ctx context.Context, p *process) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.url("postgres"))
		if err == nil {
			defer func() { _ = conn.Close(ctx) }()
			return createDatabase(ctx, conn)
		}
		select {
		case <-p.ended:
			return errors.New("the server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("the server does not accept connections: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

const (
	databaseExists = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = '` + database + `')`
	makeDatabase   = `CREATE DATABASE ` + database
	lz4Supported   = `SELECT EXISTS (SELECT FROM pg_settings
		WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))`
	useLZ4 = `ALTER DATABASE ` + database + ` SET default_toast_compression = 'lz4'`
)

func createDatabase(ctx context.Context, conn *pgx.Conn) error {
	var exists, lz4 bool
	if err := conn.QueryRow(ctx, databaseExists).Scan(&exists); err != nil || exists {
		return err
	}
	if _, err := conn.Exec(ctx, makeDatabase); err != nil {
		return err
	}
	if err := conn.QueryRow(ctx, lz4Supported).Scan(&lz4); err != nil || !lz4 {
		return err
	}
	_, err := conn.Exec(ctx, useLZ4)
	return err
}

// URL is where the cluster's database is reached, running or not.
func (c *Cluster) URL() string { return c.url(database) }

func (c *Cluster) url(database string) string {
	query := url.Values{"host": {c.sockets}, "port": {c.port()}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + database, RawQuery: query.Encode()}).String()
}

// Stop ends the server in order, closing its connections, and lets go of the
// data directory.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.release()
	if c.process == nil {
		return nil
	}
	p := c.process
	c.process = nil
	ctx, cancel := context.WithTimeout(ctx, stopAtMost)
	defer cancel()
	p.interrupt()
	select {
	case <-p.ended:
		c.log.Info("private Postgres stopped", "data", c.config.DataDir)
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("private Postgres in %s did not stop in order and was killed: %w", c.config.DataDir, ctx.Err())
	}
}

// Kill ends the server and all its processes at once with SIGKILL, as a crash
// of the machine's would. The data directory stays held: Start runs it again.
func (c *Cluster) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return
	}
	c.process.kill()
	c.process = nil
}

// Done is closed when the server has ended, asked to or not. It is of the
// server that runs now: ask anew after Start.
func (c *Cluster) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return c.process.ended
}

// LogFile is where the server's own log is.
func (c *Cluster) LogFile() string { return filepath.Join(c.config.DataDir, "postgres.log") }

// release lets go of the data directory.
func (c *Cluster) release() {
	if c.sockets != "" && filepath.Dir(c.sockets) != c.config.DataDir {
		// Made again under the same name should the cluster start again.
		_ = os.Remove(c.sockets)
	}
	if c.lock != nil {
		_ = c.lock.Close()
		c.lock = nil
	}
}

// environment is what the server's programs see: nothing of PG*, so that no
// setting of the user's own server leaks in.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			env = append(env, v)
		}
	}
	return append(env, "LC_ALL=C")
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "; ")
}
