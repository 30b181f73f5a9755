package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// Ways to protect connections.
const (
	Off    = "off"    // plain text
	Server = "server" // who is asked shows a certificate
	Mutual = "mutual" // who asks shows one too
)

// TLS says how connections are protected. Files are PEM and may be renewed
// while they are in use.
type TLS struct {
	Mode     string // Off, Server or Mutual; empty is Off
	CertFile string // the chain of this process
	KeyFile  string
	CAFile   string // who signs for the others; empty: whom the system trusts, and not for Mutual
}

// Check reports the first setting that can't work, by its key: that of the mode
// is key, those of the files begin with prefix. The files are not read, and
// those of who is asked are not missed where this process only asks.
func (t *TLS) Check(key, prefix string, asksOnly bool) error {
	switch t.Mode {
	case "", Off:
		return nil
	case Server, Mutual:
	default:
		return fmt.Errorf("%s: %q is none of %s, %s, %s", key, t.Mode, Off, Server, Mutual)
	}
	if (t.CertFile == "") != (t.KeyFile == "") || t.CertFile == "" && (!asksOnly || t.Mode == Mutual) {
		name := "cert_file"
		if t.CertFile != "" {
			name = "key_file"
		}
		return fmt.Errorf("%s%s: is empty; %s %q needs one", prefix, name, key, t.Mode)
	}
	if t.Mode == Mutual && t.CAFile == "" {
		return fmt.Errorf("%sca_file: is empty; %s %q needs one, to know the others by", prefix, key, t.Mode)
	}
	return nil
}

func (t *TLS) off() bool { return t.Mode == "" || t.Mode == Off }

// ServerConfig is the configuration of who is asked; nil for plain text. With
// lenient, who shows no certificate is let in in every mode, for a handler to
// judge; one that is shown must be good.
//
// Errors begin with cert_file or ca_file.
func (t *TLS) ServerConfig(lenient bool, log *slog.Logger) (*tls.Config, error) {
	if t.off() {
		return nil, nil
	}
	own, err := NewCertificate(t.CertFile, t.KeyFile, log) // now rather than at the first connection
	if err != nil {
		return nil, fmt.Errorf("cert_file: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: own.Get}
	if t.Mode != Mutual {
		return c, nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if lenient {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	believed := &kept[*x509.CertPool]{what: "ca_file", files: []string{t.CAFile}, load: t.authorities, log: log}
	if err := believed.begin(); err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	c.ClientCAs = believed.now()
	first := c.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := first.Clone()
		now.ClientCAs = believed.now()
		return now, nil
	}
	return c, nil
}

// ClientConfig is the configuration for one connection to a host; nil for plain
// text. An empty host is left to who connects. The files are read now, and those
// of the certificate when it is shown: while they can't be used nobody is reached.
//
// Errors begin with cert_file or ca_file.
func (t *TLS) ClientConfig(host string) (*tls.Config, error) {
	if t.off() {
		return nil, nil
	}
	pool, err := t.authorities()
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: pool}
	if t.Mode == Mutual {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("cert_file: %w", err)
			}
			return &own, nil
		}
	}
	return c, nil
}

// authorities are those that sign for others; nil: whom the system trusts.
func (t *TLS) authorities() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", t.CAFile)
	}
	return pool, nil
}

// Certificate is one that is read again when its files change, so that whoever
// renews it need not restart the process. It is safe for concurrent use.
type Certificate struct{ kept kept[*tls.Certificate] }

// NewCertificate reads a certificate and its key, PEM. What is wrong with them
// later is logged, and the last good one stays.
func NewCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{kept[*tls.Certificate]{what: "a certificate", files: []string{certFile, keyFile}, log: log, load: func() (*tls.Certificate, error) {
		own, err := tls.LoadX509KeyPair(certFile, keyFile)
		return &own, err
	}}}
	return c, c.kept.begin()
}

// Get is the present certificate, as tls.Config.GetCertificate wants it.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.kept.now(), nil
}
