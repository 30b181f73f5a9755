//go:build !linux

package demo

import "syscall"

// childAttributes keep a child out of the terminal's signals, which the parent
// passes on in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
