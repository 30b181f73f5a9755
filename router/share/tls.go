package share

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// server is the configuration of who is followed; nil for plain text.
func (t *TLS) server() (*tls.Config, error) {
	if t.Mode == TLSOff {
		return nil, nil
	}
	if _, err := t.certificate(); err != nil { // now rather than at the first stream
		return nil, err
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
	}
	if t.Mode == TLSMutual {
		pool, err := t.authorities()
		if err != nil {
			return nil, err
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
		first := c.Clone()
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pool, err := t.authorities()
			if err != nil {
				return nil, err
			}
			now := first.Clone()
			now.ClientCAs = pool
			return now, nil
		}
	}
	return c, nil
}

// client is the configuration for following a host; nil for plain text.
func (t *TLS) client(host string) (*tls.Config, error) {
	if t.Mode == TLSOff {
		return nil, nil
	}
	pool, err := t.authorities()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: pool}
	if t.Mode == TLSMutual {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() }
	}
	return c, nil
}

func (t *TLS) certificate() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("share_cert_file: %w", err)
	}
	return &c, nil
}

// authorities are those that sign for others; nil: whom the system trusts.
func (t *TLS) authorities() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("share_ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("share_ca_file: %s holds no certificate in PEM", t.CAFile)
	}
	return pool, nil
}
