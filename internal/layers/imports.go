package layers

import (
	"fmt"
	"go/ast"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Check reads the module below root and returns one sentence for each place
// where the source breaks the table, the doors or the purity rules. Each names
// the package, what it imports and the file. It fails only where the source
// cannot be read or parsed.
func Check(root fs.FS, table []Layer, doors []Door) ([]string, error) {
	all, err := folders(root)
	if err != nil {
		return nil, err
	}
	rows := map[string]Layer{}
	for _, row := range table {
		rows[row.Package] = row
	}
	var broken []string
	for _, pkg := range all {
		row, listed := rows[pkg.path]
		if !listed && pkg.path != Main {
			broken = append(broken, fmt.Sprintf("package %s is missing from the table in internal/layers/table.go: "+
				"give it a row with what it may import and why", pkg.path))
			continue
		}
		for _, f := range pkg.files {
			for _, spec := range f.syntax.Imports {
				if complaint := refuse(row, pkg.path, imported(spec), doors); complaint != "" {
					broken = append(broken, fmt.Sprintf("%s imports %s (%s): %s",
						pkg.path, imported(spec), f.position(spec.Pos()), complaint))
				}
			}
			if row.Pure {
				broken = append(broken, impurities(pkg.path, f)...)
			}
		}
	}
	return broken, nil
}

// imported is the path an import declaration names.
func imported(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser admits only string literals
	}
	return name
}

// refuse says why pkg may not import name, or nothing if it may.
func refuse(row Layer, pkg, name string, doors []Door) string {
	for _, door := range doors {
		if within(name, door.Import) && !door.admits(pkg) {
			return fmt.Sprintf("only %s may, because %s", strings.Join(door.Behind, " and "), door.Why)
		}
	}
	if own, ok := ownPackage(name); ok {
		switch {
		case own == Main:
			return "nobody imports the command"
		case pkg == Main, own == telemetry && !row.Pure, slices.Contains(row.May, own):
			return ""
		}
		return fmt.Sprintf("its row allows %s, because %s", list(row.May), row.Why)
	}
	if standard(name) || pkg == Main {
		return ""
	}
	allowed := row.Modules
	if !row.Pure {
		allowed = slices.Concat(allowed, everywhere)
	}
	if slices.ContainsFunc(allowed, func(m string) bool { return within(name, m) }) {
		return ""
	}
	return fmt.Sprintf("its row allows the modules %s, because %s", list(allowed), row.Why)
}

// admits reports whether the package in folder pkg stands behind the door.
func (d Door) admits(pkg string) bool {
	return slices.ContainsFunc(d.Behind, func(b string) bool {
		tree, all := strings.CutSuffix(b, "/...")
		return pkg == tree || all && within(pkg, tree)
	})
}

// ownPackage is the folder of an import path of this module.
func ownPackage(name string) (string, bool) {
	if name == Module {
		return ".", true
	}
	return strings.CutPrefix(name, Module+"/")
}

// standard reports whether an import path is the standard library's: its first
// element has no dot.
func standard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// within reports whether an import path is root or lies below it.
func within(name, root string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
