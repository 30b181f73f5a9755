//go:build !linux

package child

import "syscall"

// attributes keep a child out of the terminal's signals, which the parent
// passes on in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
