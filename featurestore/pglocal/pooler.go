package pglocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// poolerPort is only a part of its socket's name.
const poolerPort = "6432"

// Pooler is a private PgBouncer in transaction mode before a cluster, as managed
// databases have one: it lends a server's session to one transaction at a time.
type Pooler struct {
	dir     string // of its socket and files
	process *process
}

// StartPooler runs the PgBouncer that is installed on this machine before c, with
// sessions shared by all who connect to a database, as many as that. It returns when
// it accepts connections.
func StartPooler(ctx context.Context, c *Cluster, sessions int) (*Pooler, error) {
	p := &Pooler{}
	if err := p.start(ctx, c, sessions); err != nil {
		p.Stop()
		return nil, fmt.Errorf("private PgBouncer: %w", err)
	}
	return p, nil
}

func (p *Pooler) start(ctx context.Context, c *Cluster, sessions int) error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return errors.New("it is not installed: run 'make setup', or install your system's package (apt-get install pgbouncer, brew install pgbouncer)")
		}
	}
	if p.dir, err = os.MkdirTemp("", "spillway-pgb-"); err != nil {
		return err
	}
	config := filepath.Join(p.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr =
listen_port = %s
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 200
`, c.sockets, c.port(), user, poolerPort, p.dir, sessions), 0o644); err != nil {
		return err
	}
	if err := c.as.own(p.dir); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.dir, "pgbouncer.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	server := exec.Command(program, config)
	server.Dir, server.Env = p.dir, environment()
	server.Stdout, server.Stderr = log, log
	c.as.run(server)
	if p.process, err = begin(server); err != nil {
		return err
	}
	return p.ready(ctx, log.Name())
}

// ready waits until it accepts connections.
func (p *Pooler) ready(ctx context.Context, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startAtMost)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", filepath.Join(p.dir, ".s.PGSQL."+poolerPort))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-p.process.ended:
			out, _ := os.ReadFile(log)
			return fmt.Errorf("it ended: %s", lastLines(string(out)))
		case <-ctx.Done():
			return fmt.Errorf("it does not accept connections: %w", err)
		}
	}
}

// Through is the URL of a database of the cluster, reached through the pooler.
func (p *Pooler) Through(database string) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Set("host", p.dir)
	query.Set("port", poolerPort)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// Stop ends the pooler and cuts its clients off.
func (p *Pooler) Stop() {
	if p.process != nil {
		p.process.kill()
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}
