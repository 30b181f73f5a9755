package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-llm/spillway/router/pool"
)

func TestPortsAndMarks(t *testing.T) {
	ports := func(all ...any) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"image": "x"}, map[string]any{"ports": all}}}
	}
	port := func(name string, n int) any {
		return map[string]any{"name": name, "containerPort": int64(n), "protocol": "TCP"}
	}
	udp := map[string]any{"name": "gossip", "containerPort": int64(7), "protocol": "UDP"}
	for _, test := range []struct {
		name        string
		watch       Watch
		spec        map[string]any
		annotations map[string]any
		want        []pool.Endpoint
		complains   string
	}{
		{name: "the only one", spec: ports(port("http", 8000), udp), want: []pool.Endpoint{{ID: "10.0.0.1:8000", URL: "http://10.0.0.1:8000"}}},
		{name: "by number, not listed", spec: ports(), watch: Watch{Ports: []string{"8000"}}, want: []pool.Endpoint{{ID: "10.0.0.1:8000", URL: "http://10.0.0.1:8000"}}},
		{name: "ranks", spec: ports(port("a", 8000), port("b", 8001)), watch: Watch{Ports: []string{"a", "8001"}},
			want: []pool.Endpoint{{ID: "10.0.0.1:8000", URL: "http://10.0.0.1:8000"}, {ID: "10.0.0.1:8001", URL: "http://10.0.0.1:8001"}}},
		{name: "two where one is wanted", spec: ports(port("http", 8000), port("metrics", 9000)),
			complains: "pod llm/a has 2 ports where one is wanted: name those of the engine under the key ports; it lists http (8000), metrics (9000)"},
		{name: "another name", spec: ports(port("web", 8000)), watch: Watch{Ports: []string{"http"}}, complains: "pod llm/a has no port http; it lists web (8000)"},
		{name: "all marks", spec: ports(port("http", 8000)), watch: Watch{Traits: pool.Traits{Class: "h100", LLMs: []string{"x"}}},
			annotations: map[string]any{MarkClass: "h200", MarkProfile: "p", MarkLLMs: "a/b, c", MarkScheme: "https", MarkMetricsPath: "/m", MarkMetricsPort: "9000", MarkDrain: "true", MarkRole: "decode"},
			want:        []pool.Endpoint{{ID: "10.0.0.1:8000", URL: "https://10.0.0.1:8000", Class: "h200", Profile: "p", LLMs: []string{"a/b", "c"}, MetricsPath: "/m", MetricsPort: 9000, Draining: true}}},
		{name: "what all have in common", spec: ports(port("http", 8000)), watch: Watch{Traits: pool.Traits{Class: "h100", LLMs: []string{"x"}}},
			want: []pool.Endpoint{{ID: "10.0.0.1:8000", URL: "http://10.0.0.1:8000", Class: "h100", LLMs: []string{"x"}}}},
		{name: "a mark nobody can read", spec: ports(port("http", 8000)), annotations: map[string]any{MarkScheme: "ftp"},
			complains: `pod llm/a: scheme "ftp" is neither http nor https`},
		{name: "for prefill alone", spec: ports(port("http", 8000)), annotations: map[string]any{MarkRole: "prefill"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			object, err := strip(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "spec": test.spec,
				"metadata": map[string]any{"namespace": "llm", "name": "a", "annotations": test.annotations, "managedFields": []any{}},
				"status":   map[string]any{"podIP": "10.0.0.1", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			test.watch.Selector = "app=x"
			n := test.watch.find([]any{object})
			if test.want == nil {
				test.want = []pool.Endpoint{}
			}
			if diff := cmp.Diff(test.want, n.Endpoints); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			said := ""
			for _, c := range n.Complaints {
				said += c.Error()
			}
			if said != test.complains {
				t.Errorf("complaints %q, want %q", said, test.complains)
			}
		})
	}
}
