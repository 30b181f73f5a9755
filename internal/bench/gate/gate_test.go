package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/trainer"
)

// TestNoBadRefitIsPublished is a part of what "make bench-gate" does in full:
// 5 seeded windows for each of the ten ways to be bad.
func TestNoBadRefitIsPublished(t *testing.T) {
	now := time.Now()
	served, err := servedBundle(t.Context(), 7, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.refits = 5
			got, err := f.run(t.Context(), served, 7, now, func() {})
			if err != nil {
				t.Fatal(err)
			}
			if got.Published != 0 || got.Outcomes["accepted"] != 0 {
				t.Errorf("of %d bad refits %d were published: %v %v", got.Refits, got.Published, got.Outcomes, got.Grounds)
			}
		})
	}
}

// A gate that lets nothing through would pass the test above.
func TestGoodRefitsAreStillPublished(t *testing.T) {
	now := time.Now()
	k := kind{"good", 10, good(420)}
	got, err := k.run(t.Context(), trainer.Served{}, 7, now, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if got.share() < 0.5 {
		t.Errorf("of %d good refits %d were published: %v %v", got.Refits, got.Published, got.Outcomes, got.Grounds)
	}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 12)) }

func TestTheSameSeedGivesTheSameWindows(t *testing.T) {
	now := time.Now()
	for _, f := range faults {
		a, b := f.rows(seeded(3), 3, now), f.rows(seeded(3), 3, now)
		if len(a) != len(b) || len(a) == 0 {
			t.Fatalf("%s: %d and %d rows", f.name, len(a), len(b))
		}
		for i := range a {
			if a[i].Decision != b[i].Decision || !a[i].Vector.Equal(&b[i].Vector) || !a[i].Outcome.FinishedAt.Equal(b[i].Outcome.FinishedAt) {
				t.Fatalf("%s: row %d differs", f.name, i)
			}
		}
	}
}

func TestTheReportHasItsBars(t *testing.T) {
	var out strings.Builder
	folder := t.TempDir()
	if err := run(context.Background(), &out, "", 1, 0); err == nil || !strings.Contains(err.Error(), "--each") {
		t.Errorf("no refits: %v", err)
	}
	err := run(context.Background(), &out, folder, 1, 1) // one of each proves little: a bar may be short
	for _, name := range []string{"bad_published 0 <= 0 ok", "nothing_published_share", "good_first_published_share", "good_1000_published_share"} {
		if !strings.Contains(out.String(), "bar "+name) {
			t.Errorf("no bar %s (%v):\n%s", name, err, out.String())
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "gate.json"))
	if err != nil {
		t.Fatal(err)
	}
	var saved struct{ Data []tally }
	if err := json.Unmarshal(text, &saved); err != nil || len(saved.Data) != len(faults)+3 {
		t.Errorf("saved %d kinds, %v", len(saved.Data), err)
	}
}
