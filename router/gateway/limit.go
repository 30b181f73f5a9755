package gateway

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/router/front"
)

// limits bound how many requests are on their way at once. A client is an IP
// address, as the connection has it: what headers say of others, anyone can
// write. So a proxy in front of the router is one client.
type limits struct {
	most, mostOfOne int // 0: no bound

	mu  sync.Mutex
	all int
	of  map[string]int // of clients that have requests; nil where there is no bound for one
}

func newLimits(most, mostOfOne int) *limits {
	l := &limits{most: most, mostOfOne: mostOfOne}
	if mostOfOne > 0 {
		l.of = map[string]int{}
	}
	return l
}

// enter lets a request in from an address, or says why not. One that is let in
// must leave.
func (l *limits) enter(address string) (client string, err error) {
	if l.of != nil {
		client = hostOf(address)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.most > 0 && l.all >= l.most:
		f := front.Refuse(http.StatusServiceUnavailable, reasonRequests, fmt.Sprintf("more than %d requests are on their way", l.most))
		f.RetryAfter = time.Second
		return "", f
	case l.of != nil && l.of[client] >= l.mostOfOne:
		f := front.Refuse(http.StatusTooManyRequests, reasonOfClient, fmt.Sprintf("this client has %d requests on their way, which is the most it may have", l.mostOfOne))
		f.RetryAfter = time.Second
		return "", f
	}
	l.all++
	if l.of != nil {
		l.of[client]++
	}
	return client, nil
}

// leave ends what enter let in.
func (l *limits) leave(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of == nil {
		return
	}
	if l.of[client]--; l.of[client] == 0 {
		delete(l.of, client)
	}
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
