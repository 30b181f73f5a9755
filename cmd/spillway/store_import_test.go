package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// storeOfAll fills a database with all that a decision may be: complete or not,
// shed, not ended, tried twice, of several days and LLMs.
func storeOfAll(t *testing.T, database string) {
	t.Helper()
	must(t, database, "store", "migrate")
	begin := time.Now().Add(-50 * time.Hour)
	storeExported(t, database, policyRows("qwen", 300, begin))
	rng := rand.New(rand.NewPCG(5, 6))
	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	for i := range 60 {
		d := featurestoretest.Decision(rng, begin.Add(time.Duration(i)*20*time.Minute), "another", i%5)
		if i%3 == 0 && len(d.Candidates) > 0 {
			d.Complete, d.Rest, d.RestCostMin, d.RestCostMax = false, 7, 0.5, 80
		}
		decisions = append(decisions, d)
		for attempt := range i % 4 % 3 {
			o := featurestoretest.Outcome(rng, d)
			o.Attempt = 1 + attempt
			outcomes = append(outcomes, o)
		}
	}
	if err := store.WriteDecisions(t.Context(), decisions); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

// What one store exports another imports, once, and exports the same to the byte.
func TestStoreImport(t *testing.T) {
	t.Parallel()
	from := newDatabase(t)
	storeOfAll(t, from)
	dir := t.TempDir()
	exported := func(database, name string, args ...string) (string, []byte) {
		path := filepath.Join(dir, name)
		must(t, database, append([]string{"store", "export", "--out", path}, args...)...)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, data
	}
	for _, args := range [][]string{{"--candidates"}, nil} {
		to := newDatabase(t)
		must(t, to, "store", "migrate")
		parquet, wantParquet := exported(from, "from.parquet", args...)
		csv, wantCSV := exported(from, "from.csv", args...)
		if out := must(t, to, "store", "import", parquet); !strings.Contains(out, "from.parquet: 360 decisions, 360 of them new") {
			t.Errorf("import prints %q", out)
		}
		if out := must(t, to, "store", "import", csv, parquet); !strings.Contains(out, "from.csv: 360 decisions, 0 of them new") {
			t.Errorf("a second import prints %q", out)
		}
		if _, got := exported(to, "to.parquet", args...); !bytes.Equal(got, wantParquet) {
			t.Errorf("%v: Parquet differs after a round trip: %d bytes, want %d", args, len(got), len(wantParquet))
		}
		if _, got := exported(to, "to.csv", args...); !bytes.Equal(got, wantCSV) {
			t.Errorf("%v: CSV differs after a round trip: %d bytes, want %d", args, len(got), len(wantCSV))
		}
	}
}

// One bad row, and nothing is imported.
func TestStoreImportMistakes(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	good := policyRows("qwen", 20, time.Now().Add(-time.Hour))
	change := func(name string, do func(r *export.Row)) []string {
		rows := append([]export.Row(nil), good...)
		do(&rows[16])
		return []string{writeExport(t, "good.parquet", good), writeExport(t, name, rows)}
	}
	text := func(name, text string) []string { return []string{write(t, name, text)} }
	whole := writeExport(t, "good.csv", good)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	const nothing = "nothing was imported"
	check := func(m mistake) {
		t.Helper()
		m.database, m.args = database, append([]string{"store", "import"}, m.args...)
		t.Run(m.name, m.check)
	}
	check(mistake{name: "no tables", args: []string{whole}, says: []string{nothing, "spillway store migrate"}})
	must(t, database, "store", "migrate")
	for _, m := range []mistake{
		{name: "nothing", says: []string{"want the files to import", "FILE..."}},
		{name: "no file", args: []string{"none.csv"}, says: []string{nothing, "none.csv", "no such file"}},
		{name: "a folder", args: []string{t.TempDir()}, says: []string{nothing, "regular file"}},
		{name: "other schema", args: change("other.csv", func(r *export.Row) { r.Decision.Schema[3]++ }), says: []string{nothing, "other.csv: row 17: column schema", "this build has"}},
		{name: "no probability", args: change("other.parquet", func(r *export.Row) { r.Decision.Propensity = 2 }), says: []string{nothing, "other.parquet: row 17: column propensity: 2 is no probability"}},
		{name: "no status", args: change("other.csv", func(r *export.Row) { r.Outcome.Status = "banana" }), says: []string{nothing, "other.csv: line 18: column status", "banana"}},
		{name: "no number", args: text("rows.csv", strings.Replace(string(data), ",qwen,", ",qwen,x,", 1)), says: []string{nothing, "rows.csv", "line 2", "wrong number of fields"}},
		{name: "another table", args: text("rows.csv", "a,b\n1,2\n"), says: []string{nothing, "rows.csv: no column decision"}},
		{name: "no rows", args: text("rows.csv", string(data[:bytes.IndexByte(data, '\n')+1])), says: []string{nothing, "rows.csv has no decisions"}},
		{name: "cut off", args: text("rows.parquet", "PAR1..."), says: []string{nothing, "rows.parquet: not a Parquet file"}},
	} {
		check(m)
	}
	if out := must(t, database, "store", "import", whole); !strings.Contains(out, "20 decisions, 20 of them new") {
		t.Errorf("after all mistakes, import prints %q", out)
	}
}
