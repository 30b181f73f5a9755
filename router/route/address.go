package route

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Address is an address of the form ip:port in the one way it is written here:
// IPv6 addresses, also those that stand for IPv4 ones, have more than one. What
// is no such address comes back as it is, in lower case.
func Address(s string) string {
	s = strings.TrimSpace(s)
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return strings.ToLower(s)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

// addressOf is the address of an endpoint's URL, with its port also where the
// URL leaves it out.
func addressOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	host := u.Host
	if u.Port() == "" {
		host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	return Address(host)
}

// allows reports whether the endpoint at an address may serve q.
func (q *Query) allows(address string) bool {
	if q.Within == nil {
		return true
	}
	_, ok := slices.BinarySearch(q.Within, address)
	return ok
}
