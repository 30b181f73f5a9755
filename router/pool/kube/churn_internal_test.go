package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/spillway-llm/spillway/router/pool"
)

// step is one line of a recorded watch.
type step struct {
	Say    string         `json:"say"`
	Do     string         `json:"do"` // an event, or RESET, AWAY or BACK
	Lost   bool           `json:"lost"`
	Object map[string]any `json:"object"`
}

// world is an API server, what watches it and what that told.
type world struct {
	server *apiServer
	source *Source
	expect func(map[string]map[string]any) []string

	objects map[string]map[string]any // as the router may know them
	told    []string
	last    pool.News
	mu      sync.Mutex
}

func (w *world) hear(n pool.News) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = n
	if n.Endpoints == nil {
		return
	}
	w.told = []string{}
	for _, e := range n.Endpoints {
		w.told = append(w.told, line(e.ID, e.Class, e.LLMs, e.Draining))
	}
}

func line(id, class string, llms []string, draining bool) string {
	return fmt.Sprintf("%s class=%s llms=%s draining=%v", id, class, strings.Join(llms, ","), draining)
}

// do takes one step and looks at what is told afterwards.
func (w *world) do(t *testing.T, s step) {
	t.Helper()
	switch s.Do {
	case "RESET":
		w.server.reset()
	case "AWAY":
		w.server.leave()
	case "BACK":
		w.server.back()
	default:
		w.server.change(watch.EventType(s.Do), s.Object, s.Lost)
		if name := s.Object["metadata"].(map[string]any)["name"].(string); !s.Lost {
			delete(w.objects, name)
			if s.Do != "DELETED" {
				w.objects[name] = s.Object
			}
		}
	}
	switch s.Do {
	case "RESET", "AWAY", "BACK":
		<-time.After(2 * time.Minute) // the client tries again more and more rarely
	}
	synctest.Wait()
	if s.Do == "RESET" || s.Do == "BACK" {
		w.objects = map[string]map[string]any{}
		for name, o := range w.server.objects {
			w.objects[name] = o.Object
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(w.expect(w.objects), w.told); diff != "" {
		t.Fatalf("after %s %s (-want +got):\n%s", s.Do, s.Say, diff)
	}
	if away := w.last.Err != nil; away != w.server.away {
		t.Fatalf("after %s %s: error %v", s.Do, s.Say, w.last.Err)
	}
}

// inWorld runs a source over an API server, in virtual time.
func inWorld(t *testing.T, watch Watch, expect func(map[string]map[string]any) []string, test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{server: newAPIServer(), expect: expect, objects: map[string]map[string]any{}}
		w.source = &Source{watch: watch, objects: w.server}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.source.Run(ctx, w.hear) }()
		synctest.Wait()
		if diff := cmp.Diff([]string{}, w.told); diff != "" {
			t.Fatalf("of nothing (-want +got):\n%s", diff)
		}
		test(t, w)
		cancel()
		<-ended
	})
}

var (
	someService = Watch{Namespace: "llm", Service: "vllm", Ports: []string{"http"}}
	somePods    = Watch{Namespace: "llm", Selector: "app=vllm"}
)

func TestRecordedWatches(t *testing.T) {
	for _, test := range []struct {
		file   string
		watch  Watch
		expect func(map[string]map[string]any) []string
		most   int // endpoints at one moment of the record
	}{
		{"service.jsonl", someService, plainSlices, 3},
		{"pods.jsonl", somePods, plainPods, 2},
	} {
		t.Run(test.file, func(t *testing.T) {
			file, err := os.Open("testdata/" + test.file)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var steps []step
			for lines := bufio.NewScanner(file); lines.Scan(); {
				var s step
				if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
					t.Fatal(err)
				}
				steps = append(steps, s)
			}
			most := 0
			inWorld(t, test.watch, test.expect, func(t *testing.T, w *world) {
				for _, s := range steps {
					w.do(t, s)
					most = max(most, len(w.told))
				}
				if len(w.told) > 0 {
					t.Errorf("in the end: %q", w.told)
				}
			})
			if most != test.most {
				t.Errorf("at most %d endpoints, want %d", most, test.most)
			}
		})
	}
}

// Any churn comes to what a plain reading of the objects gives.
func TestRandomChurn(t *testing.T) {
	for seed := range uint64(12) {
		for name, test := range map[string]struct {
			watch  Watch
			expect func(map[string]map[string]any) []string
			object func(*rand.Rand, string) map[string]any
		}{
			"service": {someService, plainSlices, randomSlice},
			"pods":    {somePods, plainPods, randomPod},
		} {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				inWorld(t, test.watch, test.expect, func(t *testing.T, w *world) {
					for range 60 {
						w.do(t, randomStep(r, w, test.object))
					}
				})
			})
		}
	}
}

func randomStep(r *rand.Rand, w *world, object func(*rand.Rand, string) map[string]any) step {
	name := string(rune('a' + r.IntN(4)))
	_, there := w.server.objects[name]
	s := step{Lost: w.server.away || r.IntN(6) == 0, Object: object(r, name)}
	switch n := r.IntN(20); {
	case w.server.away && n < 8:
		return step{Do: "BACK"}
	case n == 0 && !w.server.away:
		return step{Do: "AWAY"}
	case n <= 2 && !w.server.away:
		return step{Do: "RESET"}
	case !there:
		s.Do = "ADDED"
	case n < 7:
		s.Do = "DELETED"
	default:
		s.Do = "MODIFIED"
	}
	return s
}

func randomSlice(r *rand.Rand, name string) map[string]any {
	family, form := "IPv4", "10.0.0.%d"
	if r.IntN(4) == 0 {
		family, form = "IPv6", "fd00::%d"
	}
	var all []any
	for range r.IntN(4) {
		conditions := map[string]any{}
		for _, c := range []string{"ready", "serving", "terminating"} {
			if r.IntN(4) > 0 {
				conditions[c] = r.IntN(2) == 0
			}
		}
		all = append(all, map[string]any{"addresses": []any{fmt.Sprintf(form, r.IntN(5)), "10.9.9.9"}, "conditions": conditions})
	}
	return map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": randomMeta(r, name), "addressType": family, "endpoints": all,
		"ports": []any{map[string]any{"name": "metrics", "port": int64(9000)}, map[string]any{"name": "http", "port": int64(8000 + r.IntN(2))}},
	}
}

func randomPod(r *rand.Rand, name string) map[string]any {
	status := map[string]any{"conditions": []any{
		map[string]any{"type": "PodScheduled", "status": "True"},
		map[string]any{"type": "Ready", "status": []string{"True", "True", "False", "Unknown"}[r.IntN(4)]},
	}}
	if r.IntN(5) > 0 {
		status["podIP"] = fmt.Sprintf("10.0.0.%d", r.IntN(3))
	}
	meta := randomMeta(r, name)
	if r.IntN(4) == 0 {
		meta["deletionTimestamp"] = "2026-11-30T12:00:00Z"
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status,
		"spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{"name": "x"}, map[string]any{"name": "vllm", "ports": []any{map[string]any{"containerPort": int64(8000)}}}}},
	}
}

func randomMeta(r *rand.Rand, name string) map[string]any {
	annotations := map[string]any{}
	if r.IntN(3) == 0 {
		annotations[MarkDrain] = []string{"true", "false", "perhaps"}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		annotations[MarkLLMs] = "a/b,c"
	}
	return map[string]any{"namespace": "llm", "name": name, "annotations": annotations, "labels": map[string]any{MarkClass: "k" + name}}
}

// What follows reads objects in the plainest way: every address, then every
// object that names it, looked at from its JSON.

func plainSlices(objects map[string]map[string]any) []string {
	family := "IPv6"
	for _, o := range objects {
		if o["addressType"] == "IPv4" && len(list(o["endpoints"])) > 0 {
			family = "IPv4"
		}
	}
	var seen []sighting
	for name, o := range objects {
		if o["addressType"] != family {
			continue
		}
		for _, e := range list(o["endpoints"]) {
			c, _ := e.(map[string]any)["conditions"].(map[string]any)
			ready, told := c["ready"].(bool)
			ready = ready || !told
			serving, told := c["serving"].(bool)
			if !told {
				serving = ready
			}
			ends := c["terminating"] == true
			port := 0
			for _, p := range list(o["ports"]) {
				if p := p.(map[string]any); p["name"] == "http" {
					fmt.Sscan(fmt.Sprint(p["port"]), &port)
				}
			}
			if ready || ends && serving {
				host := list(e.(map[string]any)["addresses"])[0].(string)
				if strings.Contains(host, ":") {
					host = "[" + host + "]"
				}
				seen = append(seen, sighting{fmt.Sprintf("%s:%d", host, port), name, ends, o})
			}
		}
	}
	return plain(seen)
}

func plainPods(objects map[string]map[string]any) []string {
	var seen []sighting
	for name, o := range objects {
		status := o["status"].(map[string]any)
		for _, c := range list(status["conditions"]) {
			if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == "True" && status["podIP"] != nil {
				seen = append(seen, sighting{status["podIP"].(string) + ":8000", name, o["metadata"].(map[string]any)["deletionTimestamp"] != nil, o})
			}
		}
	}
	return plain(seen)
}

// sighting is an address in an object.
type sighting struct {
	address, object string
	ends            bool
	from            map[string]any
}

func plain(seen []sighting) []string {
	slices.SortStableFunc(seen, func(a, b sighting) int { return strings.Compare(a.address+" "+a.object, b.address+" "+b.object) })
	out := []string{}
	for i := 0; i < len(seen); {
		best, drains := "", true
		address := seen[i].address
		for ; i < len(seen) && seen[i].address == address; i++ {
			meta := seen[i].from["metadata"].(map[string]any)
			labels, _ := meta["labels"].(map[string]any)
			notes, _ := meta["annotations"].(map[string]any)
			if labels["llm-d.ai/role"] == "prefill" || notes[MarkDrain] == "perhaps" || notes[MarkMetricsPort] == "many" {
				continue
			}
			class, _ := labels[MarkClass].(string)
			named, _ := notes[MarkLLMs].(string)
			drain := seen[i].ends || notes[MarkDrain] == "true"
			if best == "" || drains && !drain {
				best, drains = line(address, class, []string{strings.ReplaceAll(named, " ", "")}, drain), drain
			}
		}
		if best != "" {
			out = append(out, best)
		}
	}
	return out
}

func list(v any) []any { l, _ := v.([]any); return l }
