package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -count=1 -run ^TestReference$ . -update

var update = flag.Bool("update", false, "write docs/reference instead of comparing with it")

// The reference says what the binary is made of: the keys of its configuration,
// its verbs and its metrics. It is generated from these, so it can't fall behind.
func TestReference(t *testing.T) {
	const root = "../../docs/reference"
	pages := commandPages()
	pages["configuration.md"] = configurationPage(t)
	pages["metrics.md"] = metricsPage(t)

	for name, want := range pages {
		file := filepath.Join(root, filepath.FromSlash(name))
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v: run make generate and commit what it writes", err)
		} else if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("%s is not what its sources generate: run make generate and commit the result (-now +generated):\n%s", file, diff)
		}
	}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if _, ok := pages[filepath.ToSlash(name)]; ok {
			return nil
		}
		if *update {
			return os.Remove(file)
		}
		t.Errorf("%s: nothing generates it any more: run make generate and commit the result", file)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// row is one line of a Markdown table.
func row(cells ...string) string {
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.Join(strings.Fields(cells[i]), " "), "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// header is the head of a Markdown table.
func header(names ...string) string {
	return row(names...) + strings.Repeat("|---", len(names)) + "|\n"
}

// code is text as code, and nothing where there is none.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
