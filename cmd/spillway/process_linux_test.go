package main

import "syscall"

// childAttributes end a child with the tests, whatever ends those.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
