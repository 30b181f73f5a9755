package featurestore_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Old bundles keep their verdicts and lose their bytes, but for those that
// somebody may still want.
func TestMaintainEmptiesBundles(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	lease, _, err := store.AcquireLease(ctx, "refit", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(llm string, accepted bool) int64 {
		t.Helper()
		v, _, err := store.PublishBundle(ctx, lease, featurestore.Bundle{LLM: llm, Bytes: []byte("bundle"), Accepted: accepted,
			MaxAge: time.Minute, Verdict: []byte(`{"reasons": ["none"]}`)})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var want []int64 // emptied
	want = append(want, publish("qwen", false))
	pinned := publish("qwen", true)
	want = append(want, publish("qwen", true)) // replaced, and not among the last 10
	recent := publish("qwen", true)            // as old, but served until lately
	for range 10 {
		publish("qwen", true)
	}
	want = append(want, publish("qwen", false))
	publish("llama", true)
	if err := store.Rollback(ctx, "qwen", pinned); err != nil {
		t.Fatal(err)
	}

	const retention = 30 * day
	now := time.Now()
	if done, err := store.Maintain(ctx, now.Add(29*day), 0, retention); err != nil || done.Emptied != 0 {
		t.Errorf("within their retention: %+v %v", done, err)
	}
	if done, err := store.Maintain(ctx, now.Add(400*day), 0, 0); err != nil || done.Emptied != 0 {
		t.Errorf("with no end to retention: %+v %v", done, err)
	}
	if _, err := store.Pool().Exec(ctx, `UPDATE served_history SET changed_at = now() + interval '10 days' WHERE bundle = $1`, recent); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{3, 0} {
		if done, err := store.Maintain(ctx, now.Add(35*day), 0, retention); err != nil || done.Emptied != n {
			t.Errorf("emptied %d %v, want %d", done.Emptied, err, n)
		}
	}
	var got []int64
	all, err := store.Bundles(ctx, "", 100)
	if err != nil || len(all) != 16 {
		t.Fatalf("%d bundles %v, want 16", len(all), err)
	}
	for _, listed := range slices.Backward(all) {
		b, err := store.Bundle(ctx, listed.Version)
		if err != nil {
			t.Fatal(err)
		}
		if string(b.Verdict) != `{"reasons": ["none"]}` || b.SHA256 != all[0].SHA256 || b.EmptiedAt.IsZero() != (string(b.Bytes) == "bundle") ||
			!b.EmptiedAt.Equal(listed.EmptiedAt) {
			t.Errorf("bundle %+v, listed as %+v", b, listed)
		}
		if !b.EmptiedAt.IsZero() {
			got = append(got, b.Version)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("emptied (-want +got):\n%s", diff)
	}
	if err := store.Rollback(ctx, "qwen", want[1]); !errors.Is(err, featurestore.ErrNotFound) {
		t.Errorf("rolling back to a bundle without bytes: %v, want ErrNotFound", err)
	}
}

// Days that are over are swept once, and again when something came late.
func TestSweepOfDays(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	registry := prometheus.NewRegistry()
	if _, err := featurestore.NewWriter(store, featurestore.WriterConfig{SpoolDir: t.TempDir(), Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Maintain(ctx, noon.Add(-2*day), 2*day, 0); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	write := func(at time.Time) feature.Decision {
		t.Helper()
		d := featurestoretest.Decision(rng, at, "qwen", 1)
		if err := store.WriteDecisions(ctx, []feature.Decision{d}); err != nil {
			t.Fatal(err)
		}
		// What a partition got is counted soon; here at once.
		for _, conn := range store.Pool().AcquireAllIdle(ctx) {
			if _, err := conn.Exec(ctx, `SELECT pg_stat_force_next_flush()`); err != nil {
				t.Fatal(err)
			}
			conn.Release()
		}
		return d
	}
	sweep := func(olderThan time.Time, want int64) {
		t.Helper()
		n, err := store.Sweep(ctx, "router-0", olderThan)
		if err != nil || n != want {
			t.Errorf("swept %d %v, want %d", n, err, want)
		}
	}
	midnight := noon.Truncate(day)
	first := write(midnight.Add(-day))        // the first instant of yesterday
	write(midnight.Add(-time.Microsecond))    // its last one
	write(midnight.Add(-2*day + 3*time.Hour)) // the day before
	write(noon.Add(-time.Minute))             // today
	write(noon.Add(time.Minute))              // too young
	write(midnight.Add(-9 * day))             // no partition
	sweep(noon, 5)
	sweep(noon, 0)
	sweep(noon.Add(2*time.Minute), 1)
	write(midnight.Add(-day + time.Hour)) // comes late
	sweep(noon, 1)
	sweep(noon, 0)
	if got := values(t, registry)["spillway_store_lost_total{}"]; got != 7 {
		t.Errorf("counted %v lost, want 7", got)
	}

	// A real outcome of another attempt that the sweep did not see.
	o := featurestoretest.Outcome(rng, first)
	if _, err := store.Pool().Exec(ctx, `INSERT INTO outcomes (decided_at, decision, attempt, status) VALUES ($1, $2, 2, 'ok')`, o.DecidedAt, o.Decision.String()); err != nil {
		t.Fatal(err)
	}
	write(midnight.Add(-day + 2*time.Hour))
	sweep(noon, 1)
	if _, outcomes, err := store.Decision(ctx, first.ID); err != nil || len(outcomes) != 1 || outcomes[0].Attempt != 2 {
		t.Errorf("%+v %v, want attempt 2 alone", outcomes, err)
	}
}

// A bundle that something else has stored and that is too large stays in the
// database.
func TestHugeBundleStaysInTheDatabase(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	lease, _, err := store.AcquireLease(ctx, "refit", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	version, _, err := store.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "qwen", Bytes: []byte("bundle"), Accepted: true, MaxAge: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes int
		ok    bool
	}{{featurestore.MaxBundleBytes, true}, {featurestore.MaxBundleBytes + 1, false}} {
		if _, err := store.Pool().Exec(ctx, `UPDATE bundles SET bytes = convert_to(repeat('x', $2), 'UTF8') WHERE version = $1`, version, c.bytes); err != nil {
			t.Fatal(err)
		}
		b, err := store.Bundle(ctx, version)
		if (err == nil) != c.ok || c.ok && len(b.Bytes) != c.bytes || !c.ok && !strings.Contains(err.Error(), "no bundle may have more") {
			t.Errorf("a bundle of %d bytes: %d were read, %v", c.bytes, len(b.Bytes), err)
		}
		served, err := store.Served(ctx, "qwen")
		if (err == nil) != c.ok || c.ok && len(served.Bytes) != c.bytes || !c.ok && !strings.Contains(err.Error(), "no bundle may have more") {
			t.Errorf("a served bundle of %d bytes: %d were read, %v", c.bytes, len(served.Bytes), err)
		}
	}
}
