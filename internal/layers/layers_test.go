package layers_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/layers"
)

// root is the repository, seen from this folder.
const root = "../.."

func TestSourceKeepsToTheTable(t *testing.T) {
	broken, err := layers.Check(os.DirFS(root), layers.Table, layers.Doors)
	if err != nil {
		t.Fatal(err)
	}
	for _, sentence := range broken {
		t.Error(sentence)
	}
}

func TestTableIsSound(t *testing.T) {
	rows := map[string]layers.Layer{}
	for _, row := range layers.Table {
		if _, twice := rows[row.Package]; twice {
			t.Errorf("%s has two rows", row.Package)
		}
		if row.Why == "" {
			t.Errorf("%s has no reason", row.Package)
		}
		rows[row.Package] = row
	}
	for _, row := range layers.Table {
		for _, may := range row.May {
			below, listed := rows[may]
			switch {
			case !listed:
				t.Errorf("%s may import %s, which has no row", row.Package, may)
			case row.Pure && !below.Pure:
				t.Errorf("%s is pure and may import %s, which is not", row.Package, may)
			}
		}
	}
	for _, door := range layers.Doors {
		if door.Why == "" || len(door.Behind) == 0 {
			t.Errorf("the door to %s needs a reason and somebody behind it", door.Import)
		}
	}
}

// A small house, and what each change to it must be told.
func TestCheck(t *testing.T) {
	table := []layers.Layer{
		{Package: "low", Pure: true, Why: "it is the bottom"},
		{Package: "mid", May: []string{"low"}, Modules: []string{"example.org/lib"}, Why: "it is the middle"},
		{Package: "internal/telemetry", Why: "all use it"},
	}
	doors := []layers.Door{{Import: "example.org/db", Behind: []string{"store/..."}, Why: "SQL stands in one place"}}

	for name, test := range map[string]struct {
		files map[string]string
		want  []string // a part of each sentence, in order
	}{
		"what the rows allow": {files: map[string]string{
			"low/a.go":          `import ("math"; "time"; "math/rand/v2"); var _ = rand.New; var _ time.Duration; var _ = math.Pi`,
			"mid/a.go":          `import ("net/http"; "example.org/lib/sub"; "github.com/spillway-llm/spillway/low"; "github.com/spillway-llm/spillway/internal/telemetry")`,
			"cmd/spillway/a.go": `import ("github.com/spillway-llm/spillway/mid"; "example.org/other")`,
		}},
		"tests, testdata, hidden folders and other modules are exempt": {files: map[string]string{
			"low/a_test.go":        `import ("os"; "example.org/db")`,
			"low/testdata/x/a.go":  `import "os"`,
			".hidden/a.go":         `import "os"`,
			"low/_old/a.go":        `import "os"`,
			"tools/go.mod":         `module tools`,
			"tools/a.go":           `import "os"`,
			"low/doc.go":           ``,
			"mid/only_linux.go":    ``,
			"mid/internal_test.go": ``,
		}},
		"a package without a row": {
			files: map[string]string{"new/a.go": ``},
			want:  []string{"package new is missing from the table"},
		},
		"a package of tests without a row": {
			files: map[string]string{"new/a_test.go": ``},
			want:  []string{"package new is missing from the table"},
		},
		"an import upwards": {
			files: map[string]string{"low/a.go": `import "github.com/spillway-llm/spillway/mid"`},
			want:  []string{"low imports github.com/spillway-llm/spillway/mid (low/a.go:1): its row allows none, because it is the bottom"},
		},
		"a module nobody asked for": {
			files: map[string]string{"mid/a.go": `import "example.org/library"`},
			want:  []string{"mid imports example.org/library"},
		},
		"a closed door, for the command too": {
			files: map[string]string{
				"mid/a.go":          `import "example.org/db/v5"`,
				"cmd/spillway/a.go": `import "example.org/db"`,
			},
			want: []string{
				"cmd/spillway imports example.org/db (cmd/spillway/a.go:1): only store/... may, because SQL stands in one place",
				"mid imports example.org/db/v5",
			},
		},
		"nobody imports the command": {
			files: map[string]string{"mid/a.go": `import "github.com/spillway-llm/spillway/cmd/spillway"`},
			want:  []string{"nobody imports the command"},
		},
		"telemetry from a pure package": {
			files: map[string]string{"low/a.go": `import "github.com/spillway-llm/spillway/internal/telemetry"`},
			want:  []string{"low imports github.com/spillway-llm/spillway/internal/telemetry"},
		},
		"impure imports": {
			files: map[string]string{"low/a.go": `import ("os"; "net/url"; "log/slog"; "math/rand"; "crypto/rand")`},
			want:  []string{"low is pure and imports os (low/a.go:1)", "imports net/url", "imports log/slog", "imports math/rand", "imports crypto/rand"},
		},
		"impure names": {
			files: map[string]string{"low/a.go": `import ("fmt"; clock "time"; "context"; "math/rand/v2")
				var _ = clock.Now
				func f() { rand.Shuffle(1, nil); fmt.Println(); fmt.Sprint() }
				var _ clock.Ticker
				var _ = context.WithTimeout`},
			want: []string{"low is pure and uses clock.Now (low/a.go:2)", "uses rand.Shuffle", "uses fmt.Println", "uses clock.Ticker", "uses context.WithTimeout"},
		},
		"impure names behind a dot": {
			files: map[string]string{"low/a.go": `import . "time"`},
			want:  []string{"low is pure and imports time with a dot"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := layers.Check(house(test.files), table, doors)
			if err != nil {
				t.Fatal(err)
			}
			matches(t, got, test.want)
		})
	}
}

func TestCheckNamesTheFileThatDoesNotParse(t *testing.T) {
	_, err := layers.Check(house(map[string]string{"low/a.go": `func {`}), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "low/a.go") {
		t.Errorf("got %v, want an error that names low/a.go", err)
	}
}

func TestArchitectureTreeIsTheTree(t *testing.T) {
	text, err := os.ReadFile(root + "/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, err := layers.DocumentedTree(string(text))
	if err != nil {
		t.Fatalf("ARCHITECTURE.md: %v", err)
	}
	broken, err := layers.CheckTree(os.DirFS(root), documented)
	if err != nil {
		t.Fatal(err)
	}
	for _, sentence := range broken {
		t.Error(sentence)
	}
}

func TestDocumentedTree(t *testing.T) {
	got, err := layers.DocumentedTree("# House\n\n```tree\nrouter/       the service\n" +
		"  gateway/    front door: in/out\n              more of it\n  pool/\n    kube/     Kubernetes\ncmd/spillway/ the binary\n```\nafter\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cmd/spillway", "router", "router/gateway", "router/pool", "router/pool/kube"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"no tree":        "# House\n```\nrouter/\n```\n",
		"not closed":     "```tree\nrouter/\n",
		"odd indent":     "```tree\nrouter/\n   pool/\n```\n",
		"below nothing":  "```tree\nrouter/\n    pool/\n```\n",
		"first indented": "```tree\n  router/\n```\n",
	} {
		if tree, err := layers.DocumentedTree(text); err == nil {
			t.Errorf("%s: got %v, want an error", name, tree)
		}
	}
}

func TestCheckTree(t *testing.T) {
	files := map[string]string{
		"low/a.go":            ``,
		"low/deep/er/a.go":    ``,
		"low/testdata/x/a.go": ``,
		"bin/spillway":        `ELF`,
		"deploy/README.md":    `# Deploy`,
		".ci/run":             ``,
		".gitignore":          "/bin/\n*.test\n",
	}
	for name, test := range map[string]struct {
		documented []string
		want       []string
	}{
		"equal":          {documented: []string{"deploy", "low", "low/deep/er"}},
		"a plain folder": {documented: []string{"deploy", "low", "low/deep", "low/deep/er"}},
		"missing":        {documented: []string{"low"}, want: []string{"deploy/ is missing from", "low/deep/er/ is missing from"}},
		"gone":           {documented: []string{"deploy", "high", "low", "low/deep/er"}, want: []string{"lists high/, which does not exist"}},
		"twice":          {documented: []string{"deploy", "low", "low", "low/deep/er"}, want: []string{"lists low/ twice"}},
		"not a folder":   {documented: []string{"deploy", "deploy/README.md", "low", "low/deep/er"}, want: []string{"lists deploy/README.md/, which does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := layers.CheckTree(house(files), test.documented)
			if err != nil {
				t.Fatal(err)
			}
			matches(t, got, test.want)
		})
	}
}

// house makes a file system; Go files get a package clause in front, on the
// line where their text begins.
func house(files map[string]string) fstest.MapFS {
	built := fstest.MapFS{}
	for name, text := range files {
		if strings.HasSuffix(name, ".go") {
			text = "package p; " + text + "\n"
		}
		built[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return built
}

// matches fails unless got holds one sentence for each part in want, in order.
func matches(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("got\n  %s\nwant sentences with\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
