package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/pool/kube"
)

const slices = "/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices"

// oneSlice is what the API server lists.
const oneSlice = `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSliceList","metadata":{"resourceVersion":"7"},"items":[
{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"llm","name":"vllm-a","resourceVersion":"5"},"addressType":"IPv4",
"ports":[{"port":8000}],"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}]}]}`

// api is the wire of an API server.
type api struct {
	t       *testing.T
	forbids atomic.Value // verb
	events  chan string  // to whoever watches
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := "list"
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	if r.URL.Path != slices || r.URL.Query().Get("labelSelector") != "kubernetes.io/service-name=vllm" || r.Header.Get("User-Agent") != "spillway" {
		a.t.Errorf("asked for %s by %s", r.URL, r.UserAgent())
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case a.forbids.Load() == verb:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no %s for you"}`, verb)
	case verb == "list":
		fmt.Fprint(w, oneSlice)
	default:
		http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case e := <-a.events:
				fmt.Fprintln(w, e)
				http.NewResponseController(w).Flush()
			}
		}
	}
}

// serve serves at address until the function it returns is called.
func serve(t *testing.T, a *api, address string) (at string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: a}
	go s.Serve(l)
	end = func() { s.Close() }
	t.Cleanup(end)
	return l.Addr().String(), end
}

func kubeconfig(t *testing.T, address string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	body := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": "http://" + address}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "namespace": "llm"}}},
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// start runs a source; the function it returns waits for news of one kind.
func start(t *testing.T, address string) (wait func(what string, is func(pool.News) bool) pool.News) {
	t.Helper()
	cluster, err := kube.Connect(kubeconfig(t, address), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	source := cluster.Source(kube.Watch{Service: "vllm"})
	if source.String() != "service llm/vllm" {
		t.Errorf("it is called %s", source)
	}
	news := make(chan pool.News, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); source.Run(ctx, func(n pool.News) { news <- n }) }()
	t.Cleanup(func() { cancel(); <-ended })
	return func(what string, is func(pool.News) bool) pool.News {
		t.Helper()
		for {
			select {
			case n := <-news:
				if is(n) {
					return n
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("never heard: %s", what)
			}
		}
	}
}

func holds(n int) func(pool.News) bool {
	return func(news pool.News) bool { return news.Err == nil && news.Endpoints != nil && len(news.Endpoints) == n }
}

func fails(reason string) func(pool.News) bool {
	return func(n pool.News) bool {
		var e *pool.SourceError
		return errors.As(n.Err, &e) && e.Reason == reason
	}
}

func TestAPIServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	a := &api{t: t, events: make(chan string)}
	address, end := serve(t, a, "127.0.0.1:0")
	wait := start(t, address)
	n := wait("the list", holds(1))
	if e := n.Endpoints[0]; e.URL != "http://10.0.0.1:8000" || e.Draining {
		t.Errorf("%+v", e)
	}
	a.events <- `{"type":"MODIFIED","object":{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"llm","name":"vllm-a","resourceVersion":"8"},"addressType":"IPv4","ports":[{"port":8000}],"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]}}`
	wait("the change", holds(2))
	end()
	n = wait("that it is away", fails(pool.Unreachable))
	if len(n.Endpoints) != 2 {
		t.Errorf("while it is away: %+v", n)
	}
	serve(t, a, address)
	wait("that it is back", func(n pool.News) bool { return n.Err == nil })
	a.events <- `{"type":"DELETED","object":{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"llm","name":"vllm-a","resourceVersion":"9"},"addressType":"IPv4"}}`
	n = wait("that all are gone", holds(0))
	if len(n.Complaints) != 1 || !strings.Contains(n.Complaints[0].Error(), "service llm/vllm has no EndpointSlices") {
		t.Errorf("complaints %v", n.Complaints)
	}
}

func TestForbiddenNamesTheRule(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"list", "watch"} {
		a := &api{t: t, events: make(chan string)}
		a.forbids.Store(verb)
		address, _ := serve(t, a, "127.0.0.1:0")
		n := start(t, address)("the refusal", fails(pool.Forbidden))
		for _, want := range []string{
			"service llm/vllm", "forbids to " + verb + " endpointslices.discovery.k8s.io in namespace llm",
			`{apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: [list, watch]}`, "no " + verb + " for you",
		} {
			if !strings.Contains(n.Err.Error(), want) {
				t.Errorf("want %s in: %v", want, n.Err)
			}
		}
	}
}

func TestConnectNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"": "runs in no Pod", "/absent": "/absent", broken: "broken can't be used"} {
		_, err := kube.Connect(file, slog.New(slog.DiscardHandler))
		if err == nil || !strings.HasPrefix(err.Error(), "kubeconfig: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("kubeconfig %q: %v, want %s", file, err, want)
		}
	}
}

func TestCheckNamesTheKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		watch kube.Watch
		want  string
	}{
		{kube.Watch{}, "service: is empty"},
		{kube.Watch{Service: "a", Selector: "b=c"}, "selector: excludes service"},
		{kube.Watch{Service: "A_b"}, "service: "},
		{kube.Watch{Service: "a", Namespace: "x/y"}, "namespace: "},
		{kube.Watch{Selector: "a=b=c"}, "selector: "},
		{kube.Watch{Selector: "a=b", Ports: []string{"8000", "not a port"}}, "ports[1]: "},
		{kube.Watch{Selector: "a=b", Ports: []string{"70000"}}, "ports[0]: "},
		{kube.Watch{Selector: "a=b", Traits: pool.Traits{Scheme: "ftp"}}, "scheme "},
		{kube.Watch{Selector: "a in (b, c)", Ports: []string{"http", "8000"}}, ""},
		{kube.Watch{Service: "vllm"}, ""},
	} {
		err := test.watch.Check()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.watch, err, test.want)
		}
	}
}
