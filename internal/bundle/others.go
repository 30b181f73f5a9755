package bundle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
)

// Reader reads the text of a forest that package forest finds sound but does
// not evaluate; see forest.ErrUnsupported.
type Reader func(text []byte) (Forest, error)

// parse reads the forests, those that package forest does not evaluate with
// others, and checks that their columns are those of a vector. A nil others
// reads none.
func (b *Bundle) parse(others Reader) ([Targets]Forest, error) {
	var forests [Targets]Forest
	for t := range Targets {
		f, names, err := parseHead(b.Heads[t].Forest, others)
		if err != nil {
			return forests, fmt.Errorf("bundle for %s: head %s: %w", b.LLM, t, err)
		}
		if err := checkNames(names); err != nil {
			return forests, fmt.Errorf("bundle for %s: head %s: %w", b.LLM, t, err)
		}
		forests[t] = f
	}
	return forests, nil
}

// parseHead also returns the names of the forest's columns.
func parseHead(text []byte, others Reader) (Forest, []string, error) {
	f, err := forest.Parse(text)
	if err == nil {
		return f, f.Header().FeatureNames, nil
	}
	if others == nil || !errors.Is(err, forest.ErrUnsupported) {
		return nil, nil, err
	}
	h, err := forest.ParseHeader(text)
	if err != nil {
		return nil, nil, err
	}
	other, err := others(text)
	return other, h.FeatureNames, err
}

// checkNames names the first column that is not the vector's.
func checkNames(names []string) error {
	want := feature.Names()
	if slices.Equal(names, want) {
		return nil
	}
	if len(names) != len(want) {
		return fmt.Errorf("its forest has %d columns, want the %d of the vector", len(names), len(want))
	}
	for i, name := range names {
		if name != want[i] {
			return fmt.Errorf("column %d of its forest is %.40q, want %s", i, name, want[i])
		}
	}
	return nil
}
