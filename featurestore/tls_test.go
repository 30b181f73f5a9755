package featurestore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
)

// A server is believed where the URL's certificate authority signed for the very name
// that was asked for, and nowhere else.
func TestTLS(t *testing.T) {
	address, server := secure(t)
	other := filepath.Join(t.TempDir(), "other.crt")
	write(t, other, authority(t).pem)
	for _, c := range []struct{ name, host, query, says string }{
		{"verified", "localhost", "sslmode=verify-full&sslrootcert=" + server, ""},
		{"another name", "127.0.0.1", "sslmode=verify-full&sslrootcert=" + server, "127.0.0.1"},
		{"another authority", "localhost", "sslmode=verify-full&sslrootcert=" + other, "unknown authority"},
		{"no authority of ours", "localhost", "sslmode=verify-full", "unknown authority"},
		{"no certificate asked for", "127.0.0.1", "sslmode=require", ""},
		{"no such file", "localhost", "sslmode=verify-full&sslrootcert=/nowhere.crt", "DATABASE_URL"},
		{"in the open", "localhost", "sslmode=disable", "refused"}, // pg_hba.conf takes TLS alone
	} {
		t.Run(c.name, func(t *testing.T) {
			_, port, _ := net.SplitHostPort(address)
			s, err := featurestore.Open(t.Context(), fmt.Sprintf("postgres://spillway@%s:%s/spillway?%s", c.host, port, c.query), featurestore.Options{})
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("got %v, want one line with %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Migrate(t.Context()); err != nil { // on a connection of its own
				t.Error(err)
			}
			var encrypted bool
			err = s.Pool().QueryRow(t.Context(), `SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&encrypted)
			if err != nil || !encrypted {
				t.Errorf("encrypted: %v, %v", encrypted, err)
			}
		})
	}
}

// secure runs a Postgres that takes TLS alone, and returns its address and the file of
// who signed its certificate.
func secure(t *testing.T) (address, authorityFile string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "spillway-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the server's user enters it
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	free.Close()
	cluster, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: dir, Settings: map[string]string{
		"fsync": "off", "listen_addresses": "127.0.0.1", "port": port, "shared_buffers": "16MB",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ca := authority(t)
	certificate, key := ca.sign(t, "localhost")
	data := filepath.Join(dir, "pg")
	owner, err := os.Stat(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"server.crt": certificate, "server.key": key, "pg_hba.conf": []byte("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")} {
		path := filepath.Join(data, name)
		write(t, path, text)
		who := owner.Sys().(*syscall.Stat_t)
		if err := os.Chown(path, int(who.Uid), int(who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// The reload comes in its own time.
	for deadline := soon(t); ; {
		if c, err := pgx.Connect(t.Context(), "postgres://spillway@"+address+"/spillway?sslmode=require"); err == nil {
			c.Close(context.Background())
			break
		} else if deadline.Err() != nil {
			t.Fatal(err)
		}
	}
	authorityFile = filepath.Join(dir, "ca.crt")
	write(t, authorityFile, ca.pem)
	return address, authorityFile
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// signer signs certificates.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func authority(t *testing.T) *signer {
	t.Helper()
	s := &signer{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}}
	s.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, s.certificate, s.certificate, s.key.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	s.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return s
}

// sign makes a certificate for a name, and its key.
func (s *signer) sign(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	k := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, s.certificate, k.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
