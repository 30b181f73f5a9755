package child

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Folder makes an empty folder that the user of a database may enter: dir, which
// the flag --dir names, or where that is empty a temporary one whose name begins so.
func Folder(dir, begins string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", begins)
		if err != nil {
			return "", err
		}
		return dir, os.Chmod(dir, 0o755)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--dir: %w", err)
	}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return "", fmt.Errorf("--dir: %s is not empty; name another folder", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("--dir: %w", err)
	}
	return dir, nil
}

// Local is the address of a port on loopback.
func Local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Reachable connects to an address and leaves again.
func Reachable(ctx context.Context, network, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Tell asks a process for a page, on a connection of its own and for two seconds at
// most: what comes with another status than 200 is an error.
func Tell(ctx context.Context, address, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true // a process that took this one's place is asked next time
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of %s: %s", path, address, res.Status)
	}
	return body, err
}
