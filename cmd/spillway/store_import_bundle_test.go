package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/predictor"
)

// lightGBM writes the four files of an import as LightGBM 4 would, one of them
// with a categorical split, and returns the flags that name them.
func lightGBM(t *testing.T) (dir string, flags []string) {
	t.Helper()
	dir = shortDir(t)
	header := forest.Header{Objective: "quantile alpha:0.5", FeatureNames: feature.Names()}
	for range feature.Width {
		header.Ranges = append(header.Ranges, forest.Range{Min: 0.01, Max: 4})
	}
	for target := range bundle.Targets {
		f, err := forest.New(header, []forest.Tree{{
			Splits: []forest.Split{{Feature: int32(feature.Index("waiting")), Threshold: 2, Left: ^0, Right: ^1, Missing: forest.MissingNaN}},
			Leaves: []forest.Leaf{{Value: 0.02}, {Value: 0.12}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(f.Text()), "version=v3", "version=v4", 1)
		if target == bundle.TPOTP90 {
			text = strings.NewReplacer("num_cat=0", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=3", "decision_type=8", "decision_type=1", "threshold=2", "threshold=0").Replace(text)
		}
		file := filepath.Join(dir, target.String()+".txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--"+flagOf(target), file)
	}
	return dir, flags
}

// Forests from elsewhere are stored, served when asked for, and forecast.
func TestStoreImportBundle(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	dir, files := lightGBM(t)
	args := slices.Clip(append([]string{"store", "import-bundle", "--llm", llm}, files...))

	if out := must(t, database, args...); !strings.Contains(out, "bundle 1 stored") || !strings.Contains(out, "32 known answers") || !strings.Contains(out, "not served") {
		t.Errorf("import prints %q", out)
	}
	var list []listedBundle
	if err := json.Unmarshal([]byte(must(t, database, "store", "bundles", "--json", llm)), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Accepted || list[0].Served || len(list[0].Reasons) != 1 || !strings.Contains(list[0].Reasons[0], "imported") {
		t.Errorf("stored as %+v, want refused and not served", list)
	}

	socket := "unix://" + filepath.Join(shortDir(t), "predictor.sock")
	config := write(t, "predictor.yaml", fmt.Sprintf("predictor: {listen: %q, admin: \"\", poll_interval: 100ms}\n", socket))
	start(t, database, "predictor", "--config", config).logged("predictor serves")
	if out := must(t, database, append(args, "--serve", "--max-age", "2h")...); !strings.Contains(out, "bundle 2 stored") || !strings.Contains(out, "served now, and fresh for 2h0m0s") {
		t.Errorf("import --serve prints %q", out)
	}
	client, err := predictor.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eventually(t, func(ctx context.Context) error {
		s, err := client.Status(ctx)
		if err == nil && (len(s.LLMs) != 1 || s.LLMs[0].State != predictor.Serving || s.LLMs[0].Bundle != 2) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	var v feature.Vector
	for j := range v {
		v[j] = 1
	}
	v[feature.Index("waiting")] = 3
	out := make([]feature.Forecast, 1)
	if _, err := client.Forecast(t.Context(), llm, []feature.Vector{v}, out); err != nil {
		t.Fatal(err)
	}
	// Category 3 of waiting is none of the set {0, 1}.
	if r := out[0].Residual; !near(r.TTFT.P50, 0.12) || !near(r.TPOT.P90, 0.12) {
		t.Errorf("residual %+v, want 0.12", r)
	}

	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	must(t, database, "store", "rollback", llm, "2")
	if out := must(t, database, append(args, "--serve")...); !strings.Contains(out, "--release "+llm) {
		t.Errorf("import --serve beside a pinned bundle prints %q", out)
	}
	if p, err := store.ServedPointer(t.Context(), llm); err != nil || p.Version != 2 {
		t.Errorf("%+v %v is served, want bundle 2", p, err)
	}

	renamed := filepath.Join(dir, "renamed.txt")
	text, err := os.ReadFile(filepath.Join(dir, "ttft_p50.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(renamed, []byte(strings.Replace(string(text), "kv_used", "kv_cache", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	lease, _, err := store.AcquireLease(t.Context(), refitLease, "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []mistake{
		{name: "a trainer at work", args: args, says: []string{"a trainer is refitting"}},
		{name: "another column", args: append(args, "--ttft-p50", renamed), says: []string{"--ttft-p50", "renamed.txt", `"kv_cache"`, "want kv_used"}},
		{name: "no file", args: append(args, "--tpot-p90", filepath.Join(dir, "none")), says: []string{"--tpot-p90", "none"}},
		{name: "no forest", args: append(args, "--tpot-p50", write(t, "junk.txt", "junk")), says: []string{"--tpot-p50", "junk.txt", "not a LightGBM text"}},
		{name: "a file missing", args: args[:len(args)-2], says: []string{"--tpot-p90", "name the file"}},
		{name: "no LLM", args: append([]string{"store", "import-bundle"}, files...), says: []string{"--llm"}},
		{name: "clip", args: append(args, "--clip", "0"), says: []string{"--clip"}},
		{name: "max age", args: append(args, "--max-age", "-1s"), says: []string{"--max-age"}},
	} {
		m.database = database
		t.Run(m.name, m.check)
	}
	if err := store.ReleaseLease(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	must(t, database, args...)
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

// The store takes every bundle that can be encoded, and no larger one.
func TestStoreTakesWholeBundles(t *testing.T) {
	if featurestore.MaxBundleBytes != bundle.MaxSize {
		t.Errorf("the store takes %d bytes, a bundle has up to %d", featurestore.MaxBundleBytes, bundle.MaxSize)
	}
}
