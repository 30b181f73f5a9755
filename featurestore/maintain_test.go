package featurestore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
)

const day = 24 * time.Hour

func TestMaintain(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	rng := rand.New(rand.NewPCG(1, 2))
	write := func(at time.Time) feature.ID {
		t.Helper()
		d := featurestoretest.Decision(rng, at, "qwen", 2)
		if err := store.WriteDecisions(ctx, []feature.Decision{d}); err != nil {
			t.Fatal(err)
		}
		if err := store.WriteOutcomes(ctx, []feature.Outcome{featurestoretest.Outcome(rng, d)}); err != nil {
			t.Fatal(err)
		}
		return d.ID
	}
	strays := func(want int64) {
		t.Helper()
		st, err := store.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if st.Decisions.Stray != want || st.Outcomes.Stray != want {
			t.Errorf("%d and %d rows outside of partitions, want %d", st.Decisions.Stray, st.Outcomes.Stray, want)
		}
	}

	early := write(noon) // before its partition
	midnight := write(noon.Truncate(day))
	ancient := write(noon.Add(-100 * day))
	strays(3)
	done, err := store.Maintain(ctx, noon, 2*day, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := featurestore.Maintenance{Created: []string{
		"decisions_20260314", "decisions_20260315", "decisions_20260316",
		"outcomes_20260314", "outcomes_20260315", "outcomes_20260316"}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	strays(1)
	late := write(noon.Truncate(day).Add(3*day - time.Microsecond)) // the last instant of the last day
	strays(1)
	if again, err := store.Maintain(ctx, noon, 2*day, 0); err != nil || len(again.Created) > 0 {
		t.Errorf("again: %+v %v", again, err)
	}

	// Ten days later, with three days kept.
	done, err = store.Maintain(ctx, noon.Add(10*day), 0, 8*day)
	if err != nil {
		t.Fatal(err)
	}
	want = featurestore.Maintenance{
		Created: []string{"decisions_20260324", "outcomes_20260324"},
		Dropped: []string{"decisions_20260314", "decisions_20260315", "outcomes_20260314", "outcomes_20260315"},
		Expired: 2,
	}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for id, kept := range map[feature.ID]bool{early: false, midnight: false, ancient: false, late: true} {
		if _, outcomes, err := store.Decision(ctx, id); (err == nil) != kept || kept && len(outcomes) != 1 {
			t.Errorf("%s: %v and %d outcomes, want kept %v", id, err, len(outcomes), kept)
		}
	}
	for _, bad := range [][2]time.Duration{{-1, 0}, {400 * day, 0}, {0, -1}} {
		if _, err := store.Maintain(ctx, noon, bad[0], bad[1]); err == nil {
			t.Errorf("ahead %v, retention %v: no error", bad[0], bad[1])
		}
	}
}

// Partitions come while rows are written and other processes do the same.
func TestMaintainTogether(t *testing.T) {
	store := featurestoretest.New(t)
	src := newSource()
	var decisions [][]feature.Decision
	for range 8 {
		var batch []feature.Decision
		for range 50 {
			d := featurestoretest.Decision(src.rng, noon.Add(time.Duration(src.rng.Int64N(int64(3*day)))), "qwen", 1)
			src.ids[d.ID] = true
			batch = append(batch, d)
		}
		decisions = append(decisions, batch)
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if _, err := store.Maintain(t.Context(), noon, time.Duration(i+1)*day, 0); err != nil {
				t.Error(err)
			}
		})
	}
	for _, batch := range decisions {
		wg.Go(func() {
			if err := store.WriteDecisions(t.Context(), batch); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	counts, err := store.Count(t.Context(), noon, noon.Add(4*day))
	if err != nil || counts.Decisions != int64(len(src.ids)) {
		t.Errorf("%+v %v, want %d", counts, err, len(src.ids))
	}
	if st, err := store.Status(t.Context()); err != nil || st.Decisions.Stray != 0 || st.Decisions.Partitions != 4 {
		t.Errorf("%+v %v, want 4 partitions and no stray row", st.Decisions, err)
	}
}

func TestStatus(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	src := newSource()
	w, _ := running(t, store, featurestore.WriterConfig{SpoolDir: t.TempDir()})
	src.record(w, 20)
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	lease, _, err := store.AcquireLease(ctx, "refit", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, accepted := range []bool{true, false} {
		if _, _, err := store.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "qwen", Accepted: accepted, MaxAge: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(st.Migration == st.Latest, st.Latest > 0, st.Decisions.Rows, st.Outcomes.Rows, st.Joined,
		st.Bundles, st.Accepted, len(st.Served), st.Bytes > 0, st.Decisions.Bytes > 0,
		st.Decisions.Oldest.Equal(noon), st.Decisions.Newest.Sub(noon))
	if want := "true true 20 20 20 2 1 1 true true true 19ms"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
