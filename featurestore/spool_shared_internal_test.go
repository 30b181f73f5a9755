package featurestore

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A process gets a folder of its own also in the moment in which another tidies up
// those of ended ones.
func TestAFolderIsNotTidiedUpUnderWhoOpensIt(t *testing.T) {
	home := t.TempDir()
	first, err := openSpool(home, 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	ctx, stop := context.WithCancel(t.Context())
	var tidying sync.WaitGroup
	defer tidying.Wait()
	defer stop()
	for range 2 {
		tidying.Go(func() {
			for ctx.Err() == nil {
				if _, _, err := first.adopt(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		s, err := openSpool(home, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "lock")); err != nil {
			t.Fatal("the folder of one that lives was taken: ", err)
		}
		if kept, _, err := s.append([]record{someRecord(rng, 1)}); kept != 1 || err != nil {
			t.Fatalf("%d rows kept: %v", kept, err)
		}
		s.close()
	}
}
