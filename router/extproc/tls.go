package extproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"github.com/spillway-llm/spillway/internal/access"
)

// Ways to speak TLS.
const (
	TLSOff        = "off"         // plain text
	TLSSelfSigned = "self-signed" // a certificate made at the start, which proxies can't verify
	TLSFiles      = "files"       // a certificate read from files
)

// TLS says how connections are protected. Gateways speak TLS to a picker, most
// of them without looking at its certificate.
type TLS struct {
	Mode     string // TLSOff, TLSSelfSigned or TLSFiles
	CertFile string // PEM, the chain
	KeyFile  string // PEM
}

func (t *TLS) check() error {
	switch t.Mode {
	case TLSOff, TLSSelfSigned:
		if t.CertFile != "" || t.KeyFile != "" {
			return fmt.Errorf("extproc_tls: is %q, but extproc_cert_file or extproc_key_file is given; want %q", t.Mode, TLSFiles)
		}
	case TLSFiles:
		if t.CertFile == "" {
			return fmt.Errorf("extproc_cert_file: is empty; extproc_tls %q needs one", TLSFiles)
		}
		if t.KeyFile == "" {
			return fmt.Errorf("extproc_key_file: is empty; extproc_tls %q needs one", TLSFiles)
		}
	default:
		return fmt.Errorf("extproc_tls: %q is none of %s, %s, %s", t.Mode, TLSOff, TLSSelfSigned, TLSFiles)
	}
	return nil
}

// config is the TLS configuration, nil for plain text.
func (t *TLS) config(log *slog.Logger) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	switch t.Mode {
	case TLSOff:
		return nil, nil
	case TLSSelfSigned:
		certificate, err := selfSigned(time.Now())
		if err != nil {
			return nil, fmt.Errorf("extproc_tls: make a certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{certificate}
		return c, nil
	}
	own, err := access.NewCertificate(t.CertFile, t.KeyFile, log)
	if err != nil {
		return nil, fmt.Errorf("extproc_cert_file: %w", err)
	}
	c.GetCertificate = own.Get
	return c, nil
}

// selfSignedFor is how long a certificate made at the start is good.
const selfSignedFor = 10 * 365 * 24 * time.Hour

func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Spillway"}},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(selfSignedFor),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
