//go:build !linux

package main

import "syscall"

// childAttributes have nothing to end a child with the tests here: cleanups do.
func childAttributes() *syscall.SysProcAttr { return nil }
