package featurestore_test

import (
	"path/filepath"
	"testing"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
)

// Writers that share a spool lose nothing of each other: what one leaves on disk,
// the next one that lives brings to the database, whoever had which folder.
func TestWritersShareASpool(t *testing.T) {
	dir, src := t.TempDir(), newSource()
	shared := featurestore.WriterConfig{SpoolDir: dir, SharedSpool: true}
	folders := func() int {
		t.Helper()
		there, err := filepath.Glob(filepath.Join(dir, "beside-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(there)
	}
	first, endFirst := running(t, open(t, nowhere), shared)
	src.record(first, 20)
	second, endSecond := running(t, open(t, nowhere), shared)
	src.record(second, 20)
	endFirst()
	endSecond()
	if n := folders(); n != 1 {
		t.Fatalf("%d folders beside the first writer's, want 1", n)
	}

	store := featurestoretest.New(t)
	log := new(heard)
	shared.Logger = log.logger()
	third, endThird := running(t, open(t, nowhere), shared) // takes both over, and keeps them
	src.record(third, 20)
	log.wait(t, "rows that another process left wait in the spool")
	log = new(heard)
	shared.Logger = log.logger()
	fourth, endFourth := running(t, store, shared)
	src.record(fourth, 20)
	if err := fourth.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	endThird()
	log.wait(t, "rows that another process left wait in the spool")
	if err := fourth.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	endFourth()
	src.stored(t, store)
	if n := folders(); n != 0 {
		t.Errorf("%d folders are left", n)
	}
	if s := fourth.Stats(); s.Dropped != 0 {
		t.Errorf("%d rows were dropped", s.Dropped)
	}
}

// One that has the directory for itself brings over what was left there while it
// was shared.
func TestASpoolThatIsSharedNoMore(t *testing.T) {
	dir, src := t.TempDir(), newSource()
	shared := featurestore.WriterConfig{SpoolDir: dir, SharedSpool: true}
	_, endFirst := running(t, open(t, nowhere), shared)
	second, endSecond := running(t, open(t, nowhere), shared)
	src.record(second, 20)
	endSecond()
	endFirst()

	store, log := featurestoretest.New(t), new(heard)
	alone, _ := running(t, store, featurestore.WriterConfig{SpoolDir: dir, Logger: log.logger()})
	log.wait(t, "rows that another process left wait in the spool")
	if err := alone.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	src.stored(t, store)
}
