package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/access"
)

// AccessConfig says who may use the admin listeners and a predictor on TCP, and
// what this process shows where it asks. Files may be renewed while they are in
// use.
type AccessConfig struct {
	CertFile       string `yaml:"cert_file"`            // PEM, the chain of this process
	KeyFile        string `yaml:"key_file"`             // PEM
	CAFile         string `yaml:"ca_file"`              // PEM of who signs for the others; empty: whom the system trusts
	AdminTLS       string `yaml:"admin_tls"`            // of the admin listeners: off; server: they show the certificate; mutual: who asks shows one too
	AdminToken     string `yaml:"admin_token_file"`     // a file with a secret that who asks an admin listener must show, as bearer token or as password; a second line is accepted too; empty: none
	OpenMetrics    bool   `yaml:"open_metrics"`         // whether /metrics of the admin listeners may be asked without token and certificate; /healthz and /readyz always may
	PredictorTLS   string `yaml:"predictor_tls"`        // of a predictor on TCP and the routers that ask it: off, server or mutual
	PredictorToken string `yaml:"predictor_token_file"` // a file with the secret that those show; empty: none
}

func defaultAccess() AccessConfig {
	return AccessConfig{AdminTLS: access.Off, PredictorTLS: access.Off}
}

// admin is what the admin listeners ask for.
func (c *AccessConfig) admin() access.Config {
	open := []string{"/healthz", "/readyz"}
	if c.OpenMetrics {
		open = append(open, "/metrics")
	}
	return access.Config{TLS: c.tls(c.AdminTLS), TokenFile: c.AdminToken, OpenPaths: open}
}

// predictor is what a predictor on TCP asks for.
func (c *AccessConfig) predictor() access.Config {
	return access.Config{TLS: c.tls(c.PredictorTLS), TokenFile: c.PredictorToken}
}

func (c *AccessConfig) tls(mode string) access.TLS {
	return access.TLS{Mode: mode, CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile}
}

// check reports the first key that can't work in any process. What only those
// need that are asked, asked reports.
func (c *AccessConfig) check() error {
	for _, x := range []struct {
		key    string
		listen access.Config
	}{{"access.admin_tls", c.admin()}, {"access.predictor_tls", c.predictor()}} {
		if err := x.listen.TLS.Check(x.key, "access.", true); err != nil {
			return err
		}
	}
	return nil
}

// asked reports what a process lacks that has an admin listener at an address.
func (c *AccessConfig) asked(admin string) error {
	if admin == "" {
		return nil
	}
	listen := c.admin()
	return listen.TLS.Check("access.admin_tls", "access.", false)
}

// guardAdmin makes the guard of this process's admin listener at an address;
// nil where anyone may use it.
func (c *AccessConfig) guardAdmin(address string, log *slog.Logger, reg prometheus.Registerer) (*access.Guard, error) {
	if address == "" {
		return nil, nil
	}
	guard, err := access.GuardHTTP(c.admin(), log, reg)
	return guard, accessKey("admin", err)
}

// guardPredictor makes the guard of this process's predictor.
func (c *AccessConfig) guardPredictor(log *slog.Logger, reg prometheus.Registerer) (*access.Guard, error) {
	guard, err := access.GuardGRPC(c.predictor(), log, reg)
	return guard, accessKey("predictor", err)
}

// caller shows what a predictor at an address asks for: nothing on a Unix
// socket.
func (c *AccessConfig) caller(address string, log *slog.Logger) (*access.Caller, error) {
	if socketAddress(address) {
		return nil, nil
	}
	caller, err := access.NewCaller(c.predictor(), log)
	return caller, accessKey("predictor", err)
}

// accessKey gives an error of package access the whole key it is about.
func accessKey(listener string, err error) error {
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), "token_file"):
		return fmt.Errorf("access.%s_%w", listener, err)
	}
	return fmt.Errorf("access.%w", err)
}

// needless reports keys that a Unix socket makes useless: what it is for, who
// may open the file says.
func (c *AccessConfig) needless(key, address string) error {
	if asked := c.predictor(); socketAddress(address) && !asked.Open() {
		return errors.New("access.predictor_tls or access.predictor_token_file is given, but " + key +
			" is a Unix socket, for which they do nothing: who may open it, the permissions of its folder say; leave them out, or listen on host:port")
	}
	return nil
}
