package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

// A person sees what there is, goes back, stays there, and lets go.
func TestStoreRollback(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	if out := must(t, database, "store", "bundles"); !strings.Contains(out, "no bundles") {
		t.Errorf("without bundles it prints %q", out)
	}
	if out := must(t, database, "store", "bundles", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("without bundles it prints %q", out)
	}
	store, publishBundle := publisher(t, database)
	var versions []int64
	publish := func(llm string, accepted bool, verdict string) {
		t.Helper()
		versions = append(versions, publishBundle(featurestore.Bundle{LLM: llm, Bytes: []byte("x"), Accepted: accepted, Verdict: json.RawMessage(verdict)}))
	}
	publish(llm, true, `{"reasons": []}`)
	publish(llm, false, `{"reasons": ["does not beat the prior", "ttft_p50 says the same of every row"]}`)
	publish(llm, true, ``)
	publish("another", true, `{"reasons": null}`)

	if out := must(t, database, "store", "rollback", "--dry-run", llm, fmt.Sprint(versions[0])); !strings.Contains(out, fmt.Sprintf("bundle %d now, and would be with bundle %d", versions[2], versions[0])) {
		t.Errorf("a dry rollback prints %q", out)
	}
	if p, err := store.ServedPointer(t.Context(), llm); err != nil || p.Version != versions[2] || p.Pinned {
		t.Errorf("a dry rollback left %+v %v", p, err)
	}
	if out := must(t, database, "store", "rollback", llm, fmt.Sprint(versions[0])); !strings.Contains(out, "--release") {
		t.Errorf("rollback prints %q", out)
	}
	publish(llm, true, ``) // a refit does not move it
	var list []listedBundle
	if err := json.Unmarshal([]byte(must(t, database, "store", "bundles", "--json", llm)), &list); err != nil {
		t.Fatal(err)
	}
	want := []listedBundle{
		{LLM: llm, Version: versions[4], Accepted: true, Reasons: []string{}},
		{LLM: llm, Version: versions[2], Accepted: true, Reasons: []string{}},
		{LLM: llm, Version: versions[1], Reasons: []string{"does not beat the prior", "ttft_p50 says the same of every row"}},
		{LLM: llm, Version: versions[0], Accepted: true, Served: true, Pinned: true, Reasons: []string{}},
	}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(listedBundle{}, "CreatedAt")); diff != "" {
		t.Errorf("bundles (-want +got):\n%s", diff)
	}
	if out := must(t, database, "store", "bundles"); strings.Count(out, "\n") != 5 ||
		!strings.Contains(out, llm+": accepted, served, pinned\n") || !strings.Contains(out, llm+": refused (does not beat the prior; ttft") ||
		!strings.Contains(out, "another: accepted, served\n") {
		t.Errorf("bundles prints\n%s", out)
	}
	if out := must(t, database, "store", "status"); !strings.Contains(out, "(rollback, pinned)") {
		t.Errorf("status prints\n%s", out)
	}
	if out := must(t, database, "store", "rollback", "--dry-run", "--release", llm); !strings.Contains(out, fmt.Sprintf("pinned to bundle %d", versions[0])) {
		t.Errorf("a dry release prints %q", out)
	}
	must(t, database, "store", "rollback", "--release", llm)
	publish(llm, true, ``)
	if p, err := store.ServedPointer(t.Context(), llm); err != nil || p.Version != versions[5] || p.Pinned {
		t.Errorf("after the release %+v %v is served, want bundle %d", p, err, versions[5])
	}

	for _, m := range []mistake{
		{name: "a refused bundle", args: []string{"store", "rollback", llm, fmt.Sprint(versions[1])}, says: []string{llm, "accepted", "store bundles " + llm}},
		{name: "another LLM's bundle", args: []string{"store", "rollback", llm, fmt.Sprint(versions[3])}, says: []string{llm, "store bundles"}},
		{name: "a refused bundle, dry", args: []string{"store", "rollback", "--dry-run", llm, fmt.Sprint(versions[1])}, says: []string{llm, "accepted", "store bundles " + llm}},
		{name: "release of nothing, dry", args: []string{"store", "rollback", "--dry-run", "--release", llm}, says: []string{llm, "not pinned"}},
		{name: "a dry schedule", args: []string{"trainer", "--dry-run"}, says: []string{"--dry-run", "--once"}},
		{name: "no limit of verdicts", args: []string{"trainer", "verdicts", "--limit", "0"}, says: []string{"--limit"}},
		{name: "verdicts of two", args: []string{"trainer", "verdicts", llm, "b"}, says: []string{"one LLM"}},
		{name: "no version", args: []string{"store", "rollback", llm, "last"}, says: []string{"VERSION", `"last"`}},
		{name: "no argument", args: []string{"store", "rollback", llm}, says: []string{"LLM VERSION"}},
		{name: "release of all", args: []string{"store", "rollback", "--release"}, says: []string{"--release", "LLM"}},
		{name: "release of nothing", args: []string{"store", "rollback", "--release", llm}, says: []string{llm, "not pinned"}},
		{name: "no limit", args: []string{"store", "bundles", "--limit", "0"}, says: []string{"--limit"}},
	} {
		m.database = database
		t.Run(m.name, m.check)
	}
}

func TestLeaseOwners(t *testing.T) {
	a, err := leaseOwner()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := leaseOwner(); err != nil || a == b || strings.Count(a, ":") < 2 {
		t.Errorf("one process calls itself %q and %q, want names that no other can have", a, b)
	}
}

func TestPredictorReadiness(t *testing.T) {
	serving := predictor.LLMStatus{LLM: "a", State: predictor.Serving, Info: predictor.Info{Bundle: 3}}
	failed := predictor.LLMStatus{LLM: "b", State: predictor.Failed, Published: 5, LastError: "bundle 5: truncated"}
	stale := predictor.LLMStatus{LLM: "c", State: predictor.Stale, Info: predictor.Info{Bundle: 4, ValidatedAt: time.Unix(0, 0).UTC(), MaxAge: time.Hour}}
	for _, c := range []struct {
		name  string
		llms  []predictor.LLMStatus
		ready bool
		says  []string
	}{
		{"nothing", nil, false, []string{"no bundle is published yet"}},
		{"all served", []predictor.LLMStatus{serving}, true, nil},
		{"some failed", []predictor.LLMStatus{serving, failed, stale}, true, []string{"b: failed, bundle 0 (bundle 5: truncated)", "c: stale, bundle 4 (validated 1970-01-01 00:00:00, good for 1h0m0s)"}},
		{"none served", []predictor.LLMStatus{failed, stale}, false, []string{"b: failed", "c: stale"}},
	} {
		says, err := predictorReady(predictor.Status{LLMs: c.llms, Schema: feature.Schema})
		if (err == nil) != c.ready {
			t.Errorf("%s: %v, want ready %v", c.name, err, c.ready)
		}
		if err != nil {
			says = err.Error()
		}
		for _, part := range c.says {
			if !strings.Contains(says, part) {
				t.Errorf("%s says %q, want %q", c.name, says, part)
			}
		}
		if c.says == nil && says != "" {
			t.Errorf("%s says %q", c.name, says)
		}
	}
}
