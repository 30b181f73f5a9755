package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Every documented configuration loads, and the one that lists every key says
// the defaults.
func TestDocumentedConfigurations(t *testing.T) {
	files, err := filepath.Glob("../../deploy/config/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no configurations found: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseConfig(data)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if filepath.Base(file) != "spillway.yaml" {
			continue
		}
		examples := cmpopts.IgnoreFields(Config{}, "Classes", "Router.Endpoints")
		if diff := cmp.Diff(defaultConfig(), c, examples); diff != "" {
			t.Errorf("%s does not say the defaults (-default +file):\n%s", file, diff)
		}
	}
}
