package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/policy"
)

// The log of a simulation is one that production could have kept: in order, each
// decision whole and made again the same, and equal for equal flags.
func TestSimulateRows(t *testing.T) {
	t.Parallel()
	args := []string{"simulate", "--workload", "mixed", "--policies", "predicted", "--load", "2", "--seeds", "1", "--duration", "1m",
		"--endpoints", "3", "--set", "exploration=0.5", "--set", "exploration_harm=5"}
	var first []byte
	path := filepath.Join(t.TempDir(), "rows.parquet")
	for range 2 {
		must(t, "", append(args, "--rows", path)...)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(first, data) {
			t.Error("two runs wrote different rows")
		}
	}
	rows := readExport(t, path)
	explored := 0
	var last time.Time
	for i := range rows {
		d := &rows[i].Decision
		if err := rows[i].Check(time.Now()); err != nil || d.DecidedAt.Before(last) || rows[i].Outcome.Attempt != 1 || !rows[i].Corrected.Known() {
			t.Fatalf("row %d: %v, decided at %v behind %v, %+v", i, err, d.DecidedAt, last, rows[i].Outcome)
		}
		last = d.DecidedAt
		in, err := policy.Replay(d)
		if err != nil {
			t.Fatal(err)
		}
		var again policy.Choice
		if err := policy.Decide(in, &again); err != nil {
			t.Fatal(err)
		}
		if err := policy.Same(d, in, &again); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		if d.Explored {
			explored++
		}
	}
	if len(rows) < 50 || explored < 10 {
		t.Errorf("%d rows, %d explored", len(rows), explored)
	}
	for _, m := range []mistake{
		{name: "no place for the table", args: []string{"--csv", "no/such/table.csv", "--rows", path}, says: []string{"--csv", "no such file"}},
		{name: "two policies", args: []string{"--policies", "random", "--rows", path}, says: []string{"--rows", "this is 2"}},
		{name: "no format", args: []string{"--rows", "rows.txt"}, says: []string{"--rows", "rows.txt", ".parquet or .csv"}},
		{name: "no place", args: []string{"--rows", "no/such/rows.csv"}, says: []string{"--rows", "no such file"}},
		{name: "no key", args: []string{"--set", "luck=1"}, says: []string{"--set", `"luck"`}},
	} {
		m.args = append(args[:len(args):len(args)], m.args...)
		t.Run(m.name, m.check)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, first) {
		t.Errorf("mistakes left %d of %d bytes, %v", len(after), len(first), err)
	}
}
