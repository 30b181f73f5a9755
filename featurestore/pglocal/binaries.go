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

// find returns a directory with initdb and postgres.
func (b Binaries) find(ctx context.Context, log *slog.Logger) (string, error) {
	if dir := b.search(); dir != "" {
		return dir, nil
	}
	dir, err := b.download(ctx, log)
	if err != nil {
		return "", fmt.Errorf("no Postgres server on this machine: install one ('make setup', or your package manager's postgresql), or set DATABASE_URL to a running one (%w)", err)
	}
	return dir, nil
}

// search returns the newest of the directories found, PATH first.
func (b Binaries) search() string {
	patterns := b.Search
	if patterns == nil {
		if postgres, err := exec.LookPath("postgres"); err == nil {
			if real, err := filepath.EvalSymlinks(postgres); err == nil && complete(filepath.Dir(real)) {
				return filepath.Dir(real)
			}
		}
		patterns = places
	}
	var found []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			if complete(dir) {
				found = append(found, dir)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })
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
