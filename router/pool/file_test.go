package pool_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/router/pool"
)

func TestParseEndpoints(t *testing.T) {
	for _, test := range []struct {
		name       string
		file       string
		ids        []string
		complaints []string // what each must say
	}{
		{"mapping", "endpoints:\n  - url: http://10.0.0.1:8000\n    class: h100\n    llms: [a, b]\n  - http://10.0.0.2\n",
			[]string{"10.0.0.1:8000", "10.0.0.2:80"}, nil},
		{"list", "# two\n- https://e/engine/\n- {id: x, url: 'http://[::1]:9000'}\n", []string{"e:443", "x"}, nil},
		{"JSON", "{\n\t\"endpoints\": [\n\t\t{\"url\": \"http://a:1\", \"draining\": true},\n\t\t\"http://b:2\"\n\t]\n}\n", []string{"a:1", "b:2"}, nil},
		{"bad entries, the rest kept", `endpoints:
  - url: http://a:1
  - url: ftp://b:2
  - class: h100
  - url: http://c:3
    clas: h100
  - url: http://d:4
    llms: 7
  - [http://e:5]
  - http://a:1
  - http://f:6/v1
  - http://g:7
`, []string{"a:1", "g:7"}, []string{
			`line 3: url "ftp://b:2" does not begin with http:// or https://`,
			`line 4: url is missing`,
			`line 5: unknown key "clas": want one of id, url, class`,
			`line 7: llms is not a list`,
			`line 9: want a URL, or a mapping with the key url`,
			`line 10: endpoint a:1 is already on line 2`,
			`line 11: url "http://f:6/v1" ends with /v1: leave it out`,
		}},
		{"wrong type", "- url: http://a:1\n  draining: perhaps\n- http://b:2\n", []string{"b:2"}, []string{"line 1: draining is neither true nor false"}},
		{"a line that is not YAML", "endpoints:\n  - url: http://a:1\n  - url: \"http://b:2\n  - url: http://c:3\n",
			[]string{"a:1", "c:3"}, []string{`line 3: the entry is not YAML: "- url: \"http://b:2"`}},
		{"a bad line after which lines still count", "- {url: http://a:1\n- url: http://b:2\n  what: 1\n- http://c:3\n",
			[]string{"c:3"}, []string{"line 1: the entry is not YAML", `line 2: unknown key "what"`}},
		{"broken JSON", `[{"url": "http://a:1"`, nil, []string{"line 1: "}},
		{"another document", "servers: []\n", nil, []string{"line 1: want a list of endpoints, or one key endpoints"}},
		{"a list for a word", "- {url: [http://a:1]}\n", nil, []string{"line 1: url is not a single value"}},
		{"a word", "hello\n", nil, []string{"line 1: want a list of endpoints"}},
		{"nothing listed", "endpoints:\n", nil, nil},
		{"empty", "", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			endpoints, complaints := pool.ParseEndpoints([]byte(test.file))
			var ids []string
			for _, e := range endpoints {
				ids = append(ids, e.ID)
			}
			if diff := cmp.Diff(test.ids, ids); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			if len(complaints) != len(test.complaints) {
				t.Fatalf("complaints %q, want %q", complaints, test.complaints)
			}
			for i, want := range test.complaints {
				if !strings.HasPrefix(complaints[i].Error(), want) {
					t.Errorf("complaint %q, want %q", complaints[i], want)
				}
			}
		})
	}
}

func TestParsedEndpointIsComplete(t *testing.T) {
	endpoints, complaints := pool.ParseEndpoints([]byte(
		"- {url: 'http://a:1/', class: h100, profile: p, llms: [x], metrics_path: /prometheus/metrics, draining: true}\n- http://b:2\n"))
	if len(complaints) > 0 {
		t.Fatal(complaints)
	}
	want := []pool.Endpoint{
		{ID: "a:1", URL: "http://a:1", Class: "h100", Profile: "p", LLMs: []string{"x"}, MetricsPath: "/prometheus/metrics", Draining: true},
		{ID: "b:2", URL: "http://b:2", MetricsPath: pool.DefaultMetricsPath},
	}
	if diff := cmp.Diff(want, endpoints); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzParseEndpoints(f *testing.F) {
	f.Add([]byte("endpoints:\n  - url: http://a:1\n  - url: \"http://b:2\n  - http://c:3\n"))
	f.Add([]byte(`[{"url": "http://a:1"}, "http://b:2"]`))
	f.Add([]byte("- &a {url: http://a:1}\n- *a\n- - - x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		endpoints, complaints := pool.ParseEndpoints(data)
		seen := map[string]bool{}
		for _, e := range endpoints {
			if e.ID == "" || e.URL == "" || seen[e.ID] {
				t.Fatalf("endpoint %+v, seen before: %v", e, seen[e.ID])
			}
			seen[e.ID] = true
		}
		for _, c := range complaints {
			if c.Error() == "" {
				t.Fatal("an empty complaint")
			}
		}
	})
}
