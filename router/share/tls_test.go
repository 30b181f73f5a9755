package share_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/router/share"
)

// authority signs certificates for the routers of a test.
type authority struct {
	t    *testing.T
	dir  string
	name string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), name: name}
	a.key, a.cert = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

// sign makes a certificate, by itself where there is no parent, and writes both
// files.
func (a *authority) sign(template, parent *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: a.name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer := a.key
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
	what := "router"
	if template.IsCA {
		what = "ca"
	}
	a.write(what+".crt", "CERTIFICATE", der)
	a.write(what+".key", "PRIVATE KEY", private)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

func (a *authority) write(file, kind string, der []byte) {
	if err := os.WriteFile(a.file(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// tls is the configuration of a router whose certificate this authority signed.
func (a *authority) tls(mode string) access.TLS {
	a.sign(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("10.0.0.2")},
	}, a.cert)
	return access.TLS{Mode: mode, CertFile: a.file("router.crt"), KeyFile: a.file("router.key"), CAFile: a.file("ca.crt")}
}

// Who can show no certificate that the other believes neither follows nor is
// followed.
func TestTLS(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		good, bad := newAuthority(t, "good"), newAuthority(t, "bad")
		for _, c := range []struct {
			name           string
			a, b           access.TLS
			aHears, bHears string
		}{
			{"mutual", good.tls(access.Mutual), good.tls(access.Mutual), "connected", "connected"},
			{"server", good.tls(access.Server), good.tls(access.Server), "connected", "connected"},
			{"another authority", good.tls(access.Mutual), bad.tls(access.Mutual), "silent", "silent"},
			{"plain text asks", good.tls(access.Mutual), access.TLS{Mode: access.Off}, "silent", "silent"},
			{"who follows shows none", good.tls(access.Mutual), good.tls(access.Server), "connected", "silent"},
		} {
			a := join(t, n, 1, newFleet(1, "x"), func(s *share.Config) { s.TLS = c.a }, 2)
			b := join(t, n, 2, newFleet(1, "x"), func(s *share.Config) { s.TLS = c.b }, 1)
			pass(5 * time.Second)
			if a.peer(2).State != c.aHears || b.peer(1).State != c.bHears {
				t.Errorf("%s: %+v, %+v, want %s and %s", c.name, a.peer(2), b.peer(1), c.aHears, c.bHears)
			}
			a.stop()
			b.stop()
		}
	})
}

// A router that runs goes by the files as they are: another authority signs for
// all from now on.
func TestTLSFilesAreRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		former := newAuthority(t, "former")
		files := former.tls(access.Mutual)
		a := join(t, n, 1, newFleet(1, "x"), func(s *share.Config) { s.TLS = files })
		soon() // it has read them
		next := newAuthority(t, "next")
		renewed := next.tls(access.Mutual)
		for from, to := range map[string]string{renewed.CertFile: files.CertFile, renewed.KeyFile: files.KeyFile, renewed.CAFile: files.CAFile} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b := join(t, n, 2, newFleet(1, "x"), func(s *share.Config) { s.TLS = renewed }, 1)
		pass(2 * time.Second)
		if b.peer(1).State != "connected" {
			t.Errorf("with renewed files: %+v", b.peer(1))
		}
		a.stop()
	})
}
