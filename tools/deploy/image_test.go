package deploy_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// dockerfile is deploy/Dockerfile as BuildKit reads it; a warning of its linter
// is an error.
func dockerfile(t *testing.T) []instructions.Stage {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tree.Warnings {
		t.Errorf("Dockerfile: %s", w.Short)
	}
	rules := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) { t.Errorf("Dockerfile: %s: %s", rule, message) }})
	stages, _, err := instructions.Parse(tree.AST, rules)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// The image is the binary and nothing that could run beside it, as a user who is
// not root, with commands that exist.
func TestImage(t *testing.T) {
	stages := dockerfile(t)
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is based on %s, want scratch", last.BaseName)
	}
	var user, entry string
	var healthy, said []string
	placed := map[string]bool{}
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			placed[c.DestPath] = true
		case *instructions.UserCommand:
			user = c.User
		case *instructions.EntrypointCommand:
			if c.PrependShell || len(c.CmdLine) != 1 {
				t.Fatalf("entrypoint %q: want the binary alone: there is no shell", c.CmdLine)
			}
			entry = c.CmdLine[0]
		case *instructions.CmdCommand:
			said = c.CmdLine
		case *instructions.HealthCheckCommand:
			healthy = c.Health.Test
		case *instructions.RunCommand:
			t.Errorf("%s: nothing can run in an image without a shell", c)
		}
	}
	if entry != entrypoint || !placed[entry] {
		t.Errorf("the entrypoint is %s, want %s, and that it was copied there", entry, entrypoint)
	}
	if uid, group, _ := strings.Cut(user, ":"); uid == "" || uid == "0" || strings.Trim(uid, "0123456789") != "" || group != "0" {
		t.Errorf("the user is %q, want a number that is not root's, so that runAsNonRoot can tell, in group 0, as any UID of a cluster is", user)
	}
	if len(healthy) < 2 || healthy[0] != "CMD" || healthy[1] != entry {
		t.Fatalf("health is asked by %q, want %s: there is no shell", healthy, entry)
	}
	run(t, healthy[2:], nil)
	if !slices.Equal(said, []string{"--help"}) {
		t.Errorf("without arguments it runs %q", said)
	}
}

// The binary needs no loader and no library. make build makes it with the
// settings that the Dockerfile has too.
func TestBinaryIsStatic(t *testing.T) {
	file, err := elf.Open(os.Getenv("SPILLWAY_BINARY"))
	var format *elf.FormatError
	if errors.As(err, &format) {
		t.Skip("this machine's binaries are not ELF; the image's is")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary asks for a dynamic loader")
		}
	}
	if libraries, err := file.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the binary needs %v (%v)", libraries, err)
	}
	built := ""
	for _, c := range dockerfile(t)[0].Commands {
		if c, ok := c.(*instructions.RunCommand); ok {
			built += strings.Join(c.CmdLine, " ")
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "./cmd/spillway"} {
		if !strings.Contains(built, want) {
			t.Errorf("the Dockerfile builds without %s", want)
		}
	}
}

// Dockerfile.dockerignore lets through every file that the binary is built from,
// and neither tests nor what else lies in the repository.
func TestImageIsBuiltFromItsSources(t *testing.T) {
	text, err := os.Open(root + "/deploy/Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	patterns, err := ignorefile.ReadAll(text)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-json=Dir,Standard,GoFiles,EmbedFiles,OtherFiles,SFiles", "./cmd/spillway")
	list.Dir, list.Env = absolute, append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{"go.mod", "go.sum"}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                                     string
			Standard                                bool
			GoFiles, EmbedFiles, OtherFiles, SFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Rel(absolute, p.Dir)
		if err != nil || p.Standard || strings.HasPrefix(dir, "..") {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.EmbedFiles, p.OtherFiles, p.SFiles) {
			needed = append(needed, filepath.Join(dir, file))
		}
	}
	if len(needed) < 100 {
		t.Fatalf("the binary is built from %d files, which is hard to believe", len(needed))
	}
	for _, file := range needed {
		if drop, err := ignored.MatchesOrParentMatches(file); err != nil || drop {
			t.Errorf("%s is needed and left out (%v)", file, err)
		}
	}
	for _, file := range []string{".git/config", "docs/faq.md", "tools/go.mod", "router/route/route_test.go", "router/pool/kube/testdata/churn.json", "deploy/config/spillway.yaml", ".spillway/postgres/PG_VERSION"} {
		if drop, err := ignored.MatchesOrParentMatches(file); err != nil || !drop {
			t.Errorf("%s is sent along for nothing (%v)", file, err)
		}
	}
}
