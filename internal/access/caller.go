package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Caller shows what a guarded listener asks for. A nil Caller shows nothing.
type Caller struct {
	tls   TLS
	token *Token
}

// NewCaller makes the caller of a listener that asks for so much; nil where it
// asks for nothing. Its files are read anew for each connection.
//
// Errors begin with cert_file, ca_file or token_file.
func NewCaller(c Config, log *slog.Logger) (*Caller, error) {
	if c.Open() {
		return nil, nil
	}
	if _, err := c.TLS.ClientConfig(""); err != nil {
		return nil, err
	}
	if c.TLS.Mode == Mutual {
		if _, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile); err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
	}
	token, err := OpenToken(c.TokenFile, log)
	if err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	return &Caller{c.TLS, token}, nil
}

// DialOptions are those of a gRPC client.
func (c *Caller) DialOptions() []grpc.DialOption {
	if c == nil {
		return nil
	}
	var options []grpc.DialOption
	if !c.tls.off() {
		options = append(options, grpc.WithTransportCredentials(&freshly{TransportCredentials: credentials.NewTLS(nil), tls: &c.tls}))
	}
	if c.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(perCall{c.token}))
	}
	return options
}

// ErrPlainText is why nobody was asked: TLS is to be spoken, and the address
// begins with http://.
var ErrPlainText = errors.New("TLS is to be spoken there; want https://")

// HTTPClient is a client that shows the same. With TLS it asks nobody in plain
// text: ErrPlainText.
func (c *Caller) HTTPClient() (*http.Client, error) {
	if c == nil {
		return http.DefaultClient, nil
	}
	protection, err := c.tls.ClientConfig("")
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = protection
	return &http.Client{
		Transport:     showing{transport, c.token, protection != nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // to nobody else
	}, nil
}

// showing adds the token to what is asked.
type showing struct {
	http.RoundTripper
	token *Token
	tls   bool
}

// RoundTrip implements http.RoundTripper.
func (s showing) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.tls && r.URL.Scheme != "https" {
		return nil, ErrPlainText
	}
	if s.token != nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", s.token.show())
	}
	return s.RoundTripper.RoundTrip(r)
}

// perCall adds the token to each call.
type perCall struct{ token *Token }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (p perCall) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": p.token.show()}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: whether a
// network may see the token is for who configures both.
func (perCall) RequireTransportSecurity() bool { return false }

// freshly are TLS credentials whose files are read for each connection.
type freshly struct {
	credentials.TransportCredentials
	tls *TLS
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *freshly) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, err := f.tls.ClientConfig("")
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(c).ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (f *freshly) Clone() credentials.TransportCredentials {
	return &freshly{f.TransportCredentials.Clone(), f.tls}
}
