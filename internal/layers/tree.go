package layers

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// treeFence opens the code block of ARCHITECTURE.md that holds the tree.
const treeFence = "```tree"

// DocumentedTree reads the tree from the text of ARCHITECTURE.md: the code
// block that opens with ```tree. A line that begins with a name ending in a
// slash is a folder, two spaces deeper than the folder it lies in; any other
// line goes on with the description above it. The folders come back with
// slashes, sorted.
func DocumentedTree(text string) ([]string, error) {
	_, rest, found := strings.Cut(text, treeFence+"\n")
	if !found {
		return nil, fmt.Errorf("no code block opens with %s", treeFence)
	}
	block, _, found := strings.Cut(rest, "\n```")
	if !found {
		return nil, fmt.Errorf("the code block that opens with %s is not closed", treeFence)
	}
	var tree, above []string
	for number, line := range strings.Split(block, "\n") {
		name, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
		if !strings.HasSuffix(name, "/") {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if indent%2 != 0 || indent/2 > len(above) {
			return nil, fmt.Errorf("line %d of the tree: %s stands %d spaces in, which is below no folder", number+1, name, indent)
		}
		above = append(above[:indent/2], strings.TrimSuffix(name, "/"))
		tree = append(tree, path.Join(above...))
	}
	slices.Sort(tree)
	return tree, nil
}

// CheckTree compares a documented tree with the folders below root. Every
// top-level folder that is neither hidden nor ignored by git and every folder
// that holds a Go package must be documented; every documented folder must
// exist. It returns one sentence for each difference.
func CheckTree(root fs.FS, documented []string) ([]string, error) {
	packages, err := folders(root)
	if err != nil {
		return nil, err
	}
	required, err := topLevel(root)
	if err != nil {
		return nil, err
	}
	for _, pkg := range packages {
		if pkg.path != "." {
			required = append(required, pkg.path)
		}
	}
	slices.Sort(required)
	var broken []string
	for _, dir := range slices.Compact(required) {
		if !slices.Contains(documented, dir) {
			broken = append(broken, fmt.Sprintf("%s/ is missing from the tree in ARCHITECTURE.md", dir))
		}
	}
	for i, dir := range documented {
		if i > 0 && documented[i-1] == dir {
			broken = append(broken, fmt.Sprintf("the tree in ARCHITECTURE.md lists %s/ twice", dir))
		}
		info, err := fs.Stat(root, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !info.IsDir() {
			broken = append(broken, fmt.Sprintf("the tree in ARCHITECTURE.md lists %s/, which does not exist", dir))
		}
	}
	return broken, nil
}

// topLevel lists the folders at the root that belong to the repository: those
// that are neither hidden nor named by a /name/ line of .gitignore.
func topLevel(root fs.FS) ([]string, error) {
	ignored, err := fs.ReadFile(root, ".gitignore")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	skip := strings.Split(string(ignored), "\n")
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() && !hidden(entry.Name()) && !slices.Contains(skip, "/"+entry.Name()+"/") {
			dirs = append(dirs, entry.Name())
		}
	}
	return dirs, nil
}
