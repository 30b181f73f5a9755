package pglocal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user the server runs as; nil means the one we are.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged is who the server runs as: Postgres refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("the Postgres server refuses to run as root and there is no user postgres or nobody to run it as: add one or run as another user")
}

// run makes cmd run as a.
func (a *account) run(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// own gives dir and everything in it to a. Links are not followed.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // ended meanwhile, as a socket does
		}
		if err != nil {
			return err
		}
		return os.Lchown(path, int(a.uid), int(a.gid))
	})
}

// canReach returns an error that names the first directory on the way to dir,
// itself included, which a may not enter.
func (a *account) canReach(dir string) error {
	if a == nil {
		return nil
	}
	var way []string
	for d := dir; ; d = filepath.Dir(d) {
		way = append(way, d)
		if d == filepath.Dir(d) {
			break
		}
	}
	for i := len(way) - 1; i >= 0; i-- {
		info, err := os.Stat(way[i])
		if err != nil {
			return err
		}
		enter := fs.FileMode(0o001)
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			switch {
			case owner.Uid == a.uid:
				enter = 0o100
			case owner.Gid == a.gid:
				enter = 0o010
			}
		}
		if info.Mode().Perm()&enter == 0 {
			return fmt.Errorf("the Postgres server runs as the user %s, who may not enter %s (mode %#o): choose another data directory or 'chmod o+x' that one",
				a.name, way[i], info.Mode().Perm())
		}
	}
	return nil
}
