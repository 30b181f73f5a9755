package main

import (
	"bytes"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// What the store holds comes out of both formats the same.
func TestStoreExport(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	begin := time.Now().Add(-30 * time.Minute)
	rng := rand.New(rand.NewPCG(9, 9))
	storeRows(t, rng, database, "qwen", "h100", []feature.Row{
		ownRow(begin, feature.OK, 1000, 0, 7, 0),
		ownRow(begin.Add(time.Second), feature.UpstreamError, 500, 320, 10, feature.Unknown),
	})
	storeRows(t, rng, database, "another", "h100", []feature.Row{ownRow(begin.Add(-2*time.Hour), feature.OK, 1, 0, 1, 0)})
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		file string
		args []string
		rows int
	}{
		{"all.parquet", nil, 3},
		{"all.csv", nil, 3},
		{"some.csv", []string{"--window", "1h"}, 2},
		{"one.parquet", []string{"--llm", "another"}, 1},
		{"named-otherwise", []string{"--format", "csv", "--llm", "qwen"}, 2},
	} {
		_, said, code := run(t, database, append([]string{"store", "export", "--out", file(c.file)}, c.args...)...)
		if got := len(readExport(t, file(c.file))); code != 0 || got != c.rows || !strings.Contains(said, c.file) {
			t.Errorf("%s: %d rows, want %d; exit code %d, said %q", c.file, got, c.rows, code, said)
		}
	}
	parquet, csv := readExport(t, file("all.parquet")), readExport(t, file("all.csv"))
	if diff := cmp.Diff(parquet, csv, featurestoretest.Bits); diff != "" {
		t.Errorf("the formats differ (-parquet +csv):\n%s", diff)
	}
	if r := parquet[1]; r.Decision.LLM != "qwen" || r.Decision.ChosenVector[feature.ColumnPromptTokens] != 1000 || r.Outcome.OutputTokens != 7 {
		t.Errorf("the second row is %+v", r)
	}

	for _, m := range []mistake{
		{name: "no file", args: nil, says: []string{"--out is needed"}},
		{name: "no format", args: []string{"--out", file("rows.txt")}, says: []string{"--format", `"txt"`, "parquet or csv"}},
		{name: "no place", args: []string{"--out", file("no/such.csv")}, says: []string{"--out", "no such file"}},
		{name: "backwards", args: []string{"--out", file("x.csv"), "--window", "-1h"}, says: []string{"--window"}},
		{name: "too young", args: []string{"--out", file("x.csv"), "--window", "1s"}, says: []string{"--window 1s", "no decisions are that young"}},
		{name: "unknown LLM", args: []string{"--out", file("x.csv"), "--llm", "gpt"}, says: []string{"no decisions of gpt"}},
	} {
		m.database, m.args = database, append([]string{"store", "export"}, m.args...)
		t.Run(m.name, m.check)
	}
	for _, name := range []string{"x.csv", "x.csv.part"} {
		if _, err := os.Stat(file(name)); err == nil {
			t.Errorf("%s was left, which holds nothing", name)
		}
	}

	// What an earlier export wrote outlives one that fails.
	before, err := os.ReadFile(file("all.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if _, said, code := run(t, database, "store", "export", "--out", file("all.csv"), "--llm", "gpt"); code == 0 {
		t.Errorf("exported nothing and said %q", said)
	}
	if after, err := os.ReadFile(file("all.csv")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("an export that failed left %d of %d bytes, %v", len(after), len(before), err)
	}

	// A pipe gets the rows alone, and stays.
	if out := must(t, database, "store", "export", "--out", "/dev/stdout", "--format", "csv"); out != string(before) {
		t.Errorf("standard output has %d bytes, want the %d of the file", len(out), len(before))
	}
}

func readExport(t *testing.T, name string) (all []export.Row) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var rows iter.Seq2[export.Row, error] = export.ReadCSV(bytes.NewReader(data))
	if bytes.HasPrefix(data, []byte("PAR1")) {
		rows = export.ReadParquet(bytes.NewReader(data), int64(len(data)))
	}
	for r, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}
