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
// file, and is good: a reader may copy it. Kubernetes' own and the chart's values are
// looked at elsewhere.
func TestDocumentedYAML(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^(?:```yaml|cat > [a-z]+\\.yaml <<'END')\n(.*?)^(?:```|END)$")
	shown := 0
	for file, text := range documents(t) {
		for _, block := range blocks.FindAllStringSubmatch(text, -1) {
			yaml := []byte(block[1])
			switch {
			case strings.HasPrefix(block[1], "apiVersion:"), strings.HasPrefix(block[1], "inferencePool:"):
				continue
			case strings.HasPrefix(block[1], "endpoints:"):
				if _, wrong := pool.ParseEndpoints(yaml); len(wrong) > 0 {
					t.Errorf("%s: endpoints file: %v", file, wrong)
				}
			default: // a class may name a file that the reader has
				if _, err := parseConfig(yaml); err != nil && !strings.HasPrefix(err.Error(), "classes.") {
					t.Errorf("%s: %v in:\n%s", file, err, yaml)
				}
			}
			shown++
		}
	}
	if shown == 0 {
		t.Error("no document shows any YAML")
	}
}

// What documents link to in this repository is there, headings too; but results
// are listed before their benchmarks have run.
func TestDocumentedLinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	headings := regexp.MustCompile("(?m)^#+ (.*)$")
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	all := documents(t)
	for file, text := range all {
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") || strings.Contains(file, "/docs/results/") {
				continue
			}
			target := file
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(file), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", file, link[1], err)
				continue
			}
			if link[2] == "" {
				continue
			}
			found := false
			for _, heading := range headings.FindAllStringSubmatch(all[target], -1) {
				anchor := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-")
				found = found || anchor == link[2]
			}
			if !found {
				t.Errorf("%s: link to %s#%s: no such heading", file, link[1], link[2])
			}
		}
	}
}

// documents are the texts of all that people read, by file.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "deploy/*.md", "notebooks/*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no documents as %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(text)
		}
	}
	return all
}
