package router_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// withPicker has a front door of proxies too.
func withPicker(urls ...string) router.Config {
	c := config(urls...)
	c.Picker, c.ExtProc = "127.0.0.1:0", extproc.Defaults()
	c.ExtProc.TLS.Mode = extproc.TLSOff
	return c
}

// pick asks the router where a request goes, as a proxy does.
func (r *running) pick(t *testing.T) (*extproctest.Proxy, *extproctest.Stream, extproctest.Picked) {
	t.Helper()
	proxy, err := extproctest.Dial(r.at.Picker.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	s, err := proxy.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Pick(extproctest.Post("/v1/chat/completions", []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return proxy, s, p
}

var whole = extproctest.Response{Status: 200, Body: []byte(token + ended)}

// Both front doors ask the same router: its ledger, its rows, its metrics.
func TestProxiesAreServedBesideClients(t *testing.T) {
	e := newEngine(t)
	close(e.finish)
	r := start(t, withPicker(e.URL))
	<-e.scrapes
	<-e.scrapes // what the first one said is published by now
	_, s, p := r.pick(t)
	if at := strings.TrimPrefix(e.URL, "http://"); len(p.Destinations) != 1 || p.Destinations[0] != at || string(p.Body) != body {
		t.Errorf("%+v, want %s", p, at)
	}
	if _, err := s.Answer(whole); err != nil {
		t.Fatal(err)
	}
	d, o := <-r.rows.decisions, <-r.rows.outcomes
	if d.ID != o.Decision || d.Chosen != "e1" || o.Status != feature.OK || !(o.TTFT > 0) {
		t.Errorf("decision %+v\noutcome %+v", d, o)
	}
	r.post(t)
	if d := <-r.rows.decisions; d.Chosen != "e1" {
		t.Errorf("decision %+v", d)
	}
	if _, metrics := r.get(t, "/metrics"); !strings.Contains(metrics, `spillway_router_extproc_requests_total{status="ok"} 1`) {
		t.Error("the request of the proxy is not counted")
	}
}

// A router that drains says so, and lets the streams of proxies end.
func TestDrainLetsProxiesEnd(t *testing.T) {
	e := newEngine(t)
	c := withPicker(e.URL)
	c.DrainDelay = time.Second
	r := start(t, c)
	<-e.scrapes
	<-e.scrapes
	proxy, s, _ := r.pick(t)
	health := func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		said, err := proxy.Health(ctx, "readiness")
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	if said := health(); said != "SERVING" {
		t.Errorf("before: %s", said)
	}
	r.stop()
	for began := time.Now(); health() != "NOT_SERVING"; {
		if time.Since(began) > c.DrainDelay {
			t.Fatal("health does not say that the router is on its way out")
		}
	}
	if back, err := s.Answer(whole); err != nil || string(back) != string(whole.Body) {
		t.Errorf("the stream was cut off: %v, %q", err, back)
	}
	if o := <-r.rows.outcomes; o.Status != feature.OK {
		t.Errorf("outcome %+v", o)
	}
}

func TestDrainCutsProxiesOff(t *testing.T) {
	e := newEngine(t)
	c := withPicker(e.URL)
	c.DrainTimeout = 20 * time.Millisecond
	r := start(t, c)
	_, s, _ := r.pick(t)
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if o := <-r.rows.outcomes; o.Status != feature.Lost || o.HTTPStatus != 503 {
		t.Errorf("outcome %+v", o)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}

func TestMistakesOfThePickerAreOneSentence(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, change := range map[string]func(*router.Config){
		"extproc_listen: " + taken.Addr().String() + " is in use by another process": func(c *router.Config) { c.Picker = taken.Addr().String() },
		`extproc_response: "all" is neither`:                                         func(c *router.Config) { c.ExtProc.Response = "all" },
		"extproc_cert_file: stat /nowhere.crt": func(c *router.Config) {
			c.ExtProc.TLS = extproc.TLS{Mode: extproc.TLSFiles, CertFile: "/nowhere.crt", KeyFile: "/nowhere.key"}
		},
	} {
		c := withPicker()
		c.Recorder = rows{}
		change(&c)
		if err := router.Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
