package dashboards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// columns is how many a row of Grafana's grid has.
const columns = 24

// mentioned are the variables of an expression.
var mentioned = regexp.MustCompile(`\$\{?(\w+)`)

// builtIn are variables that Grafana fills by itself.
var builtIn = []string{"__rate_interval"}

// Check says in sentences what is wrong with dashboards: what Grafana would
// refuse, or show in a way that nobody can read.
func Check(all []Dashboard) []string {
	var wrong []string
	uids, titles := map[string]string{}, map[string]string{}
	for i := range all {
		d := &all[i]
		say := func(format string, args ...any) {
			wrong = append(wrong, d.Name+".json: "+fmt.Sprintf(format, args...))
		}
		if !strings.HasPrefix(d.UID, "spillway-") || len(d.UID) > 40 {
			say("uid %q: begins with spillway- and has 40 bytes at most, so that links stay what they are", d.UID)
		}
		if other, twice := uids[d.UID]; twice {
			say("uid %q is that of %s.json", d.UID, other)
		}
		if other, twice := titles[d.Title]; twice || d.Title == "" {
			say("title %q is none, or that of %s.json", d.Title, other)
		}
		uids[d.UID], titles[d.Title] = d.Name, d.Name
		if d.Description == "" {
			say("has no description")
		}
		if !slices.Contains(d.Tags, "spillway") {
			say("is not tagged spillway: the others do not link to it")
		}
		d.checkPanels(say)
		d.checkVariables(say)
	}
	return wrong
}

func (d *Dashboard) checkPanels(say func(string, ...any)) {
	ids, titles := map[int]bool{}, map[string]bool{}
	for i := range d.Panels {
		p := &d.Panels[i]
		if p.ID <= 0 || ids[p.ID] {
			say("panel %q: id %d is none, or another panel's", p.Title, p.ID)
		}
		if p.Title == "" || titles[p.Title] {
			say("panel %d: title %q is none, or another panel's", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.Description == "" {
			say("panel %q has no description", p.Title)
		}
		if p.Field.Defaults.Unit == "" {
			say("panel %q has no unit (none is one)", p.Title)
		}
		if at := p.Place; at.X < 0 || at.Y < 0 || at.W <= 0 || at.H <= 0 || at.X+at.W > columns {
			say("panel %q does not fit in a grid of %d columns", p.Title, columns)
		}
		for j := range i {
			if p.Place.overlaps(d.Panels[j].Place) {
				say("panel %q lies on %q", p.Title, d.Panels[j].Title)
			}
		}
		if len(p.Queries) == 0 {
			say("panel %q asks for nothing", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Queries {
			if q.Ref == "" || refs[q.Ref] {
				say("panel %q: refId %q is none, or another query's", p.Title, q.Ref)
			}
			refs[q.Ref] = true
			if strings.TrimSpace(q.Expr) == "" {
				say("panel %q: query %s has no expr", p.Title, q.Ref)
			}
			if q.Datasource.UID != "${datasource}" {
				say("panel %q: query %s does not ask the Prometheus that is chosen above", p.Title, q.Ref)
			}
		}
	}
}

func (p Place) overlaps(o Place) bool {
	return p.X < o.X+o.W && o.X < p.X+p.W && p.Y < o.Y+o.H && o.Y < p.Y+p.H
}

func (d *Dashboard) checkVariables(say func(string, ...any)) {
	used := map[string]bool{"datasource": true}
	for _, p := range d.Panels {
		for _, q := range p.Queries {
			for _, m := range mentioned.FindAllStringSubmatch(q.Expr, -1) {
				used[m[1]] = true
			}
		}
	}
	known := map[string]bool{}
	for _, v := range d.Templating.List {
		known[v.Name] = true
		if v.Label == "" {
			say("variable %s has no label", v.Name)
		}
		if v.Type == "query" && v.All != ".*" {
			say("variable %s: allValue is not .*, so that series without its label would be left out", v.Name)
		}
		if !used[v.Name] {
			say("variable %s chooses nothing", v.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !known[name] && !slices.Contains(builtIn, name) {
			say("$%s is no variable", name)
		}
	}
}
