//go:build !linux

package socket

import "net"

func quiet(conn net.Conn) net.Conn { return conn }
