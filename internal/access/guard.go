package access

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Config is what a listener asks of those who use it, and what those show.
type Config struct {
	TLS       TLS
	TokenFile string // holds the token; empty: none is asked for

	// OpenPaths are those that anyone may ask for over HTTP who can connect.
	OpenPaths []string
}

// Open reports whether anyone may use the listener, in plain text.
func (c *Config) Open() bool { return c.TLS.off() && c.TokenFile == "" }

// Reasons of refusals.
const (
	refusedToken       = "token"
	refusedCertificate = "certificate"
)

// Guard stands before a listener. A nil Guard lets everyone in.
type Guard struct {
	tls     *tls.Config // nil: plain text
	mutual  bool
	token   *Token // nil: none is asked for
	open    []string
	refused *prometheus.CounterVec
}

// Warn says in the log what is left open on a listener at an address.
func (g *Guard) Warn(at net.Addr, keys string, log *slog.Logger) {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return
	}
	switch {
	case g == nil || g.token == nil && !g.mutual:
		log.Warn("a listener can be reached from other machines and asks nobody who they are; "+keys+" change that", "address", at.String())
	case g.tls == nil:
		log.Warn("a listener can be reached from other machines and is asked in plain text, tokens included; "+keys+" change that", "address", at.String())
	}
}

// GuardHTTP makes the guard of a listener that serves HTTP, nil where anyone
// may use it; Listener and Handler set it up. Metrics go to reg.
//
// Errors begin with cert_file, ca_file or token_file.
func GuardHTTP(c Config, log *slog.Logger, reg prometheus.Registerer) (*Guard, error) {
	return newGuard(c, true, log, reg)
}

// GuardGRPC makes the guard of a gRPC server, nil where anyone may use it;
// ServerOptions sets it up.
//
// Errors begin with cert_file, ca_file or token_file.
func GuardGRPC(c Config, log *slog.Logger, reg prometheus.Registerer) (*Guard, error) {
	return newGuard(c, false, log, reg)
}

func newGuard(c Config, lenient bool, log *slog.Logger, reg prometheus.Registerer) (*Guard, error) {
	if c.Open() {
		return nil, nil
	}
	g := &Guard{mutual: c.TLS.Mode == Mutual, open: c.OpenPaths}
	var err error
	if g.tls, err = c.TLS.ServerConfig(lenient, log); err != nil {
		return nil, err
	}
	if g.token, err = OpenToken(c.TokenFile, log); err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	listener := "grpc"
	if lenient {
		listener = "admin"
	}
	g.refused = promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name:        "spillway_access_refused_total",
		Help:        "Requests refused because they showed no token or certificate that is accepted, by what was missing.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, []string{"reason"})
	for _, why := range []string{refusedToken, refusedCertificate} {
		g.refused.WithLabelValues(why)
	}
	return g, nil
}

// Listener speaks TLS on l where that is asked for.
func (g *Guard) Listener(l net.Listener) net.Listener {
	if g == nil || g.tls == nil {
		return l
	}
	return tls.NewListener(l, g.tls)
}

// Handler lets only those to h who show what is asked for, but for the paths
// that are open. The token may also come as the password of any user, for browsers
// ask a person for that.
func (g *Guard) Handler(h http.Handler) http.Handler {
	if g == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains(g.open, r.URL.Path):
		case g.mutual && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0):
			g.refuse(w, r, refusedCertificate)
			http.Error(w, "a certificate is asked for, and none was shown", http.StatusForbidden)
			return
		case g.token != nil && !g.token.Accepts(shownIn(r)):
			g.refuse(w, r, refusedToken)
			w.Header().Add("WWW-Authenticate", `Basic realm="spillway: any user, the token as password", charset="UTF-8"`)
			w.Header().Add("WWW-Authenticate", `Bearer realm="spillway"`)
			http.Error(w, "a token is asked for: Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// unreadWithin is how long the rest of a refused request's body is waited for:
// net/http wants it before it sends the answer.
const unreadWithin = time.Second

// refuse counts a refusal, and bounds how long it may take.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, why string) {
	g.refused.WithLabelValues(why).Inc()
	if r.ContentLength != 0 {
		// Writers that know no deadlines (in tests) do without.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadWithin))
	}
}

// shownIn is the token that a request shows, "" for none.
func shownIn(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	return bearerOf(r.Header.Get("Authorization"))
}

// healthService may be asked by all who can connect: probes carry no token.
const healthService = "/grpc.health.v1.Health/"

// ServerOptions are those of a gRPC server that only those may use who show
// what is asked for; its health may be asked without a token.
func (g *Guard) ServerOptions() []grpc.ServerOption {
	if g == nil {
		return nil
	}
	var options []grpc.ServerOption
	if g.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(g.tls)))
	}
	if g.token != nil {
		// Not an interceptor, for handlers that are registered by hand pass those by.
		options = append(options, grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
			if strings.HasPrefix(call.FullMethodName, healthService) {
				return ctx, nil
			}
			if shown := call.Header.Get("authorization"); len(shown) != 1 || !g.token.Accepts(bearerOf(shown[0])) {
				g.refused.WithLabelValues(refusedToken).Inc()
				return nil, status.Error(codes.Unauthenticated, "a token is asked for, and none that is accepted was shown")
			}
			return ctx, nil
		}))
	}
	return options
}
