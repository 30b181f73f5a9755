package extproc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
	"github.com/spillway-llm/spillway/router/pool"
)

func TestHealth(t *testing.T) {
	w := newWorld(t, 2, nil)
	ask := func(service string) string {
		t.Helper()
		s, err := w.proxy.Health(within(t), service)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	must := func(when, want string) {
		t.Helper()
		for _, service := range []string{"", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"} {
			if got := ask(service); got != want {
				t.Errorf("%s, %q is %s, want %s", when, service, got, want)
			}
		}
		if got := ask("liveness"); got != "SERVING" {
			t.Errorf("%s, liveness is %s", when, got)
		}
	}
	must("with endpoints", "SERVING")
	w.pool.change(func(e *pool.State) { e.Healthy = false })
	must("without healthy endpoints", "NOT_SERVING")
	w.pool.change(func(e *pool.State) { e.Healthy = true })
	must("with endpoints again", "SERVING")
	w.picker.Drain()
	must("on its way out", "NOT_SERVING")
	if _, err := w.proxy.Health(within(t), "unheard of"); status.Code(err) != codes.NotFound {
		t.Errorf("a service unheard of: %v", err)
	}
}

// A proxy that shows no response bodies gets its endpoint, and rows without
// latencies.
func TestHeadersAlone(t *testing.T) {
	told := post(streaming)
	told.Modes = &extproctest.Modes{Request: "FULL_DUPLEX_STREAMED", Response: "NONE"}
	for _, c := range []struct {
		name    string
		request extproctest.Request
		config  func(*extproc.Config)
		status  int
		want    feature.Status
	}{
		{"by the proxy's configuration", told, nil, 200, feature.OK},
		{"by the picker's", post(streaming), func(c *extproc.Config) { c.Response = extproc.ResponseHeaders }, 200, feature.OK},
		{"a failure", told, nil, 502, feature.UpstreamError},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, c.config)
			s, p := w.pick(t, c.request)
			response := extproctest.Response{Status: c.status, Body: []byte(answer)}
			if err := s.Send(response.Messages()[0]); err != nil {
				t.Fatal(err)
			}
			m, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if asked := m.GetModeOverride() != nil; asked != (c.config != nil) {
				t.Errorf("response headers are answered with %v", m)
			}
			if got := w.inFlight(); got[p.Destinations[0]] != 1 {
				t.Errorf("in flight until the stream ends: %v", got)
			}
			if err := s.End(); err != nil {
				t.Error(err)
			}
			if o := w.outcome(t); o.Status != c.want || o.HTTPStatus != c.status || !feature.IsUnknown(o.TTFT) || !feature.IsUnknown(o.E2E) || !feature.IsUnknown(o.CensoredAt) {
				t.Errorf("outcome %+v", o)
			}
			w.idle(t)
		})
	}
}

// A proxy that is asked for headers alone and shows bodies all the same gets
// them back.
func TestUnaskedBodiesPass(t *testing.T) {
	w := newWorld(t, 2, func(c *extproc.Config) { c.Response = extproc.ResponseHeaders })
	s, _ := w.pick(t, post(streaming))
	if back, err := s.Answer(events(answer)); err != nil || string(back) != answer {
		t.Errorf("passed as %q, %v", back, err)
	}
	if o := w.outcome(t); o.Status != feature.OK || !feature.IsUnknown(o.TTFT) || !feature.IsUnknown(o.E2E) {
		t.Errorf("outcome %+v", o)
	}
}

// In a mode without request bodies requests go by load, at once.
func TestRequestsWhoseBodyIsNotShownGoByLoad(t *testing.T) {
	w := newWorld(t, 2, nil)
	r := post(streaming)
	r.Modes = &extproctest.Modes{Request: "NONE", Response: "FULL_DUPLEX_STREAMED"}
	headers := r.Messages()[0]
	r.Body = nil
	s := w.open(t)
	if err := s.Send(headers); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Picked(&r); err != nil || len(p.Destinations) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

// Streams that are silent for too long are ended, as what they are.
func TestSilence(t *testing.T) {
	waits := extproc.Defaults().Timeouts
	request := post(streaming)
	response := events(answer)
	messages := append(request.Messages(), response.Messages()...)
	for _, c := range []struct {
		name    string
		send    int
		receive int
		wait    time.Duration
		status  int
	}{
		{"in the request", 1, 0, waits.Body, 0},
		{"before the response", 2, 2, waits.FirstByte, 504},
		{"in the response", 3, 3, waits.Idle, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			s := w.open(t)
			for _, m := range messages[:c.send] {
				if err := s.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			for range c.receive {
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			for w.count(t, "spillway_router_extproc_streams") == 0 {
				<-time.After(time.Millisecond)
			}
			w.picker.Sweep(time.Now().Add(c.wait - 5*time.Second))
			if n := w.count(t, "spillway_router_extproc_silent_total"); n != 0 {
				t.Fatal("ended too early")
			}
			ended := make(chan error, 1)
			go func() {
				_, err := s.Recv()
				ended <- err
			}()
			ctx := within(t)
			for done := false; !done; {
				w.picker.Sweep(time.Now().Add(c.wait + time.Second)) // the stream may yet have to say what it waits for
				select {
				case err := <-ended:
					if done = true; status.Code(err) != codes.Canceled {
						t.Errorf("ended with %v", err)
					}
				case <-ctx.Done():
					t.Fatal("the stream goes on")
				case <-time.After(time.Millisecond):
				}
			}
			w.quiet(t)
			w.idle(t)
			if c.status == 0 {
				if n := w.count(t, "spillway_router_extproc_refusals_total", "body_timeout"); n != 1 {
					t.Errorf("%v are counted", n)
				}
				return
			}
			if o := w.outcome(t); o.Status != feature.UpstreamTimeout || o.HTTPStatus != c.status || !(o.CensoredAt >= 0) {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// A picker that stops lets streams end; those that go on are recorded as lost.
func TestStopping(t *testing.T) {
	w := newWorld(t, 2, nil)
	s, _ := w.pick(t, post(streaming))
	soon, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- w.picker.Shutdown(soon) }()
	back, err := s.Answer(events(answer)) // goes on while the picker is stopping
	if err != nil || string(back) != answer {
		t.Errorf("passed as %q, %v", back, err)
	}
	if o := w.outcome(t); o.Status != feature.OK {
		t.Errorf("outcome %+v", o)
	}
	cancel()
	<-stopped

	w = newWorld(t, 2, nil)
	s, _ = w.pick(t, post(streaming))
	soon, cancel = context.WithCancel(t.Context())
	cancel()
	if err := w.picker.Shutdown(soon); err == nil {
		t.Error("nothing was open")
	}
	w.picker.Close()
	if o := w.outcome(t); o.Status != feature.Lost || o.HTTPStatus != 503 {
		t.Errorf("outcome %+v", o)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	w.idle(t)
}

func TestSelfSigned(t *testing.T) {
	w := newWorld(t, 1, func(c *extproc.Config) { c.TLS.Mode = extproc.TLSSelfSigned })
	if _, p := w.pick(t, post(streaming)); len(p.Destinations) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestCertificateOfFiles(t *testing.T) {
	cert, key := certificate(t)
	w := newWorld(t, 1, func(c *extproc.Config) {
		c.TLS = extproc.TLS{Mode: extproc.TLSFiles, CertFile: cert, KeyFile: key}
	})
	if _, p := w.pick(t, post(streaming)); len(p.Destinations) != 1 {
		t.Errorf("%+v", p)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		t.Error(err)
	}
}

// certificate writes a certificate and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "picker"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// A setting that can't work is refused by its key.
func TestCheckNamesTheKey(t *testing.T) {
	for key, change := range map[string]func(*extproc.Config){
		"max_body_bytes":       func(c *extproc.Config) { c.MaxBody = 0 },
		"extproc_max_streams":  func(c *extproc.Config) { c.MaxStreams = 0 },
		"extproc_destinations": func(c *extproc.Config) { c.Destinations = 0 },
		"extproc_response":     func(c *extproc.Config) { c.Response = "all" },
		"extproc_tls":          func(c *extproc.Config) { c.TLS.Mode = "on" },
		"extproc_cert_file":    func(c *extproc.Config) { c.TLS.Mode = extproc.TLSFiles },
		"extproc_key_file":     func(c *extproc.Config) { c.TLS = extproc.TLS{Mode: extproc.TLSFiles, CertFile: "x"} },
		"idle_timeout":         func(c *extproc.Config) { c.Timeouts.Idle = 0 },
	} {
		c := extproc.Defaults()
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
	c := extproc.Defaults()
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	c.TLS = extproc.TLS{Mode: extproc.TLSFiles, CertFile: "/nowhere.crt", KeyFile: "/nowhere.key"}
	if _, err := extproc.New(c, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil || !strings.HasPrefix(err.Error(), "extproc_cert_file:") {
		t.Errorf("a file that is not there: %v", err)
	}
}
