package pool_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/router/pool"
)

// engine is one endpoint that a test plays.
type engine struct {
	page   string // of /metrics
	status int    // of /metrics; 0 is 200
	llms   string // body of /v1/models; empty: 404
	refuse bool   // no connection
	hang   bool   // accepts and says nothing
	asked  int    // times /metrics was asked for
}

// fleet answers for engines by host, without a network.
type fleet struct {
	mu      sync.Mutex
	engines map[string]*engine
}

func newFleet(hosts ...string) *fleet {
	f := &fleet{engines: map[string]*engine{}}
	for _, h := range hosts {
		f.engines[h] = &engine{page: page(1, 2, 0.5), llms: `{"object":"list","data":[{"id":"m"}]}`}
	}
	return f
}

// set changes an engine.
func (f *fleet) set(host string, change func(*engine)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.engines[host])
}

func (f *fleet) asked(host string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.engines[host].asked
}

func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	e := f.engines[r.URL.Host]
	if e == nil {
		f.mu.Unlock()
		return nil, errors.New("no such host")
	}
	if r.URL.Path == "/metrics" {
		e.asked++
	}
	now := *e
	f.mu.Unlock()
	switch {
	case now.refuse:
		return nil, errors.New("connection refused")
	case now.hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case r.URL.Path == "/metrics" && now.status != 0:
		return answer(r, now.status, ""), nil
	case r.URL.Path == "/metrics":
		return answer(r, 200, now.page), nil
	case r.URL.Path == "/v1/models" && now.llms != "":
		return answer(r, 200, now.llms), nil
	}
	return answer(r, 404, ""), nil
}

func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r, Header: http.Header{}}
}

func page(waiting, running int, kv float64) string {
	return fmt.Sprintf("vllm:num_requests_waiting %d\nvllm:num_requests_running %d\nvllm:kv_cache_usage_perc %g\n"+
		"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n", waiting, running, kv)
}

// bubble is a pool in virtual time.
type bubble struct {
	pool.Config
	registry prometheus.Registerer
}

// run runs the pool over the fleet until test returns.
func (b bubble) run(t *testing.T, f *fleet, test func(t *testing.T, p *pool.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.Transport = f
		p, err := pool.New(b.Config, b.registry, nil)
		if err != nil {
			t.Fatal(err)
		}
		run(t, p, func() {
			synctest.Wait()
			test(t, p)
		})
	})
}

// inBubble is run without a registry.
func inBubble(t *testing.T, c pool.Config, f *fleet, test func(t *testing.T, p *pool.Pool)) {
	t.Helper()
	bubble{Config: c}.run(t, f, test)
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func endpoints(hosts ...string) []pool.Endpoint {
	var list []pool.Endpoint
	for _, h := range hosts {
		list = append(list, pool.Endpoint{URL: "http://" + h})
	}
	return list
}
