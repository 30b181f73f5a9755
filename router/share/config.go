package share

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spillway-llm/spillway/internal/access"
)

// Config is how a router shares. With empty Listen and Peers it does not, and
// with an empty Snapshot too nothing of Config matters.
type Config struct {
	Router string   // name of this one, for people
	Listen string   // host:port where others follow; empty: nobody may
	Peers  []string // host:port of the others; a host may stand for several machines, and for this one

	Salt []byte // secret that all have in common, for HashSalt; see CheckSalt
	TLS  access.TLS

	// Silence is after how long without a word what a peer has in flight is
	// forgotten.
	Silence time.Duration

	// Dial connects to a peer; nil: over TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	Snapshot       string        // file for what is believed to be cached; empty: none
	SnapshotMaxAge time.Duration // an older one is not read
}

const (
	leastSalt    = 16 // bytes
	leastSilence = 2 * heartbeat
	mostPeers    = 64
)

// Defaults are the documented defaults of a router that does not share.
func Defaults() Config {
	return Config{TLS: access.TLS{Mode: access.Off}, Silence: 3 * time.Second, SnapshotMaxAge: 10 * time.Minute}
}

// Sharing reports whether there are others to tell or to hear.
func (c *Config) Sharing() bool { return c.Listen != "" || len(c.Peers) > 0 }

// Salted reports whether hashes of prompts leave this process.
func (c *Config) Salted() bool { return c.Sharing() || c.Snapshot != "" }

// Check reports the first setting that can't work, by its key. Whether the salt
// is there is not checked: see CheckSalt.
func (c *Config) Check() error {
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return fmt.Errorf("share_listen: %q is no host:port, such as 127.0.0.1:8084", c.Listen)
		}
	}
	if len(c.Peers) > mostPeers {
		return fmt.Errorf("peers: %d of them; want at most %d", len(c.Peers), mostPeers)
	}
	for i, p := range c.Peers {
		host, port, err := net.SplitHostPort(p)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("peers[%d]: %q is no host:port, such as 10.0.0.2:8084", i, p)
		}
	}
	if c.Silence < leastSilence {
		return fmt.Errorf("peer_silence: %v; want at least %v, as a peer without news says so every %v", c.Silence, leastSilence, heartbeat)
	}
	if c.SnapshotMaxAge <= 0 {
		return fmt.Errorf("snapshot_max_age: %v; it must be positive", c.SnapshotMaxAge)
	}
	if t := &c.TLS; t.Mode == access.Off && (t.CertFile != "" || t.KeyFile != "" || t.CAFile != "") {
		return fmt.Errorf("share_tls: is %q, but a file for it is given; want %q or %q", access.Off, access.Server, access.Mutual)
	}
	return c.TLS.Check("share_tls", "share_", false)
}

// CheckSalt reports whether a salt will do.
func CheckSalt(salt []byte) error {
	if len(salt) < leastSalt {
		return errors.New("want at least 16 bytes that nobody can guess, the same for all routers of the fleet: head -c 32 /dev/urandom | base64")
	}
	return nil
}
