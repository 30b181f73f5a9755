package pglocal

import (
	"context"
	"log/slog"
)

// Resolve says which database to use: databaseURL where it is set, which
// always wins, else a private cluster in dir, which it starts. The cluster is
// nil in the first case; in the second the caller stops it.
func Resolve(ctx context.Context, databaseURL, dir string, log *slog.Logger) (url string, c *Cluster, err error) {
	if databaseURL != "" {
		return databaseURL, nil, nil
	}
	c, err = Start(ctx, Config{DataDir: dir, Logger: log})
	if err != nil {
		return "", nil, err
	}
	return c.URL(), c, nil
}
