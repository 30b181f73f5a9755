// Package dashboards reads what Spillway is watched with: the dashboards of
// deploy/grafana and the rules of deploy/prometheus. It says what is wrong with
// them by themselves; whether their expressions find data is seen against a
// Prometheus, by the program in verify.
package dashboards

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Dashboard is the part of a Grafana dashboard that is looked at.
type Dashboard struct {
	Name        string   `json:"-"` // of its file, without .json
	UID         string   `json:"uid"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Panels      []Panel  `json:"panels"`
	Templating  struct {
		List []Variable `json:"list"`
	} `json:"templating"`
}

// Variable is what a person chooses a dashboard's data by.
type Variable struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Type  string `json:"type"` // datasource or query
	All   string `json:"allValue"`
	Query Lookup `json:"query"`
}

// Lookup is what a variable lists: label_values(metric, label), or for a datasource
// its kind.
type Lookup struct{ Expr string }

// UnmarshalJSON takes both forms that Grafana writes: text, and an object with it.
func (l *Lookup) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &l.Expr)
	}
	var object struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	l.Expr = object.Query
	return nil
}

// Panel is one chart.
type Panel struct {
	ID          int      `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Place       Place    `json:"gridPos"`
	Queries     []Query  `json:"targets"`
	Field       struct { // of its values
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// Place is where a panel stands, in a grid of 24 columns.
type Place struct{ X, Y, W, H int }

// Query is one expression of a panel.
type Query struct {
	Ref        string `json:"refId"`
	Expr       string `json:"expr"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
}

// Read reads every *.json of a folder, by name.
func Read(fsys fs.FS) ([]Dashboard, error) {
	files, err := fs.Glob(fsys, "*.json")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.json there: dashboards lie in deploy/grafana")
	}
	var all []Dashboard
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		d := Dashboard{Name: strings.TrimSuffix(path.Base(file), ".json")}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Filled is an expression as Prometheus gets it where all of every variable is
// chosen, and rates are taken over window.
func (d *Dashboard) Filled(expr string, window time.Duration) string {
	seconds := fmt.Sprintf("%ds", int(window.Seconds()))
	expr = strings.ReplaceAll(expr, "$__rate_interval", seconds)
	// The longest name first: one may begin like another.
	variables := slices.Clone(d.Templating.List)
	slices.SortFunc(variables, func(a, b Variable) int { return len(b.Name) - len(a.Name) })
	for _, v := range variables {
		expr = strings.ReplaceAll(expr, "$"+v.Name, v.All)
	}
	return expr
}
