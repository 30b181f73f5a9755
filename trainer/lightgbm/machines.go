package lightgbm

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
)

// machine is one of those that work together.
type machine struct {
	address netip.Addr
	port    uint16
}

// maxMachines and maxList bound what is read of a list.
const (
	maxMachines = 1024
	maxList     = 64 * maxMachines // bytes
)

// machines reads the list of them; none is this machine alone.
func (c *Command) machines() ([]machine, error) {
	if c.Machines == "" {
		return nil, nil
	}
	file, err := os.Open(c.Machines)
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxList+1))
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	if len(text) > maxList {
		return nil, fmt.Errorf("machines: %s: more than %d bytes", c.Machines, maxList)
	}
	list, err := parseMachines(text)
	if err != nil {
		return nil, fmt.Errorf("machines: %s: %w", c.Machines, err)
	}
	return list, nil
}

// parseMachines reads lines of an IP address and a port. LightGBM finds out which
// of them a machine is by its addresses and the one port it is told to listen
// on, so that all must have the same.
func parseMachines(text []byte) ([]machine, error) {
	var list []machine
	number := 0
	for line := range bytes.Lines(text) {
		number++
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: want an IP address, a blank and a port", number)
		}
		address, err := netip.ParseAddr(string(fields[0]))
		if err != nil {
			return nil, fmt.Errorf("line %d: want an IP address: %w", number, err)
		}
		port, err := strconv.ParseUint(string(fields[1]), 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("line %d: port %q, want 1 to 65535", number, fields[1])
		}
		m := machine{address, uint16(port)}
		if len(list) > 0 && list[0].port != m.port {
			return nil, fmt.Errorf("line %d: port %d after %d, want the same for all", number, m.port, list[0].port)
		}
		if len(list) == maxMachines {
			return nil, fmt.Errorf("more than %d machines", maxMachines)
		}
		list = append(list, m)
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("lists %d machines, want at least 2", len(list))
	}
	return list, nil
}
