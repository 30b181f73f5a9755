package gateway

import (
	"net"
	"net/http"
	"time"
)

// Transport returns a transport for reaching endpoints. It uses no proxy from
// the environment, asks for no compression, and follows nothing.
func Transport(connect time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 15 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: connect,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256,
		// uvicorn, which most engines serve with, closes connections that
		// idled for 5 s. A POST sent into that moment fails, so ours are
		// closed before.
		IdleConnTimeout: 4 * time.Second,
		// Prompts are long; the default of 4 KiB costs a system call for each.
		WriteBufferSize:        32 << 10,
		ReadBufferSize:         16 << 10,
		MaxResponseHeaderBytes: 1 << 20,
	}
}
