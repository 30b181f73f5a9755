package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-llm/spillway/router/pool"
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

// What the documents show as YAML is a part of a configuration, or an endpoints
// file, and is good: a reader may copy it.
func TestDocumentedYAML(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../*.md", "../../deploy/*.md", "../../docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no documents as %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	shown := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllSubmatch(text, -1) {
			shown++
			if strings.HasPrefix(string(block[1]), "endpoints:") {
				if _, wrong := pool.ParseEndpoints(block[1]); len(wrong) > 0 {
					t.Errorf("%s: endpoints file: %v", file, wrong)
				}
				continue
			}
			// A class may name a file that the reader has.
			if _, err := parseConfig(block[1]); err != nil && !strings.HasPrefix(err.Error(), "classes.") {
				t.Errorf("%s: %v in:\n%s", file, err, block[1])
			}
		}
	}
	if shown == 0 {
		t.Error("no document shows any YAML")
	}
}
