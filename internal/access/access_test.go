package access_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillway-llm/spillway/internal/access"
)

var discard = slog.New(slog.DiscardHandler)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.issue()
	return a
}

// issue writes a new certificate of the process.
func (a *authority) issue() {
	a.sign("own", &x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

func (a *authority) sign(name string, template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		put(a.t, a.file(file), string(pem.EncodeToMemory(block)))
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) tls(mode string) access.TLS {
	return access.TLS{Mode: mode, CertFile: a.file("own.crt"), KeyFile: a.file("own.key"), CAFile: a.file("ca.crt")}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	secret = "a-token-of-the-house"
	other  = "another-token-of-ours"
)

func tokenFile(t *testing.T, lines ...string) string {
	file := filepath.Join(t.TempDir(), "token")
	put(t, file, strings.Join(lines, "\n")+"\n")
	return file
}

// serve runs an HTTP listener behind a guard and returns its URL.
func serve(t *testing.T, c access.Config, reg *prometheus.Registry) string {
	t.Helper()
	guard, err := access.GuardHTTP(c, discard, reg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:  guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "in") })),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(guard.Listener(listener)) })
	t.Cleanup(func() { server.Close(); serving.Wait() })
	scheme := "http://"
	if c.TLS.Mode == access.Server || c.TLS.Mode == access.Mutual {
		scheme = "https://"
	}
	return scheme + listener.Addr().String()
}

// visit asks with what a caller shows; 0 is no answer.
func visit(t *testing.T, url string, shows access.Config) int {
	t.Helper()
	caller, err := access.NewCaller(shows, discard)
	if err != nil {
		t.Fatal(err)
	}
	client, err := caller.HTTPClient()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestHTTP(t *testing.T) {
	good, bad := newAuthority(t), newAuthority(t)
	file, wrong := tokenFile(t, secret, other), tokenFile(t, "a-token-of-somebody-else")
	second := tokenFile(t, other)
	open := []string{"/healthz"}
	server := access.TLS{Mode: access.Server, CAFile: good.file("ca.crt")}
	for _, c := range []struct {
		name         string
		asks, shows  access.Config
		status, open int
	}{
		{"nothing", access.Config{}, access.Config{}, 200, 200},
		{"the token", access.Config{TokenFile: file}, access.Config{TokenFile: file}, 200, 200},
		{"the second token", access.Config{TokenFile: file}, access.Config{TokenFile: second}, 200, 200},
		{"no token", access.Config{TokenFile: file}, access.Config{}, 401, 200},
		{"a wrong token", access.Config{TokenFile: file}, access.Config{TokenFile: wrong}, 401, 200},
		{"server", access.Config{TLS: good.tls(access.Server)}, access.Config{TLS: server}, 200, 200},
		{"server, another authority", access.Config{TLS: bad.tls(access.Server)}, access.Config{TLS: server}, 0, 0},
		{"mutual", access.Config{TLS: good.tls(access.Mutual)}, access.Config{TLS: good.tls(access.Mutual)}, 200, 200},
		{"mutual, no certificate", access.Config{TLS: good.tls(access.Mutual)}, access.Config{TLS: server}, 403, 200},
		{"mutual, another's certificate", access.Config{TLS: good.tls(access.Mutual)},
			access.Config{TLS: access.TLS{Mode: access.Mutual, CertFile: bad.file("own.crt"), KeyFile: bad.file("own.key"), CAFile: good.file("ca.crt")}}, 0, 0},
		{"both", access.Config{TLS: good.tls(access.Mutual), TokenFile: file}, access.Config{TLS: good.tls(access.Mutual), TokenFile: file}, 200, 200},
		{"both, no token", access.Config{TLS: good.tls(access.Mutual), TokenFile: file}, access.Config{TLS: good.tls(access.Mutual)}, 401, 200},
	} {
		c.asks.OpenPaths = open
		url := serve(t, c.asks, prometheus.NewRegistry())
		if got := visit(t, url+"/console", c.shows); got != c.status {
			t.Errorf("%s: %d, want %d", c.name, got, c.status)
		}
		if got := visit(t, url+"/healthz", c.shows); got != c.open {
			t.Errorf("%s: health says %d, want %d", c.name, got, c.open)
		}
	}
}

// Who is to speak TLS shows the token to nobody in plain text.
func TestNotInPlainText(t *testing.T) {
	house := newAuthority(t)
	var shown []string
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = append(shown, r.Header.Get("Authorization")) }))
	caller, err := access.NewCaller(access.Config{TLS: access.TLS{Mode: access.Server, CAFile: house.file("ca.crt")}, TokenFile: tokenFile(t, secret)}, discard)
	if err != nil {
		t.Fatal(err)
	}
	client, err := caller.HTTPClient()
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Get(plain.URL)
	plain.Close()
	if !errors.Is(err, access.ErrPlainText) || len(shown) != 0 {
		t.Errorf("error %v; was shown %q", err, shown)
	}
}

// Who is refused keeps no connection by a body that never comes.
func TestRefusedAreLetGo(t *testing.T) {
	url := serve(t, access.Config{TokenFile: tokenFile(t, secret)}, prometheus.NewRegistry())
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /drill HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfor")
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	answer, err := io.ReadAll(conn) // to the end: the connection is closed
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
		t.Errorf("%q %v", answer, err)
	}
}

// A browser shows the token as a password.
func TestPassword(t *testing.T) {
	reg := prometheus.NewRegistry()
	guard, err := access.GuardHTTP(access.Config{TokenFile: tokenFile(t, secret)}, discard, reg)
	if err != nil {
		t.Fatal(err)
	}
	handler := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for password, want := range map[string]int{secret: 200, secret + "x": 401, "": 401} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth("anyone", password)
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d, want %d", password, w.Code, want)
		}
		if asked := strings.Join(w.Header().Values("WWW-Authenticate"), ", "); want == 401 && (!strings.Contains(asked, "Basic") || !strings.Contains(asked, "Bearer")) {
			t.Errorf("asks for %q", asked)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0.0
	for _, m := range families[0].Metric {
		refused += m.GetCounter().GetValue()
	}
	if refused != 2 {
		t.Errorf("%v refusals were counted, want 2", refused)
	}
}

// A token and a certificate are replaced while they are in use; what can't be
// used is not.
func TestRenewal(t *testing.T) { synctest.Test(t, testRenewal) }

func testRenewal(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	file := tokenFile(t, secret)
	token, err := access.OpenToken(file, log)
	if err != nil {
		t.Fatal(err)
	}
	later := func() { time.Sleep(2 * time.Second) } // of the bubble, than the file was looked at last
	put(t, file, "short\n")
	later()
	if !token.Accepts(secret) || token.Accepts("short") {
		t.Error("a token that is too short took the place of a good one")
	}
	if !strings.Contains(logged.String(), "a token changed and can't be used") || strings.Contains(logged.String(), "=short") {
		t.Errorf("logged %s", &logged)
	}
	put(t, file, other+"\n")
	later()
	if token.Accepts(secret) || !token.Accepts(other) {
		t.Error("the file's new token is not the one that is accepted")
	}

	house := newAuthority(t)
	own, err := access.NewCertificate(house.file("own.crt"), house.file("own.key"), log)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := own.Get(nil)
	put(t, house.file("own.key"), "no key")
	if kept, _ := own.Get(nil); kept != first {
		t.Error("a key that is none took the place of a good one")
	}
	house.issue()
	if renewed, _ := own.Get(nil); renewed == first {
		t.Error("a renewed certificate is not shown")
	}
}

// Whom a listener believes is renewed while it is in use; a file that can't be
// used changes nothing, and is complained of once.
func TestAuthorities(t *testing.T) {
	var logged bytes.Buffer
	house, next := newAuthority(t), newAuthority(t)
	asks := house.tls(access.Mutual)
	asked, err := asks.ServerConfig(false, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	believed := func() *x509.CertPool {
		t.Helper()
		c, err := asked.GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.ClientCAs
	}
	first := believed()
	put(t, house.file("ca.crt"), "half a certificate")
	if !believed().Equal(first) {
		t.Error("a file without certificates took the place of a good one")
	}
	if err := os.Remove(house.file("ca.crt")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !believed().Equal(first) {
			t.Error("a file that is gone took the place of a good one")
		}
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 2 {
		t.Errorf("%d complaints of two failures: %s", n, &logged)
	}
	text, err := os.ReadFile(next.file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, house.file("ca.crt"), string(text))
	if believed().Equal(first) {
		t.Error("renewed authorities are not believed")
	}
}

func TestGRPC(t *testing.T) {
	house := newAuthority(t)
	file := tokenFile(t, secret)
	asks := access.Config{TLS: house.tls(access.Mutual), TokenFile: file}
	guard, err := access.GuardGRPC(asks, discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(guard.ServerOptions()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Call", // passes interceptors by
		Handler: func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return new(emptypb.Empty), read(new(emptypb.Empty))
		},
	}}}, nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })

	for _, c := range []struct {
		name         string
		shows        access.Config
		call, health codes.Code
	}{
		{"both", asks, codes.OK, codes.OK},
		{"no token", access.Config{TLS: asks.TLS}, codes.Unauthenticated, codes.OK},
		{"a wrong token", access.Config{TLS: asks.TLS, TokenFile: tokenFile(t, other)}, codes.Unauthenticated, codes.OK},
		{"no certificate", access.Config{TLS: access.TLS{Mode: access.Server, CAFile: house.file("ca.crt")}, TokenFile: file}, codes.Unavailable, codes.Unavailable},
		{"plain text", access.Config{TokenFile: file}, codes.Unavailable, codes.Unavailable},
	} {
		caller, err := access.NewCaller(c.shows, discard)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(listener.Addr().String(), append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, caller.DialOptions()...)...)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Invoke(t.Context(), "/test.Service/Call", new(emptypb.Empty), new(emptypb.Empty))
		if got := status.Code(err); got != c.call {
			t.Errorf("%s: %v, want %v", c.name, err, c.call)
		}
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), new(healthpb.HealthCheckRequest))
		if got := status.Code(err); got != c.health {
			t.Errorf("%s: health: %v, want %v", c.name, err, c.health)
		}
		conn.Close()
	}
}

// Mistakes are named by their keys, and secrets are not repeated.
func TestMistakes(t *testing.T) {
	house := newAuthority(t)
	for _, c := range []struct {
		name string
		tls  access.TLS
		asks bool
		key  string
	}{
		{"a mode that is none", access.TLS{Mode: "on"}, false, "x_tls"},
		{"no certificate", access.TLS{Mode: access.Server}, false, "y_cert_file"},
		{"no key", access.TLS{Mode: access.Server, CertFile: "a"}, true, "y_key_file"},
		{"no authority", access.TLS{Mode: access.Mutual, CertFile: "a", KeyFile: "b"}, false, "y_ca_file"},
		{"nothing to show", access.TLS{Mode: access.Mutual, CAFile: "a"}, true, "y_cert_file"},
		{"who only asks", access.TLS{Mode: access.Server}, true, ""},
		{"off", access.TLS{Mode: access.Off}, false, ""},
	} {
		err := c.tls.Check("x_tls", "y_", c.asks)
		if c.key == "" && err != nil || c.key != "" && (err == nil || !strings.HasPrefix(err.Error(), c.key+": ")) {
			t.Errorf("%s: %v, want one about %q", c.name, err, c.key)
		}
	}
	for _, c := range []struct {
		name string
		with access.Config
		key  string
	}{
		{"no file", access.Config{TokenFile: filepath.Join(t.TempDir(), "none")}, "token_file"},
		{"short", access.Config{TokenFile: tokenFile(t, "hunter2")}, "token_file"},
		{"empty", access.Config{TokenFile: tokenFile(t, "")}, "token_file"},
		{"of two words", access.Config{TokenFile: tokenFile(t, "hunter2 "+secret)}, "token_file"},
		{"no certificate", access.Config{TLS: access.TLS{Mode: access.Mutual, CertFile: "/none", KeyFile: "/none", CAFile: house.file("ca.crt")}}, "cert_file"},
		{"no PEM", access.Config{TLS: access.TLS{Mode: access.Mutual, CertFile: house.file("own.crt"), KeyFile: house.file("own.key"), CAFile: tokenFile(t, secret)}}, "ca_file"},
	} {
		_, asked := access.GuardHTTP(c.with, discard, nil)
		_, shown := access.NewCaller(c.with, discard)
		for _, err := range []error{asked, shown} {
			if err == nil || !strings.HasPrefix(err.Error(), c.key+": ") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v, want one about %q", c.name, err, c.key)
			}
		}
	}
}
