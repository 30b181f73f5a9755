package dashboards_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/spillway-llm/spillway/internal/dashboards"
)

// What is deployed, seen from this folder.
const (
	grafana    = "../../deploy/grafana"
	prometheus = "../../deploy/prometheus"
	docs       = "../../docs"
)

func deployed(t *testing.T) []dashboards.Dashboard {
	t.Helper()
	all, err := dashboards.Read(os.DirFS(grafana))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rules(t *testing.T) []dashboards.Rule {
	t.Helper()
	all, err := dashboards.ReadRules([]byte(read(t, prometheus+"/rules.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDeployedDashboardsAreSound(t *testing.T) {
	all := deployed(t)
	for _, sentence := range dashboards.Check(all) {
		t.Error(sentence)
	}
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	if diff := cmp.Diff([]string{"decisions", "fleet", "forecasts", "store"}, names); diff != "" {
		t.Error(diff)
	}
}

// metric finds what stands for a metric in an expression.
var metric = regexp.MustCompile(`\bspillway_\w+`)

// selected finds a metric with what it is chosen by, and label a label there.
var (
	selected = regexp.MustCompile(`\b(spillway_\w+)\{([^{}]*)\}`)
	label    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
)

// scraped are labels that Prometheus adds.
var scraped = []string{"namespace", "job", "instance"}

// labelValues finds what a variable lists: of a metric, the values of a label.
var labelValues = regexp.MustCompile(`^label_values\((?:(\w+)|\{.*\}), (\w+)\)$`)

// described is what docs/reference/metrics.md says of a metric.
type described struct {
	kind   string
	labels []string
}

// documented is every metric that is described there.
func documented(t *testing.T) map[string]described {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\\| `(spillway_\\w+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(read(t, docs+"/reference/metrics.md"), -1)
	all := map[string]described{}
	for _, row := range rows {
		all[row[1]] = described{row[2], regexp.MustCompile(`\w+`).FindAllString(row[3], -1)}
	}
	if len(all) < 50 {
		t.Fatalf("%d metrics in the reference", len(all))
	}
	return all
}

// Expressions ask for metrics that processes have, for series of histograms where
// those are histograms, and choose by labels that they have.
func TestExpressionsNameMetricsThatExist(t *testing.T) {
	known := documented(t)
	check := func(where, expr string) {
		for _, m := range selected.FindAllStringSubmatch(expr, -1) {
			of := known[m[1]]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base, ok := known[strings.TrimSuffix(m[1], suffix)]; ok && of.kind == "" {
					of = base
				}
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(of.labels, l[1]) && !slices.Contains(scraped, l[1]) {
					t.Errorf("%s: %s has no label %s", where, m[1], l[1])
				}
			}
		}
		for _, name := range metric.FindAllString(expr, -1) {
			series := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if base := strings.TrimSuffix(name, suffix); base != name && known[base].kind == "histogram" {
					series = base
				}
			}
			switch kind := known[series].kind; {
			case kind == "":
				t.Errorf("%s: no process has the metric %s", where, name)
			case kind == "histogram" && series == name:
				t.Errorf("%s: %s is a histogram: its series are _bucket, _sum and _count", where, name)
			}
		}
	}
	for _, d := range deployed(t) {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				check(d.Name+": "+p.Title, q.Expr)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			where := d.Name + ": variable " + v.Name
			check(where, v.Query.Expr)
			m := labelValues.FindStringSubmatch(v.Query.Expr)
			if m == nil {
				t.Errorf("%s lists no values of a label: %s", where, v.Query.Expr)
			} else if of := known[m[1]]; of.kind != "" && !slices.Contains(of.labels, m[2]) && !slices.Contains(scraped, m[2]) {
				t.Errorf("%s: %s has no label %s", where, m[1], m[2])
			}
		}
	}
	for _, r := range rules(t) {
		check(r.Name(), r.Expr)
	}
}

// What the runbook leads to in italics is a panel, but for the severities.
func TestRunbookNamesPanelsThatExist(t *testing.T) {
	var titles []string
	for _, d := range deployed(t) {
		for _, p := range d.Panels {
			titles = append(titles, p.Title)
		}
	}
	text := strings.ReplaceAll(read(t, docs+"/runbook.md"), "\n", " ")
	text = regexp.MustCompile(`\*\*[^*]+\*\*`).ReplaceAllString(text, "")
	found := 0
	for _, m := range regexp.MustCompile(`\*([A-Z][^*]*)\*`).FindAllStringSubmatch(text, -1) {
		if name := strings.TrimSuffix(m[1], "."); slices.Contains(titles, name) {
			found++
		} else if name != "Critical" && name != "Warning" {
			t.Errorf("docs/runbook.md: no dashboard has a panel *%s*", name)
		}
	}
	if found < 20 {
		t.Errorf("%d panels are found there", found)
	}
}

// Whoever is woken finds what an alert means, what clients feel, what to look at and
// what to do.
func TestEveryAlertIsInTheRunbook(t *testing.T) {
	sections := map[string]string{}
	for _, section := range strings.Split(read(t, docs+"/runbook.md"), "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[name] = body
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		body, ok := sections[r.Alert]
		if !ok {
			t.Errorf("docs/runbook.md has no section ### %s", r.Alert)
			continue
		}
		delete(sections, r.Alert)
		at := 0
		for _, part := range []string{"**Means**", "**Clients feel**", "**Look at**", "**Do**"} {
			found := strings.Index(body[at:], part)
			if found < 0 {
				t.Errorf("docs/runbook.md, %s: %s is missing, or not in its place", r.Alert, part)
				break
			}
			at += found
		}
		if want := "docs/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
			t.Errorf("%s: runbook_url %q does not end in %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
		if s := r.Labels["severity"]; s != dashboards.Critical && s != dashboards.Warning {
			t.Errorf("%s: severity %q is neither critical nor warning", r.Alert, s)
		}
	}
	for name := range sections {
		t.Errorf("docs/runbook.md: there is no alert %s", name)
	}
}

// promtool runs the tests of rules; that each alert has one in which it fires and
// one in which it does not is seen here.
func TestEveryAlertIsTestedBothWays(t *testing.T) {
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name string `yaml:"alertname"`
				Want []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal([]byte(read(t, prometheus+"/rules_test.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Want) > 0 {
				fires[a.Name] = true
			} else {
				quiet[a.Name] = true
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && !(fires[r.Alert] && quiet[r.Alert]) {
			t.Errorf("rules_test.yaml: %s fires: %t, does not: %t; want both", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}

func TestExpectedEmptyIsReadStrictly(t *testing.T) {
	if _, err := dashboards.ReadExpected([]byte(read(t, grafana+"/expected-empty.yaml"))); err != nil {
		t.Error(err)
	}
	for wrong, want := range map[string]string{
		`queries: [{dashboard: fleet, panel: Running, ref: A}]`:  `query A of "Running" in fleet has no because`,
		`selectors: [{selector: up}]`:                            `selector "up" has no because`,
		`queries: [{dashboard: fleet, query: A, because: none}]`: `field query not found`,
	} {
		if _, err := dashboards.ReadExpected([]byte(wrong)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %s", wrong, err, want)
		}
	}
}

// sound is a dashboard that nothing is wrong with.
const sound = `{
  "uid": "spillway-x", "title": "X", "description": "d", "tags": ["spillway"],
  "templating": {"list": [
    {"name": "datasource", "label": "Prometheus", "type": "datasource"},
    {"name": "r", "label": "R", "type": "query", "allValue": ".*"},
    {"name": "router", "label": "Router", "type": "query", "allValue": ".*"}]},
  "panels": [
    {"id": 1, "title": "A", "description": "d", "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8}, "fieldConfig": {"defaults": {"unit": "s"}},
     "targets": [{"refId": "A", "datasource": {"uid": "${datasource}"}, "expr": "rate(x{a=~\"$router\", b=~\"$r\"}[$__rate_interval])"}]},
    {"id": 2, "title": "B", "description": "d", "gridPos": {"x": 12, "y": 0, "w": 12, "h": 8}, "fieldConfig": {"defaults": {"unit": "s"}},
     "targets": [{"refId": "A", "datasource": {"uid": "${datasource}"}, "expr": "y"}]}]}`

func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ change, to, want string }{
		{"", "", ""},
		{`"uid": "spillway-x"`, `"uid": "x"`, `uid "x": begins with spillway-`},
		{`"title": "X", `, ``, `title "" is none`},
		{`"description": "d", "tags"`, `"tags"`, `has no description`},
		{`["spillway"]`, `[]`, `is not tagged spillway`},
		{`"id": 2`, `"id": 1`, `panel "B": id 1 is none, or another panel's`},
		{`"title": "B"`, `"title": "A"`, `title "A" is none, or another panel's`},
		{`"title": "B", "description": "d"`, `"title": "B"`, `panel "B" has no description`},
		{`{"unit": "s"}`, `{}`, `panel "A" has no unit`},
		{`"x": 12`, `"x": 13`, `panel "B" does not fit`},
		{`"x": 12`, `"x": 11`, `panel "B" lies on "A"`},
		{`"expr": "y"`, `"expr": " "`, `panel "B": query A has no expr`},
		{`"refId": "A"`, `"refId": ""`, `panel "A": refId "" is none`},
		{`"datasource": {"uid": "${datasource}"}, "expr": "y"`, `"datasource": {"uid": "mine"}, "expr": "y"`, `panel "B": query A does not ask the Prometheus that is chosen above`},
		{`"expr": "y"`, `"expr": "y{a=\"$class\"}"`, `$class is no variable`},
		{`"expr": "y"`, `"expr": "y{a=\"${class}\"}"`, `$class is no variable`},
		{`b=~\"$r\"`, `b=~\"\"`, `variable r chooses nothing`},
		{`"label": "R", "type": "query", "allValue": ".*"`, `"label": "R", "type": "query", "allValue": ".+"`, `variable r: allValue is not .*`},
	} {
		text := strings.Replace(sound, test.change, test.to, 1)
		if test.change != "" && text == sound {
			t.Fatalf("%s is not in the dashboard", test.change)
		}
		all, err := dashboards.Read(fstest.MapFS{"x.json": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(dashboards.Check(all), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s in place of %s: %q, want %q", test.to, test.change, got, test.want)
		}
	}
	all, err := dashboards.Read(fstest.MapFS{"x.json": {Data: []byte(sound)}, "y.json": {Data: []byte(sound)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`y.json: uid "spillway-x" is that of x.json`, `y.json: title "X" is none, or that of x.json`}
	if diff := cmp.Diff(want, dashboards.Check(all)); diff != "" {
		t.Error(diff)
	}
}

func TestReadNamesTheFile(t *testing.T) {
	if _, err := dashboards.Read(fstest.MapFS{"x.json": {Data: []byte("{")}}); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Error(err)
	}
	if _, err := dashboards.Read(fstest.MapFS{}); err == nil {
		t.Error("no dashboard is none too few")
	}
}

func TestFilledHasNoVariables(t *testing.T) {
	all, err := dashboards.Read(fstest.MapFS{"x.json": {Data: []byte(sound)}})
	if err != nil {
		t.Fatal(err)
	}
	got := all[0].Filled(all[0].Panels[0].Queries[0].Expr, 10*time.Second)
	if want := `rate(x{a=~".*", b=~".*"}[10s])`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSelectors(t *testing.T) {
	got := dashboards.Selectors(`sum by (upper, job) (rate(spillway_a_total{x=~"up|down"}[5m])) / on (job) group_left spillway:b:rate5m
		and up == 0 or spillway_a_total offset 5m or spillway_a_total`)
	if diff := cmp.Diff([]string{"spillway:b:rate5m", "spillway_a_total", `spillway_a_total{x=~"up|down"}`, "up"}, got); diff != "" {
		t.Error(diff)
	}
}
