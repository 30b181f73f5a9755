package layers

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A folder is one package's source: the parsed files of one folder that are
// not tests.
type folder struct {
	path  string // below the module root, with slashes; "." is the root
	files []file
}

type file struct {
	name   string // path below the module root
	syntax *ast.File
	set    *token.FileSet
}

// position names a place in a file as "router/pool/scrape.go:12".
func (f file) position(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.name, f.set.Position(p).Line)
}

// folders parses every Go file below root that the go command would consider
// part of the module, and returns the folders that hold any, in order. A
// folder with test files alone is listed, with no files.
func folders(root fs.FS) ([]folder, error) {
	byPath := map[string]*folder{}
	set := token.NewFileSet()
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			// Tests that run at the same moment make and remove folders.
			if errors.Is(err, fs.ErrNotExist) && name != "." {
				return nil
			}
			return err
		}
		if entry.IsDir() {
			if name != "." && outside(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		base := entry.Name()
		if path.Ext(base) != ".go" || hidden(base) {
			return nil
		}
		dir := path.Dir(name)
		if byPath[dir] == nil {
			byPath[dir] = &folder{path: dir}
		}
		if strings.HasSuffix(base, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		byPath[dir].files = append(byPath[dir].files, file{name: name, syntax: syntax, set: set})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []folder
	for _, f := range byPath {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b folder) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// outside reports whether the go command leaves a folder out of the module:
// hidden folders, testdata, vendor, and other modules.
func outside(root fs.FS, dir string) bool {
	base := path.Base(dir)
	if hidden(base) || base == "testdata" || base == "vendor" {
		return true
	}
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return err == nil
}

// hidden reports whether the go command ignores a name for how it begins.
func hidden(base string) bool {
	return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}
