package pglocal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Binaries says where the server's binaries come from. The zero value is
// right for users.
type Binaries struct {
	// Search lists directories, or patterns of some, that may hold initdb and
	// postgres. nil is PATH and then the places where Linux distributions and
	// Homebrew put them.
	Search []string
	// Repository is the Maven repository to download from when the search
	// finds nothing; empty is Maven Central, "none" forbids it.
	Repository string
	// Cache is where downloaded binaries are kept; empty is a directory of
	// the user's cache, or of /var/cache for root.
	Cache string
}

// places are where servers are installed that are not in PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
	"/usr/pgsql-*/bin",          // postgresql.org's packages for Red Hat
	"/usr/libexec/postgresql*",  // Alpine
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin", // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
}

// find returns a directory with initdb and postgres: the preferred one for a
// new cluster, or, for the files of a cluster of major version want in data,
// the first that can read those.
func (b Binaries) find(ctx context.Context, log *slog.Logger, data, want string) (string, error) {
	found := b.search()
	if len(found) == 0 {
		dir, err := b.download(ctx, log)
		if err != nil {
			return "", fmt.Errorf("no Postgres server on this machine: install one ('make setup', or your package manager's postgresql), or set DATABASE_URL to a running one (%w)", err)
		}
		found = []string{dir}
	}
	if want == "" {
		return found[0], nil
	}
	var have []string
	for _, dir := range found {
		version, err := versionOf(ctx, dir)
		if err != nil {
			return "", err
		}
		if version == want {
			return dir, nil
		}
		if !slices.Contains(have, version) {
			have = append(have, version)
		}
	}
	return "", fmt.Errorf("the files in %s are of Postgres %s, which Postgres %s on this machine can't read: install Postgres %s or choose another data directory",
		data, want, strings.Join(have, " and "), want)
}

// search returns the directories found: the one of PATH first, then those with
// the newest version in their name.
func (b Binaries) search() []string {
	var found []string
	patterns := b.Search
	if patterns == nil {
		if postgres, err := exec.LookPath("postgres"); err == nil {
			if real, err := filepath.EvalSymlinks(postgres); err == nil && complete(filepath.Dir(real)) {
				found = append(found, filepath.Dir(real))
			}
		}
		patterns = places
	}
	var installed []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			if complete(dir) {
				installed = append(installed, dir)
			}
		}
	}
	slices.SortStableFunc(installed, func(a, b string) int { return major(b) - major(a) })
	return append(found, installed...)
}

var saysVersion = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)

// versionOf asks the server in dir for its major version, as a file
// PG_VERSION names it.
func versionOf(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s/postgres for its version: %w", dir, err)
	}
	match := saysVersion.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("%s/postgres does not say which version it is: %q", dir, lastLines(string(out)))
	}
	return string(match[1]), nil
}

// complete reports whether dir holds the two programs we run.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode().Perm()&0o111 == 0 {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`[0-9]+`)

// major is the version in a path such as /usr/lib/postgresql/17/bin, 0 when
// there is none.
func major(dir string) int {
	n, _ := strconv.Atoi(number.FindString(dir))
	return n
}
