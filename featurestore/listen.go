package featurestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	listen       = `LISTEN ` + channel
	checkAlive   = `SELECT 1`
	aliveEvery   = 30 * time.Second // a connection cut without a word is noticed after this
	relistenWait = time.Second
	relistenMax  = 30 * time.Second
)

// Listen calls heard with the version of every bundle that becomes or stays
// served, from its own connection to listenURL, which must reach the database
// itself rather than a pooler; users give it as LISTEN_DATABASE_URL. It
// reconnects by itself and returns when ctx ends. Notifications can be missed
// while it reconnects, and an empty listenURL hears none at all: poll
// ServedPointer as well.
func (s *Store) Listen(ctx context.Context, listenURL string, heard func(version int64)) error {
	if listenURL == "" {
		s.log.Info("LISTEN_DATABASE_URL is not set: new bundles are found by polling alone")
		<-ctx.Done()
		return nil
	}
	// It may say things of a pool, as DATABASE_URL may, which often is the same.
	pool, err := pgxpool.ParseConfig(listenURL)
	if err != nil {
		return fmt.Errorf("LISTEN_DATABASE_URL is not a Postgres URL such as postgres://user@host:5432/spillway: %s", oneLine(err))
	}
	config := pool.ConnConfig
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	setUnlessSet(config.RuntimeParams, "application_name", application)
	wait := relistenWait
	for {
		connected, err := listenOnce(ctx, config, s.log, heard)
		if ctx.Err() != nil {
			return nil
		}
		if connected {
			wait = relistenWait
		}
		s.log.Warn("not listening for bundles, polling serves", "error", oneLine(err), "retry_seconds", wait.Seconds())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, relistenMax)
	}
}

// listenOnce listens until the connection or ctx ends.
func listenOnce(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger, heard func(int64)) (connected bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, listen); err != nil {
		return false, err
	}
	log.Info("listening for bundles")
	for {
		quiet, cancel := context.WithTimeout(ctx, aliveEvery)
		n, err := conn.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			version, err := strconv.ParseInt(n.Payload, 10, 64)
			if err != nil {
				log.Warn("a bundle notification is not a version", "payload", n.Payload)
				continue
			}
			heard(version)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			probe, cancel := context.WithTimeout(ctx, connectTimeout)
			_, err := conn.Exec(probe, checkAlive)
			cancel()
			if err != nil {
				return true, err
			}
		default:
			return true, err
		}
	}
}
