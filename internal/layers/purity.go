package layers

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// impureImports are the standard packages, with all below them, that a pure
// package may not import.
var impureImports = []string{
	"net", "os", "io/ioutil", "syscall", "database", "log", "plugin",
	"crypto/rand",  // chance that nobody handed in
	"math/rand",    // its functions share one global source, and v2 has better generators
	"hash/maphash", // a seed differs in every process
	"testing",      // brings flags and the clock
}

// allowedBelow are exceptions to impureImports.
var allowedBelow = []string{"math/rand/v2"}

// impureNames are names of other standard packages that a pure package may not
// use: they read the clock, wait, draw from a shared source, or write to the
// process's own output.
var impureNames = map[string][]string{
	"time":    {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker", "Local", "LoadLocation"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause"},
	"math/rand/v2": {"ExpFloat64", "Float32", "Float64", "Int", "Int32", "Int32N", "Int64", "Int64N", "IntN", "N", "NormFloat64",
		"Perm", "Shuffle", "Uint", "Uint32", "Uint32N", "Uint64", "Uint64N", "UintN"},
	"fmt": {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// impurities returns one sentence for each breach of purity in a file.
func impurities(pkg string, f file) []string {
	var broken []string
	names := map[string]string{} // as the file calls it -> import path
	for _, spec := range f.syntax.Imports {
		name := imported(spec)
		if forbidden(name) {
			broken = append(broken, fmt.Sprintf("%s is pure and imports %s (%s)", pkg, name, f.position(spec.Pos())))
		}
		if impureNames[name] == nil {
			continue
		}
		called := path.Base(name)
		if name == "math/rand/v2" {
			called = "rand"
		}
		if spec.Name != nil {
			called = spec.Name.Name
		}
		if called == "." {
			broken = append(broken, fmt.Sprintf("%s is pure and imports %s with a dot (%s): call it by its name", pkg, name, f.position(spec.Pos())))
		}
		names[called] = name
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		left, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		if slices.Contains(impureNames[names[left.Name]], selector.Sel.Name) {
			broken = append(broken, fmt.Sprintf("%s is pure and uses %s.%s (%s): take it as an argument",
				pkg, left.Name, selector.Sel.Name, f.position(selector.Pos())))
		}
		return true
	})
	return broken
}

// forbidden reports whether a pure package may not import a standard package.
func forbidden(name string) bool {
	if slices.Contains(allowedBelow, name) {
		return false
	}
	return slices.ContainsFunc(impureImports, func(root string) bool {
		return name == root || strings.HasPrefix(name, root+"/")
	})
}
