package dashboards

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Expected lists what finds no data where everything runs as it should, with the
// reason for each.
type Expected struct {
	Queries   []ExpectedQuery    `yaml:"queries"`
	Selectors []ExpectedSelector `yaml:"selectors"`
}

// ExpectedQuery is a query of a panel.
type ExpectedQuery struct {
	Dashboard string `yaml:"dashboard"` // name of its file, without .json
	Panel     string `yaml:"panel"`     // its title
	Ref       string `yaml:"ref"`
	Because   string `yaml:"because"`
}

// ExpectedSelector is a part of a rule's expression, as Selectors gives it.
type ExpectedSelector struct {
	Selector string `yaml:"selector"`
	Because  string `yaml:"because"`
}

// ReadExpected reads the list, strictly; an entry without a reason is none.
func ReadExpected(text []byte) (*Expected, error) {
	var e Expected
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&e); err != nil {
		return nil, fmt.Errorf("expected to be empty: %w", err)
	}
	for _, q := range e.Queries {
		if q.Because == "" {
			return nil, fmt.Errorf("expected to be empty: query %s of %q in %s has no because", q.Ref, q.Panel, q.Dashboard)
		}
	}
	for _, s := range e.Selectors {
		if s.Because == "" {
			return nil, fmt.Errorf("expected to be empty: selector %q has no because", s.Selector)
		}
	}
	return &e, nil
}
