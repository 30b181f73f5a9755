package pool_test

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
)

func TestSnapshotBeforeRun(t *testing.T) {
	p, err := pool.New(pool.Config{Endpoints: []pool.Endpoint{
		{URL: "http://b:1", Class: "h100", Profile: "x", LLMs: []string{"n", "m", "n"}},
		{URL: "http://a:1", Draining: true},
	}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Snapshot()
	want := []pool.State{
		{ID: "a:1", URL: "http://a:1", Draining: true, Incarnation: 2},
		{ID: "b:1", URL: "http://b:1", Class: "h100", Profile: "x", LLMs: []string{"m", "n"}, Incarnation: 1},
	}
	for i := range want {
		w := &want[i]
		w.Waiting, w.Running, w.KVUsed, w.KVCapacityTokens, w.BlockTokens, w.MaxNumSeqs, w.Started = nan, nan, nan, nan, nan, nan, nan
	}
	if diff := cmp.Diff(want, s.Endpoints, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b := s.Find("b:1")
	if !b.Serves("m") || b.Serves("x") || s.Find("c:1") != nil {
		t.Error("Find or Serves is wrong")
	}
	if age := b.Scraped(time.Now()).Age; !feature.IsUnknown(age) {
		t.Errorf("never scraped, age %v", age)
	}
}

func TestConfigErrorsNameTheEntry(t *testing.T) {
	for _, test := range []struct {
		list []pool.Endpoint
		want string
	}{
		{[]pool.Endpoint{{URL: "http://a"}, {}}, "endpoints[1]: url is missing"},
		{[]pool.Endpoint{{URL: "http://a:1"}, {URL: "http://a:1/"}}, "endpoints[1]: endpoint a:1 is already endpoints[0]"},
		{[]pool.Endpoint{{URL: "http://a:1", MetricsPath: "metrics"}}, "endpoints[0]: metrics_path"},
		{[]pool.Endpoint{{URL: "http://a:1", LLMs: []string{""}}}, "endpoints[0]: llms"},
		{[]pool.Endpoint{{URL: "http://u:p@a:1"}}, "endpoints[0]: url"},
	} {
		_, err := pool.New(pool.Config{Endpoints: test.list}, nil, nil)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

func TestScrapeFillsState(t *testing.T) {
	f := newFleet("a:1")
	inBubble(t, pool.Config{Endpoints: endpoints("a:1")}, f, func(t *testing.T, p *pool.Pool) {
		e := p.Snapshot().Find("a:1")
		if !e.Healthy || !e.Serves("m") || !e.Since.IsZero() || e.KVCapacityTokens != 16000 || e.BlockTokens != 16 {
			t.Errorf("after the first scrape: %+v", e)
		}
		got := e.Scraped(e.ScrapedAt.Add(1500 * time.Millisecond))
		if diff := cmp.Diff(feature.Scraped{Waiting: 1, Running: 2, KVUsed: 0.5, Age: 1.5}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.set("a:1", func(e *engine) { e.page = page(7, 8, 1) })
		pass(1200 * time.Millisecond)
		next := p.Snapshot().Find("a:1")
		if next.Waiting != 7 || next.Running != 8 || next.KVUsed != 1 || !next.ScrapedAt.After(e.ScrapedAt) {
			t.Errorf("after the second scrape: %+v", next)
		}
		if e.Waiting != 1 {
			t.Error("an old snapshot changed")
		}
	})
}

// A renamed metric must not read as an idle engine.
func TestMissingIsUnknownAndCounted(t *testing.T) {
	f := newFleet("a:1")
	registry := prometheus.NewRegistry()
	f.set("a:1", func(e *engine) { e.page = "vllm:renamed 3\nvllm:num_requests_running 2\n" })
	b := bubble{Config: pool.Config{Endpoints: endpoints("a:1")}, registry: registry}
	b.run(t, f, func(t *testing.T, p *pool.Pool) {
		e := p.Snapshot().Find("a:1")
		if !e.Healthy || !math.IsNaN(e.Waiting) || !math.IsNaN(e.KVUsed) || e.Running != 2 {
			t.Errorf("%+v", e)
		}
		want := `spillway_router_endpoints{state="draining"} 0
spillway_router_endpoints{state="healthy"} 1
spillway_router_endpoints{state="unhealthy"} 0
spillway_router_scrape_failures_total{reason="connection"} 0
spillway_router_scrape_failures_total{reason="status"} 0
spillway_router_scrape_failures_total{reason="timeout"} 0
spillway_router_scrape_failures_total{reason="too_large"} 0
spillway_router_scrape_missing_total{signal="kv_capacity_tokens"} 1
spillway_router_scrape_missing_total{signal="kv_used"} 1
spillway_router_scrape_missing_total{signal="running"} 0
spillway_router_scrape_missing_total{signal="waiting"} 1
spillway_router_scrape_restarts_total 0
`
		if diff := cmp.Diff(want, exposed(t, registry, "spillway_router_endpoints{", "_failures", "_missing", "_restarts")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// exposed returns the lines of a registry's page that hold one of parts.
func exposed(t *testing.T, registry *prometheus.Registry, parts ...string) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var page, lines strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(page.String()) {
		if !strings.HasPrefix(line, "#") && slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(line, part) }) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func TestHealthByScrapes(t *testing.T) {
	for _, fault := range []struct {
		name string
		set  func(*engine)
	}{
		{"refused", func(e *engine) { e.refuse = true }},
		{"hangs", func(e *engine) { e.hang = true }},
		{"500", func(e *engine) { e.status = 500 }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			f := newFleet("a:1", "b:1")
			c := pool.Config{Endpoints: endpoints("a:1", "b:1"), Timeout: 500 * time.Millisecond, MaxBackoff: 4 * time.Second}
			inBubble(t, c, f, func(t *testing.T, p *pool.Pool) {
				before := p.Snapshot().Find("a:1")
				f.set("a:1", fault.set)
				pass(1700 * time.Millisecond)
				if !p.Snapshot().Find("a:1").Healthy {
					t.Error("unhealthy after one failure")
				}
				pass(4 * time.Second)
				s := p.Snapshot()
				if a := s.Find("a:1"); a.Healthy || a.Waiting != 1 || a.ScrapedAt.Sub(before.ScrapedAt) > 0 {
					t.Errorf("after three failures: %+v; want unhealthy with its old numbers", a)
				}
				if b := s.Find("b:1"); !b.Healthy || s.Endpoints[1].ScrapedAt.Before(before.ScrapedAt.Add(4*time.Second)) {
					t.Errorf("the other endpoint suffered: %+v", b)
				}
				asked := f.asked("a:1")
				pass(20 * time.Second)
				if n := f.asked("a:1") - asked; n < 3 || n > 8 {
					t.Errorf("asked %d times in 20 s, want about every 4 s", n)
				}
				f.set("a:1", func(e *engine) { *e = engine{page: page(0, 0, 0)} })
				pass(6 * time.Second)
				if !p.Snapshot().Find("a:1").Healthy {
					t.Error("still unhealthy after it answers again")
				}
			})
		})
	}
}

// An engine without a metrics page, or with a huge one, is alive.
func TestAliveWithoutMetrics(t *testing.T) {
	for _, fault := range []func(*engine){
		func(e *engine) { e.status = 404 },
		func(e *engine) { e.page = strings.Repeat("# filler\n", 1<<19) },
	} {
		f := newFleet("a:1")
		f.set("a:1", fault)
		inBubble(t, pool.Config{Endpoints: endpoints("a:1")}, f, func(t *testing.T, p *pool.Pool) {
			pass(10 * time.Second)
			e := p.Snapshot().Find("a:1")
			if !e.Healthy || !e.Serves("m") || !math.IsNaN(e.Waiting) || !e.ScrapedAt.IsZero() {
				t.Errorf("%+v, want healthy, serving, with unknown numbers", e)
			}
		})
	}
}

func TestHealthByTraffic(t *testing.T) {
	f := newFleet("a:1")
	inBubble(t, pool.Config{Endpoints: endpoints("a:1")}, f, func(t *testing.T, p *pool.Pool) {
		healthy := func() bool { return p.Snapshot().Find("a:1").Healthy }
		p.ReportFailure("a:1")
		p.ReportFailure("a:1")
		p.ReportSuccess("a:1")
		p.ReportFailure("a:1")
		p.ReportFailure("a:1")
		if !healthy() {
			t.Fatal("unhealthy although a success lay between")
		}
		p.ReportFailure("a:1")
		if healthy() {
			t.Fatal("healthy after three failures in a row")
		}
		pass(9 * time.Second) // its metrics page works all the time
		if healthy() {
			t.Error("scrapes alone made it healthy")
		}
		pass(3 * time.Second)
		if !healthy() {
			t.Error("not tried again after the hold")
		}
		p.ReportFailure("a:1")
		if healthy() {
			t.Error("a failure on trial must count at once")
		}
		p.ReportSuccess("a:1")
		p.ReportSuccess("a:1")
		if !healthy() {
			t.Error("two successes did not heal it")
		}
		p.ReportFailure("nobody")
		p.ReportSuccess("nobody")
	})
}

func TestRestartBeginsAnIncarnation(t *testing.T) {
	base := page(1, 1, 0.1)
	facts := func(start, tokens string) string {
		return base + "process_start_time_seconds " + start + "\nvllm:generation_tokens_total " + tokens + "\n"
	}
	for _, test := range []struct {
		name          string
		before, after string
		restarted     bool
	}{
		{"nothing new", facts("1000", "50"), facts("1000.2", "51"), false},
		{"start time", facts("1000", "50"), facts("1060", "60"), true},
		{"counter went back", facts("1000", "50"), facts("1000", "0"), true},
		{"no start time, counter went back", base + "vllm:generation_tokens_total 50\n", base + "vllm:generation_tokens_total 2\n", true},
		{"another cache size", base, strings.Replace(base, "1000", "900", 1), true},
		{"facts appear", base, facts("1000", "50"), false},
		{"facts vanish", facts("1000", "50"), base, false},
		{"an empty page", facts("1000", "50"), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet("a:1")
			f.set("a:1", func(e *engine) { e.page = test.before })
			inBubble(t, pool.Config{Endpoints: endpoints("a:1")}, f, func(t *testing.T, p *pool.Pool) {
				before := p.Snapshot().Find("a:1")
				f.set("a:1", func(e *engine) { e.page = test.after })
				pass(1200 * time.Millisecond)
				after := p.Snapshot().Find("a:1")
				if got := after.Incarnation > before.Incarnation; got != test.restarted || !after.Healthy {
					t.Errorf("new incarnation: %v, want %v; healthy: %v", got, test.restarted, after.Healthy)
				}
				if after.Since.IsZero() == test.restarted {
					t.Errorf("since %v", after.Since)
				}
			})
		})
	}
}

func TestLateAnswerIsANewEngine(t *testing.T) {
	f := newFleet("a:1")
	f.set("a:1", func(e *engine) { e.refuse = true })
	inBubble(t, pool.Config{Endpoints: endpoints("a:1")}, f, func(t *testing.T, p *pool.Pool) {
		if p.Snapshot().Find("a:1").Healthy {
			t.Error("healthy before it ever answered")
		}
		f.set("a:1", func(e *engine) { e.refuse = false })
		pass(1200 * time.Millisecond)
		if e := p.Snapshot().Find("a:1"); !e.Healthy || e.Since.IsZero() {
			t.Errorf("%+v, want healthy at its first answer, and since when", e)
		}
	})
}

func TestLLMsAreAskedFor(t *testing.T) {
	f := newFleet("a:1", "b:1")
	f.set("a:1", func(e *engine) { e.llms = "" })
	c := pool.Config{Endpoints: []pool.Endpoint{{URL: "http://a:1"}, {URL: "http://b:1", LLMs: []string{"told"}}}}
	inBubble(t, c, f, func(t *testing.T, p *pool.Pool) {
		if llms := p.Snapshot().Find("a:1").LLMs; len(llms) != 0 {
			t.Errorf("llms %v without an answer", llms)
		}
		f.set("a:1", func(e *engine) { e.llms = `{"data":[{"id":"y"},{"id":"x"}]}` })
		pass(1200 * time.Millisecond)
		if diff := cmp.Diff([]string{"x", "y"}, p.Snapshot().Find("a:1").LLMs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.set("a:1", func(e *engine) { e.llms = `{"data":[{"id":"z"}]}` })
		pass(62 * time.Second)
		f.set("a:1", func(e *engine) { e.llms = "<html>" })
		pass(62 * time.Second)
		if diff := cmp.Diff([]string{"z"}, p.Snapshot().Find("a:1").LLMs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"told"}, p.Snapshot().Find("b:1").LLMs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Over a real connection.
func TestScrapeOverHTTP(t *testing.T) {
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		w.Write([]byte(page(4, 5, 0.25)))
	}))
	defer server.Close()
	events := make(messages, 1000)
	p, err := pool.New(pool.Config{Endpoints: []pool.Endpoint{
		{ID: "e", URL: server.URL + "/engine", LLMs: []string{"m"}, MetricsPath: "/prometheus/metrics"},
	}}, nil, slog.New(events))
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, func() { events.await(t, "endpoint is healthy") })
	if e := p.Snapshot().Find("e"); e.Waiting != 4 || e.Running != 5 || path != "/engine/prometheus/metrics" {
		t.Errorf("%+v from %s", e, path)
	}
}

func TestFileIsFollowed(t *testing.T) {
	f := newFleet("a:1", "b:1", "c:1")
	f.set("a:1", func(e *engine) { e.page += "process_start_time_seconds 1000\n" })
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	write := func(text string) {
		next := file + ".next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil { // as editors and mounts replace files
			t.Fatal(err)
		}
	}
	events := make(messages, 1000)
	p, err := pool.New(pool.Config{File: file, Transport: f, Interval: 10 * time.Millisecond}, nil, slog.New(events))
	if err != nil {
		t.Fatal("a missing file must not stop the start:", err)
	}
	events.await(t, "endpoints file cannot be read: the endpoints stay as they are")

	run(t, p, func() {
		ids := func() (list []string) {
			for _, e := range p.Snapshot().Endpoints {
				list = append(list, e.ID)
			}
			return list
		}
		write("- http://a:1\n- http://b:1\n- ftp://c:1\n")
		events.await(t, "endpoints file: an entry is left out")
		events.await(t, "endpoints file was read", "endpoint is healthy", "endpoint is healthy")
		if diff := cmp.Diff([]string{"a:1", "b:1"}, ids()); diff != "" {
			t.Errorf("first list (-want +got):\n%s", diff)
		}
		first := p.Snapshot().Find("a:1").Incarnation

		write("\n")
		events.await(t, "endpoints file holds no endpoint that can be used: the endpoints stay as they are")
		if len(ids()) != 2 {
			t.Errorf("an empty file left %v", ids())
		}

		write("- http://b:1\n- http://c:1\n")
		events.await(t, "endpoints file was read")
		if diff := cmp.Diff([]string{"b:1", "c:1"}, ids()); diff != "" {
			t.Errorf("second list (-want +got):\n%s", diff)
		}

		write("- http://b:1\n- {url: http://a:1, class: new}\n- {id: c:1, url: http://a:1}\n")
		events.await(t, "endpoints file was read")
		a := p.Snapshot().Find("a:1")
		if a.Incarnation != first || a.Class != "new" {
			t.Errorf("it came back as incarnation %d, class %q, want %d and new", a.Incarnation, a.Class, first)
		}
		if c := p.Snapshot().Find("c:1"); c.URL != "http://a:1" || c.Incarnation == first {
			t.Errorf("an id that moved to another URL: %+v", c)
		}
	})
}

// run runs p until test returns.
func run(t *testing.T, p *pool.Pool, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	test()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

// messages is a log whose lines can be waited for.
type messages chan string

func (m messages) Enabled(context.Context, slog.Level) bool { return true }
func (m messages) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m messages) WithGroup(string) slog.Handler            { return m }
func (m messages) Handle(_ context.Context, r slog.Record) error {
	m <- r.Message
	return nil
}

// await waits until all of some lines were logged, in any order.
func (m messages) await(t *testing.T, wanted ...string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for len(wanted) > 0 {
		select {
		case got := <-m:
			if i := slices.Index(wanted, got); i >= 0 {
				wanted = slices.Delete(wanted, i, i+1)
			}
		case <-deadline:
			t.Fatalf("%q were not logged within 20 s", wanted)
		}
	}
}
