package kube

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Objects of a shape that no API server should give cost themselves alone: no
// panic, and nothing that is not an endpoint.
func TestObjectsOfAnyShape(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for file, w := range map[string]Watch{"service.jsonl": someService, "pods.jsonl": somePods} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		complaints, endpoints := 0, 0
		for range 60 {
			for line := range bytes.Lines(text) {
				var s step
				if err := json.Unmarshal(line, &s); err != nil {
					t.Fatal(err)
				}
				if s.Object == nil {
					continue
				}
				var objects []any
				for range 2 {
					broken, _ := spoil(r, s.Object).(map[string]any)
					small, err := strip(&unstructured.Unstructured{Object: broken})
					if err != nil {
						complaints++
						continue
					}
					objects = append(objects, small)
				}
				n := w.find(objects)
				complaints += len(n.Complaints)
				endpoints += len(n.Endpoints)
				var ids []string
				for _, e := range n.Endpoints {
					if !strings.HasSuffix(e.URL, "//"+e.ID) || e.ID == "" {
						t.Fatalf("%+v of %s", e, line)
					}
					ids = append(ids, e.ID)
				}
				if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
					t.Fatalf("endpoints %v", ids)
				}
			}
		}
		if complaints == 0 || endpoints == 0 {
			t.Errorf("%s: %d complaints and %d endpoints", file, complaints, endpoints)
		}
	}
}

// spoil copies a JSON value and puts something else in a few places.
func spoil(r *rand.Rand, value any) any {
	if r.IntN(30) == 0 {
		return []any{nil, "x", "", int64(-1), int64(1) << 40, 2.5, true, []any{}, map[string]any{}, []any{nil, "y"}}[r.IntN(10)]
	}
	switch v := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for key, below := range v {
			all[key] = spoil(r, below)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = spoil(r, v[i])
		}
		return all
	}
	return value
}
