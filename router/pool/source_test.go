package pool_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/router/pool"
)

// told is a source that says what a test tells it to.
type told struct {
	name string
	news chan pool.News // made by Run, in the bubble it runs in
}

func newTold(name string) *told { return &told{name: name} }

func (s *told) String() string { return s.name }

func (s *told) Run(ctx context.Context, tell func(pool.News)) {
	s.news = make(chan pool.News)
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-s.news:
			tell(n)
		}
	}
}

func ids(p *pool.Pool) (all []string) {
	for _, e := range p.Snapshot().Endpoints {
		all = append(all, e.ID)
	}
	return all
}

func TestSourceNamesEndpoints(t *testing.T) {
	f := newFleet("a:1", "b:1", "c:1")
	one, two := newTold("one"), newTold("two")
	registry := prometheus.NewRegistry()
	c := pool.Config{Endpoints: endpoints("a:1"), Sources: []pool.Source{one, two}}
	bubble{Config: c, registry: registry}.run(t, f, func(t *testing.T, p *pool.Pool) {
		say := func(s *told, n pool.News, want ...string) {
			t.Helper()
			s.news <- n
			pass(1) // the scrapes that follow
			if diff := cmp.Diff(want, ids(p)); diff != "" {
				t.Errorf("after %+v (-want +got):\n%s", n, diff)
			}
		}
		say(one, pool.News{Endpoints: endpoints("b:1")}, "a:1", "b:1")
		if b := p.Snapshot().Find("b:1"); !b.Healthy || !b.Since.IsZero() {
			t.Errorf("named first and answering: it may be warm, got %+v", b)
		}
		// What two name is the first's; what nobody can use is nobody's.
		say(two, pool.News{Endpoints: append(endpoints("a:1", "b:1", "c:1"), pool.Endpoint{URL: "tcp://x"}), Complaints: []error{errors.New("d is odd")}}, "a:1", "b:1", "c:1")
		// The first lets it go, and the second has it: the same life.
		life := p.Snapshot().Find("b:1").Incarnation
		say(one, pool.News{Endpoints: []pool.Endpoint{}}, "a:1", "b:1", "c:1")
		if got := p.Snapshot().Find("b:1").Incarnation; got != life {
			t.Errorf("incarnation %d, was %d", got, life)
		}
		// A source that can't be asked is left as it was.
		say(two, pool.News{Err: &pool.SourceError{Reason: pool.Unreachable, Err: errors.New("nobody there")}}, "a:1", "b:1", "c:1")
		s := p.Sources()
		if s[0].Error != "" || s[0].Endpoints != 0 || s[1].Error != "nobody there" || s[1].Endpoints != 2 || s[1].Since.IsZero() || s[1].Heard.IsZero() {
			t.Errorf("%+v", s)
		}
		want := `spillway_router_discovery_current{source="one"} 1
spillway_router_discovery_current{source="two"} 0
spillway_router_discovery_endpoints{source="one"} 0
spillway_router_discovery_endpoints{source="two"} 2
spillway_router_discovery_failures_total{reason="failed",source="one"} 0
spillway_router_discovery_failures_total{reason="failed",source="two"} 0
spillway_router_discovery_failures_total{reason="forbidden",source="one"} 0
spillway_router_discovery_failures_total{reason="forbidden",source="two"} 0
spillway_router_discovery_failures_total{reason="not_found",source="one"} 0
spillway_router_discovery_failures_total{reason="not_found",source="two"} 0
spillway_router_discovery_failures_total{reason="unreachable",source="one"} 0
spillway_router_discovery_failures_total{reason="unreachable",source="two"} 1
spillway_router_discovery_rejected_total{source="one"} 0
spillway_router_discovery_rejected_total{source="two"} 4
`
		if diff := cmp.Diff(want, exposed(t, registry, "_discovery_")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// One that joins later did not begin with the pool.
		say(two, pool.News{Endpoints: []pool.Endpoint{{URL: "http://c:1", Draining: true}}}, "a:1", "c:1")
		if s := p.Sources()[1]; s.Error != "" || !s.Since.IsZero() || len(s.Complaints) > 0 {
			t.Errorf("known again: %+v", s)
		}
		if c := p.Snapshot().Find("c:1"); !c.Draining {
			t.Errorf("%+v", c)
		}
		say(two, pool.News{Endpoints: endpoints("b:1", "c:1"), Err: errors.New("odd")}, "a:1", "b:1", "c:1")
		if b := p.Snapshot().Find("b:1"); b.Since.IsZero() {
			t.Error("an endpoint that came later counts as warm")
		}
	})
}

func TestSourceTwice(t *testing.T) {
	_, err := pool.New(pool.Config{Sources: []pool.Source{newTold("x"), newTold("x")}}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "x is there twice") {
		t.Errorf("error %v", err)
	}
}

func TestTraits(t *testing.T) {
	traits := pool.Traits{Scheme: "https", Class: "h100", LLMs: []string{"m"}, MetricsPort: 9}
	want := pool.Endpoint{ID: "[::1]:80", URL: "https://[::1]:80", Class: "h100", LLMs: []string{"m"}, MetricsPort: 9}
	if diff := cmp.Diff(want, traits.At("::1", 80)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		traits pool.Traits
		want   string
	}{
		{pool.Traits{Scheme: "tcp"}, "scheme"},
		{pool.Traits{MetricsPort: 70000}, "metrics_port"},
		{pool.Traits{MetricsPath: "x"}, "metrics_path"},
		{pool.Traits{LLMs: []string{""}}, "llms"},
		{pool.Traits{}, ""},
	} {
		if err := test.traits.Check(); (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.traits, err, test.want)
		}
	}
}

func TestMetricsOnAnotherPort(t *testing.T) {
	f := newFleet("a:1", "a:2")
	f.set("a:1", func(e *engine) { e.status = 404 })
	c := pool.Config{Endpoints: []pool.Endpoint{{URL: "http://a:1", MetricsPort: 2}}}
	inBubble(t, c, f, func(t *testing.T, p *pool.Pool) {
		if e := p.Snapshot().Find("a:1"); e.Running != 2 {
			t.Errorf("%+v", e)
		}
	})
}
