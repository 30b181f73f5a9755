package child

import "syscall"

// attributes keep a child out of the terminal's signals, which the parent
// passes on in order, and end it with the parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
