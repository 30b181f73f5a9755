package dashboards

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Severities of alerts: someone must act now, because clients are refused or fail;
// or within hours.
const (
	Critical = "critical"
	Warning  = "warning"
)

// Rule is an alert, or a series that is recorded.
type Rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Name is that of the alert or of the series.
func (r *Rule) Name() string { return r.Alert + r.Record }

// ReadRules reads a file of rules, strictly.
func ReadRules(text []byte) ([]Rule, error) {
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []Rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	var all []Rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

// selector finds what an expression reads of Spillway's own series, of those that
// rules record from them, and of up.
var selector = regexp.MustCompile(`\b(?:spillway[_:][\w:]*|up\b)(?:\{[^{}]*\})?`)

// Selectors are the series that an expression is made from, each once: an alert
// that finds nothing may find nothing to look at.
func Selectors(expr string) []string {
	all := selector.FindAllString(expr, -1)
	slices.Sort(all)
	return slices.Compact(all)
}
