package featurestore_test

import (
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
)

func collected(t *testing.T, rows iter.Seq2[featurestore.Joined, error]) (all []featurestore.Joined) {
	t.Helper()
	for j, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// What one store gives out another takes, once, with candidates or without
// them, and gives out the same.
func TestImport(t *testing.T) {
	t.Parallel()
	from := featurestoretest.New(t)
	rng := rand.New(rand.NewPCG(11, 12))
	begin := time.Date(2025, 11, 1, 23, 59, 0, 0, time.UTC) // into the next day's partition
	until := begin.Add(time.Hour)
	for i := range 24 {
		d := featurestoretest.Decision(rng, begin.Add(time.Duration(i)*5*time.Second), "a", i%4)
		if err := from.WriteDecisions(t.Context(), []feature.Decision{d}); err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 {
			continue // has not ended
		}
		o := featurestoretest.Outcome(rng, d)
		o.Attempt = 1 + i%2
		if err := from.WriteOutcomes(t.Context(), []feature.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		read func(*featurestore.Store) iter.Seq2[featurestore.Joined, error]
	}{
		{"without candidates", func(s *featurestore.Store) iter.Seq2[featurestore.Joined, error] {
			return s.Joined(t.Context(), "", begin, until)
		}},
		{"with them", func(s *featurestore.Store) iter.Seq2[featurestore.Joined, error] {
			return s.Whole(t.Context(), "", begin, until)
		}},
	} {
		to := featurestoretest.New(t)
		want := collected(t, c.read(from))
		if len(want) != 24 {
			t.Fatalf("%s: %d rows", c.name, len(want))
		}
		half, err := to.Import(t.Context(), want[:10])
		if err != nil || half != 10 {
			t.Errorf("%s: %d added, %v", c.name, half, err)
		}
		created, err := to.Partition(t.Context(), []time.Time{begin, until, begin})
		if got := strings.Join(created, " "); err != nil || got != "decisions_20251101 decisions_20251102 outcomes_20251101 outcomes_20251102" {
			t.Errorf("%s: made %s, %v", c.name, got, err)
		}
		if created, err := to.Partition(t.Context(), []time.Time{until}); err != nil || created != nil {
			t.Errorf("%s: made %v again, %v", c.name, created, err)
		}
		if all, err := to.Import(t.Context(), want); err != nil || all != 14 {
			t.Errorf("%s: %d added, %v; 10 were there", c.name, all, err)
		}
		if diff := cmp.Diff(want, collected(t, c.read(to)), featurestoretest.Bits); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}

	days := make([]time.Time, 367)
	for i := range days {
		days[i] = begin.Add(time.Duration(-i) * 24 * time.Hour)
	}
	if created, err := from.Partition(t.Context(), days); err == nil || len(created) > 0 {
		t.Errorf("made %d partitions at once", len(created))
	}
}
