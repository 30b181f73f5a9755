package featurestoretest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
)

// lateOutcome: a retried request has its outcome at attempt 2, and a sweep may
// have given it up before that came.
func lateOutcome(t *testing.T, s Store) {
	r := rng()
	for _, c := range []struct {
		name   string
		writes [][]string // batches of outcomes
		want   []string
	}{
		{"attempt 2 after lost", [][]string{{"lost 1"}, {"ok 2"}}, []string{"ok 2"}},
		{"attempt 1 after lost", [][]string{{"lost 1"}, {"ok 1"}}, []string{"ok 1"}},
		{"both in one batch", [][]string{{"lost 1", "ok 2"}}, []string{"ok 2"}},
		{"both in one batch, the other way", [][]string{{"ok 2", "lost 1"}}, []string{"ok 2"}},
		{"lost after attempt 2", [][]string{{"ok 2"}, {"lost 1"}}, []string{"ok 2"}},
		{"both attempts", [][]string{{"lost 1"}, {"ok 2", "ok 1"}}, []string{"ok 1", "ok 2"}},
		{"lost twice", [][]string{{"lost 1", "lost 2"}, {"lost 2"}}, []string{"lost 1"}},
	} {
		d := Decision(r, noon, "qwen", 2)
		must(t, s.WriteDecisions(t.Context(), []feature.Decision{d}))
		made := map[string]feature.Outcome{}
		for _, status := range []feature.Status{feature.Lost, feature.OK} {
			for attempt := 1; attempt <= 2; attempt++ {
				o := Outcome(r, d)
				o.Status, o.Attempt = status, attempt
				made[string(status)+" "+string(rune('0'+attempt))] = o
			}
		}
		for _, names := range c.writes {
			var batch []feature.Outcome
			for _, name := range names {
				batch = append(batch, made[name])
			}
			must(t, s.WriteOutcomes(t.Context(), batch))
		}
		var want []feature.Outcome
		for _, name := range c.want {
			want = append(want, made[name])
		}
		_, got, err := s.Decision(t.Context(), d.ID)
		must(t, err)
		if diff := cmp.Diff(want, got, Bits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// sweepAny: routers that are gone sweep nothing, and a spool may bring what
// they decided days ago.
func sweepAny(t *testing.T, s Store) {
	r := rng()
	var d []feature.Decision
	for i, age := range []time.Duration{time.Minute, 2 * time.Hour, 20 * 24 * time.Hour, 20 * 24 * time.Hour} {
		d = append(d, Decision(r, noon.Add(-age), "qwen", 1))
		d[i].Router = []string{"gone", "gone", "gone", "here"}[i]
	}
	must(t, s.WriteDecisions(t.Context(), d))
	n, err := s.Sweep(t.Context(), "here", noon)
	must(t, err)
	if n != 1 {
		t.Errorf("its own sweep wrote %d, want the one of 20 days ago", n)
	}
	for _, want := range []int64{2, 0} {
		n, err := s.Sweep(t.Context(), "", noon.Add(-time.Hour))
		must(t, err)
		if n != want {
			t.Errorf("a sweep of any router wrote %d, want %d", n, want)
		}
	}
	counts, err := s.Count(t.Context(), noon.AddDate(0, 0, -30), noon)
	must(t, err)
	if diff := cmp.Diff(featurestore.Counts{Decisions: 4, Outcomes: 3, Joined: 3}, counts); diff != "" {
		t.Error(diff)
	}
}

// pin: what a person rolled back stays, whatever refits find.
func pin(t *testing.T, s Store) {
	ctx := t.Context()
	lease, _, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	must(t, err)
	publish := func(want bool) int64 {
		t.Helper()
		version, served, err := s.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "qwen", Bytes: []byte{1}, Accepted: true, MaxAge: time.Minute})
		must(t, err)
		if served != want {
			t.Errorf("bundle %d: served is %v, want %v", version, served, want)
		}
		return version
	}
	pointer := func() featurestore.Pointer {
		t.Helper()
		p, err := s.ServedPointer(ctx, "qwen")
		must(t, err)
		return p
	}
	if err := s.Release(ctx, "qwen"); !errors.Is(err, featurestore.ErrNotPinned) {
		t.Errorf("releasing nothing: %v, want ErrNotPinned", err)
	}
	first := publish(true)
	publish(true)
	must(t, s.Rollback(ctx, "qwen", first))
	third := publish(false)
	if p := pointer(); p.Version != first || !p.Pinned || p.Reason != "rollback" {
		t.Errorf("after a refit the pointer is %+v, want version %d pinned", p, first)
	}
	if b, err := s.Bundle(ctx, third); err != nil || !b.Accepted {
		t.Errorf("the refit's bundle is %+v %v", b, err)
	}
	must(t, s.Revalidate(ctx, lease, "qwen", first, pointer().ValidatedAt.Add(time.Second), "rescored"))
	if p := pointer(); !p.Pinned || p.Reason != "rescored" {
		t.Errorf("revalidated the pointer is %+v, want it pinned", p)
	}
	served, err := s.Served(ctx, "qwen")
	if must(t, err); !served.Pinned {
		t.Errorf("served %+v, want it pinned", served.Pointer)
	}
	must(t, s.Rollback(ctx, "qwen", third)) // to and fro
	must(t, s.Release(ctx, "qwen"))
	if p := pointer(); p.Version != third || p.Pinned || p.Reason != "released" {
		t.Errorf("released the pointer is %+v, want version %d", p, third)
	}
	if err := s.Release(ctx, "qwen"); !errors.Is(err, featurestore.ErrNotPinned) {
		t.Errorf("releasing twice: %v, want ErrNotPinned", err)
	}
	if last := publish(true); pointer().Version != last {
		t.Errorf("after the release %+v is served, want %d", pointer(), last)
	}
	history, err := s.ServedHistory(ctx, "qwen", 10)
	must(t, err)
	var reasons []string
	for _, p := range history {
		reasons = append(reasons, p.Reason)
	}
	if diff := cmp.Diff([]string{"published", "released", "rollback", "rescored", "rollback", "published", "published"}, reasons); diff != "" {
		t.Errorf("history, newest first (-want +got):\n%s", diff)
	}
	all, err := s.Bundles(ctx, "", 10)
	if must(t, err); len(all) != 4 {
		t.Errorf("%d bundles of all LLMs, want 4", len(all))
	}
}
