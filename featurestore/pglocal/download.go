package pglocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// downloadVersion is the server we download: the newest major release the
// library names that has seen more than one year in the field.
const downloadVersion = embedded.V17

// mavenCentral serves the zonky embedded-postgres-binaries archives.
const mavenCentral = "https://repo1.maven.org/maven2"

// download returns a directory of downloaded binaries, downloading them
// unless the cache has them.
func (b Binaries) download(ctx context.Context, log *slog.Logger) (string, error) {
	if b.Repository == "none" {
		return "", errors.New("downloading is switched off")
	}
	repository := b.Repository
	if repository == "" {
		repository = mavenCentral
	}
	cache, err := b.cache()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, string(downloadVersion))
	bin := filepath.Join(root, "bin")
	if complete(bin) {
		return bin, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	log.Info("downloading Postgres", "version", string(downloadVersion), "from", repository, "to", root)
	// The library cannot be interrupted; should ctx end first, what it still
	// brings stays in the cache for the next time.
	fetched := make(chan error, 1)
	go func() { fetched <- fetch(repository, cache, root) }()
	select {
	case err := <-fetched:
		if !complete(bin) {
			return "", fmt.Errorf("download from %s: %w", repository, err)
		}
		return bin, nil
	case <-ctx.Done():
		return "", fmt.Errorf("download from %s: %w", repository, ctx.Err())
	}
}

func (b Binaries) cache() (string, error) {
	if b.Cache != "" {
		return filepath.Abs(b.Cache)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/spillway/postgres", nil // the server's user may not enter /root
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "spillway", "postgres"), nil
}

// fetch has the library download, verify and unpack the archive. It does so
// only on the way to starting a server of its own, which we do not want (it
// would listen on TCP, and not at all for root), so it is given a data
// directory that cannot exist: initdb refuses that and the binaries stay. The
// error is therefore judged by whether they are there.
func fetch(repository, cache, root string) error {
	work, err := os.MkdirTemp(cache, "work-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	port, err := freePort()
	if err != nil {
		return err
	}
	blocked := filepath.Join(work, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		return err
	}
	err = embedded.NewDatabase(embedded.DefaultConfig().
		Version(downloadVersion).
		Port(port).
		BinaryRepositoryURL(strings.TrimSuffix(repository, "/")).
		CachePath(cache).
		BinariesPath(root).
		RuntimePath(filepath.Join(work, "run")).
		DataPath(filepath.Join(blocked, "data")).
		Logger(io.Discard)).Start()
	if err == nil {
		return errors.New("the archive's server started where none can")
	}
	return err
}

// freePort satisfies the library's check that its port is free.
func freePort() (uint32, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return uint32(l.Addr().(*net.TCPAddr).Port), nil
}
