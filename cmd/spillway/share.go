package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/share"
)

// share is how the router shares with others, as package share wants it but for
// the salt, which is read at the start alone.
func (c *RouterConfig) share() (share.Config, error) {
	s := c.Share
	config := share.Config{
		Router: c.Name, Listen: s.Listen, Peers: s.Peers,
		TLS:     access.TLS{Mode: s.TLS, CertFile: s.CertFile, KeyFile: s.KeyFile, CAFile: s.CAFile},
		Silence: s.Silence, Snapshot: s.Snapshot, SnapshotMaxAge: s.MaxAge,
	}
	if err := config.Check(); err != nil {
		return config, fmt.Errorf("router.%w", err)
	}
	switch {
	case len(s.Peers) > 0 && s.Listen == "":
		return config, errors.New("router.share_listen: is empty, but router.peers is not; the others could not know of this router: want host:port, such as 127.0.0.1:8084")
	case s.SaltFile != "" || !config.Salted():
		return config, nil
	case s.Listen != "":
		return config, errors.New("router.share_salt_file: is empty; router.share_listen needs it: a file with a secret that all routers of the fleet have in common")
	}
	return config, errors.New("router.share_salt_file: is empty; router.snapshot_file needs it: a file with a secret that hashes of prompts begin with")
}

// checkSnapshot reports a snapshot_file that could not be written.
func (c *RouterConfig) checkSnapshot() error {
	if c.Share.Snapshot == "" {
		return nil
	}
	if err := share.CheckSnapshot(c.Share.Snapshot); err != nil {
		return fmt.Errorf("router.snapshot_file: %w", err)
	}
	return nil
}

// salt reads the salt into a router's configuration. A router that shares nothing may
// have one too: digests of prompts in its rows are then comparable over a restart.
func (c *RouterConfig) salt(config *router.Config) error {
	if c.Share.SaltFile == "" {
		return nil // share has refused what can't be without
	}
	text, err := os.ReadFile(c.Share.SaltFile)
	if err != nil {
		return fmt.Errorf("router.share_salt_file: %w", err)
	}
	salt := bytes.TrimSpace(text)
	if err := share.CheckSalt(salt); err != nil {
		return fmt.Errorf("router.share_salt_file: %s: %w", c.Share.SaltFile, err)
	}
	config.Share.Salt, config.Route.Salt = salt, share.HashSalt(salt)
	return nil
}
