package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A router finds endpoints in Kubernetes and in DNS, follows them, and keeps them
// while the API server is away.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	urls := startFleet(t, 3)
	ports := make([]string, len(urls))
	for i, u := range urls {
		at, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = at.Port()
	}
	slice := func(version int, port string) string {
		return fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":"llm","name":"a","resourceVersion":"%d"},`+
			`"addressType":"IPv4","ports":[{"name":"http","port":%s}],"endpoints":[{"addresses":["127.0.0.1"]}]}`, version, port)
	}
	changes := make(chan string)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") == "" {
			fmt.Fprintf(w, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSliceList","metadata":{"resourceVersion":"1"},"items":[%s]}`, slice(1, ports[0]))
			return
		}
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case change := <-changes:
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", change)
				_ = http.NewResponseController(w).Flush()
			}
		}
	}))
	defer api.Close()
	kubeconfig := write(t, "kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: %q}}],
contexts: [{name: x, context: {cluster: x, namespace: llm}}]}`, api.URL))
	router := startRouter(t, newDatabase(t), unforecast, fmt.Sprintf(
		"discovery: {kubeconfig: %s, kubernetes: [{service: vllm, ports: [http], class: h100}], dns: [{name: localhost, port: %s}]}", kubeconfig, ports[2]))

	// are waits until the router has these endpoints, all well, and says so of
	// its source in Kubernetes.
	are := func(known bool, want ...string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			a, err := reach(ctx, http.MethodGet, router.admin+"/status.json", nil)
			if err != nil {
				return err
			}
			var s struct {
				Endpoints []struct {
					ID      string
					Healthy bool
				}
				Sources []struct {
					Source, Error string
					Endpoints     int
				}
			}
			if err := json.Unmarshal(a.body, &s); err != nil {
				return err
			}
			missing := fmt.Errorf("%s", a.body)
			if len(s.Endpoints) != len(want) || len(s.Sources) != 2 || s.Sources[0].Source != "service llm/vllm" || (s.Sources[0].Error == "") != known {
				return missing
			}
			for _, port := range want {
				found := false
				for _, e := range s.Endpoints {
					found = found || e.Healthy && e.ID == net.JoinHostPort("127.0.0.1", port)
				}
				if !found {
					return missing
				}
			}
			return nil
		})
		router.served(t)
	}
	are(true, ports[0], ports[2])
	changes <- slice(2, ports[1])
	are(true, ports[1], ports[2])
	api.CloseClientConnections()
	api.Close()
	if line := router.logged("source of endpoints can't be asked"); !strings.Contains(line, "service llm/vllm") {
		t.Errorf("the log does not name the source: %s", line)
	}
	are(false, ports[1], ports[2])
}
