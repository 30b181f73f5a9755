package gateway

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/router/front"
)

// limits bound how many requests are on their way at once. A client is an IP
// address, of IPv6 a network of 64 bits, as the connection has it: what headers
// say of others, anyone can write. So a proxy in front of the router is one client.
type limits struct {
	most, mostOfOne int // 0: no bound

	mu  sync.Mutex
	all int
	of  map[client]int // of clients that have requests; nil where there is no bound for one
}

// client is who asks; the zero client is all whose address is none.
type client = netip.Prefix

func newLimits(most, mostOfOne int) *limits {
	l := &limits{most: most, mostOfOne: mostOfOne}
	if mostOfOne > 0 {
		l.of = map[client]int{}
	}
	return l
}

// enter lets a request in from an address, or says why not. One that is let in
// must leave.
func (l *limits) enter(address string) (who client, err error) {
	if l.of != nil {
		who = clientAt(address)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.most > 0 && l.all >= l.most:
		f := front.Refuse(http.StatusServiceUnavailable, reasonRequests, fmt.Sprintf("more than %d requests are on their way", l.most))
		f.RetryAfter = time.Second
		return who, f
	case l.of != nil && l.of[who] >= l.mostOfOne:
		f := front.Refuse(http.StatusTooManyRequests, reasonOfClient, fmt.Sprintf("this client has %d requests on their way, which is the most it may have", l.mostOfOne))
		f.RetryAfter = time.Second
		return who, f
	}
	l.all++
	if l.of != nil {
		l.of[who]++
	}
	return who, nil
}

// leave ends what enter let in.
func (l *limits) leave(who client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of == nil {
		return
	}
	if l.of[who]--; l.of[who] == 0 {
		delete(l.of, who)
	}
}

// networkBits are those of a network whose addresses belong to one client
// (RFC 6177: a site is given at least so much).
const networkBits = 64

func clientAt(address string) client {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return client{}
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = networkBits
	}
	network, err := ip.Prefix(bits)
	if err != nil {
		return client{}
	}
	return network
}
