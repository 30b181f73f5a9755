package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spillway-llm/spillway/router/policy"
)

// checkAddresses reports the first address of the configuration whose form is
// wrong. Whether it can be listened on, or reached, only a start tells.
func (c *Config) checkAddresses() error {
	for _, x := range []struct {
		key, address string
		socket       bool // may be a Unix socket
		unused       bool // may be anything
	}{
		{"router.listen", c.Router.Listen, false, false},
		{"router.extproc_listen", c.Router.ExtProc.Listen, false, c.Router.ExtProc.Listen == ""},
		{"router.share_listen", c.Router.Share.Listen, false, c.Router.Share.Listen == ""},
		{"router.admin", c.Router.Admin, false, c.Router.Admin == ""},
		{"router.forecast.address", c.Router.Forecast.Address, true, !policy.Forecasting(c.Router.Policy) || c.Predictor.InProcess},
		{"predictor.listen", c.Predictor.Listen, true, c.Predictor.InProcess},
		{"predictor.admin", c.Predictor.Admin, false, c.Predictor.Admin == ""},
		{"trainer.admin", c.Trainer.Admin, false, c.Trainer.Admin == ""},
	} {
		if x.unused || tcpAddress(x.address) || x.socket && socketAddress(x.address) {
			continue
		}
		want := "host:port"
		if x.socket {
			want = "unix:///path or host:port"
		}
		if x.address == "" {
			return fmt.Errorf("%s: is empty; want %s", x.key, want)
		}
		return fmt.Errorf("%s: %q is no address; want %s", x.key, x.address, want)
	}
	if err := c.Router.checkDoors(); err != nil {
		return err
	}
	if err := c.Router.checkReach(); err != nil {
		return err
	}
	return c.Router.checkHandover()
}

// checkDoors reports two listeners of the router that can't both have their
// address. Port 0 is any.
func (c *RouterConfig) checkDoors() error {
	type door struct{ key, address string }
	doors := []door{{"router.listen", c.Listen}, {"router.extproc_listen", c.ExtProc.Listen}, {"router.share_listen", c.Share.Listen}, {"router.admin", c.Admin}}
	for i, later := range doors {
		for _, earlier := range doors[:i] {
			if sameDoor(earlier.address, later.address) {
				return fmt.Errorf("%s: %q is taken by %s, %q; give each a port of its own", later.key, later.address, earlier.key, earlier.address)
			}
		}
	}
	return nil
}

// checkReach reports the first endpoint that a gateway could not be told: it takes
// an IP address and a port, and looks up no names. The URLs were checked.
func (c *RouterConfig) checkReach() error {
	if c.ExtProc.Listen == "" {
		return nil
	}
	for i, e := range c.Endpoints {
		u, err := url.Parse(e.URL)
		if err != nil {
			return fmt.Errorf("router.endpoints[%d].url: %w", i, err)
		}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			return fmt.Errorf("router.endpoints[%d].url: %q has a name for its host; with router.extproc_listen it must be an IP address, for gateways look up no names", i, e.URL)
		}
	}
	return nil
}

// sameDoor reports whether two addresses, of which one may be empty, have a port in
// common.
func sameDoor(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return false
	}
	numberA, errA := net.LookupPort("tcp", portA)
	numberB, errB := net.LookupPort("tcp", portB)
	if errA != nil || errB != nil || numberA != numberB || numberA == 0 {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB)
}

// everywhere reports whether a host stands for all addresses of the machine.
func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// longestSocket is the longest path of a Unix socket that every system takes.
const longestSocket = 103

func (c *RouterConfig) checkHandover() error {
	switch {
	case c.Handover == "":
	case !filepath.IsAbs(c.Handover):
		return fmt.Errorf("router.handover: %q is no absolute path of a Unix socket, such as /run/spillway/handover.sock", c.Handover)
	case len(c.Handover) > longestSocket:
		return fmt.Errorf("router.handover: %q is longer than the %d bytes that a Unix socket's path may have", c.Handover, longestSocket)
	}
	return nil
}

// tcpAddress reports whether address is host:port. The port may be a service's
// name; the host may be empty.
func tcpAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// socketAddress reports whether address is unix:// and an absolute path.
func socketAddress(address string) bool {
	path, ok := strings.CutPrefix(address, "unix://")
	return ok && len(path) > 1 && path[0] == '/'
}
