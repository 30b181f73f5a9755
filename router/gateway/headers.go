package gateway

import (
	"net/http"
	"net/textproto"
	"strings"
)

// hopByHop are the headers of one connection (RFC 9110, section 7.6.1, and
// what older software sends); they are never passed on, in either direction.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// endToEnd removes from h what belongs to one connection alone, including what
// its Connection header names.
func endToEnd(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// outbound returns the headers to send to an endpoint for a request that came
// with h. A metered answer must come as plain bytes, so identity is the only
// encoding it may have.
func outbound(h http.Header, metered bool) http.Header {
	out := h.Clone()
	endToEnd(out)
	delete(out, "Expect") // answered here
	delete(out, "Content-Length")
	if metered {
		out.Set("Accept-Encoding", "identity")
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // keeps net/http from adding its own
	}
	return out
}

// inbound adds the headers of an endpoint's answer to h. With resized, the
// body that follows is not as long as the endpoint says.
func inbound(h http.Header, answer *http.Response, resized bool) {
	from := answer.Header
	endToEnd(from)
	for name, values := range from {
		h[name] = append(h[name], values...)
	}
	if resized {
		delete(h, "Content-Length")
	}
	if _, ok := from["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	for name := range answer.Trailer {
		h.Add("Trailer", name)
	}
}

// trail adds the trailers of an answer that was read to its end. announced is
// how many were known with the headers.
func trail(h http.Header, answer *http.Response, announced int) {
	for name, values := range answer.Trailer {
		if len(answer.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = append(h[name], values...)
	}
}
