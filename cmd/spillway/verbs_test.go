package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
)

func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	var verbs [][]string
	var collect func(cmd *cobra.Command, path []string)
	collect = func(cmd *cobra.Command, path []string) {
		verbs = append(verbs, path)
		for _, sub := range cmd.Commands() {
			collect(sub, append(path[:len(path):len(path)], sub.Name()))
		}
	}
	collect(root(), nil)
	if len(verbs) < 14 {
		t.Fatalf("only %d verbs: %q", len(verbs), verbs)
	}
	for _, verb := range verbs {
		help := must(t, "", append(verb, "--help")...)
		command := strings.Join(append([]string{"spillway"}, verb...), " ")
		_, examples, ok := strings.Cut(help, "\nExamples:\n")
		if !ok || !strings.Contains(examples, command) {
			t.Errorf("the help of %q has no example of it:\n%s", command, help)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var v struct{ Version, Revision, GoVersion, Platform, Schema string }
	out := must(t, "", "version", "--json")
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	if v.Version == "" || v.Schema != feature.Schema.String() {
		t.Errorf("version --json prints %s", out)
	}
}

func TestEmptyStore(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	status := func() (s featurestore.Status) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, database, "store", "status", "--json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := status(); s.Migration != 0 || s.Latest == 0 {
		t.Errorf("before: %+v", s)
	}
	if out := must(t, database, "store", "status"); !strings.Contains(out, "store migrate") {
		t.Errorf("without tables it does not say what to do: %s", out)
	}
	for range 2 { // a second time finds nothing to do
		if out := must(t, database, "store", "migrate"); !strings.HasPrefix(out, "schema version ") {
			t.Errorf("store migrate prints %q", out)
		}
	}
	if s := status(); s.Migration != s.Latest || s.Decisions.Partitions == 0 || s.Decisions.Rows != 0 {
		t.Errorf("after: %+v", s)
	}
	if out := must(t, database, "trainer", "--once", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("a refit of nothing prints %s", out)
	}
	if out := must(t, database, "trainer", "--once"); !strings.Contains(out, "nothing to refit") {
		t.Errorf("a refit of nothing prints %s", out)
	}
}
