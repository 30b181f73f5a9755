package pglocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithParent has the kernel ask the server for a fast shutdown when we end.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var children []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (name) state ppid ...; the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// endOrphan deals with what a process that was killed left behind: a server
// that still runs in data is asked to end and waited for, and a pid file whose
// server is gone is removed, because its number may be another process by now.
// The caller holds the lock, so no living process of ours owns that server.
func endOrphan(ctx context.Context, data string) error {
	path := filepath.Join(data, "postmaster.pid")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || !runsIn(pid, data) {
		return os.Remove(path)
	}
	_ = syscall.Kill(pid, syscall.SIGINT)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for runsIn(pid, data) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d, a server left behind by an earlier run, does not end: kill it", pid)
		case <-tick.C:
		}
	}
	return nil
}

// runsIn reports whether pid is a living server of data: a server's working
// directory is its data directory.
func runsIn(pid int, data string) bool {
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err != nil {
		return false // ended, or ended and not yet waited for
	}
	real, err := filepath.EvalSymlinks(data)
	return err == nil && cwd == real
}
