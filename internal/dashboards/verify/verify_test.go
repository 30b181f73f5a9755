package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/spillway-llm/spillway/internal/dashboards"
)

const deploy = "../../../deploy"

// jobs are those of deploy/prometheus/prometheus.yaml.
func jobs() map[string][]target {
	return map[string][]target{
		"spillway-router": {{address: "r:1"}}, "spillway-predictor": {{address: "p:1"}}, "spillway-trainer": {{address: "t:1"}},
		"engines": {{"e:1", map[string]string{"class": "fast"}}, {"e:2", map[string]string{"class": "slow"}}},
	}
}

func TestPointedReplacesAddressesAlone(t *testing.T) {
	text, err := pointed(deploy, jobs())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Rules   []string `yaml:"rule_files"`
		Scrapes []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string
				Labels  map[string]string
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, s := range got.Scrapes {
		for _, static := range s.Static {
			seen = append(seen, fmt.Sprint(s.Job, static.Targets, static.Labels["class"]))
		}
	}
	want := []string{"spillway-router[r:1]", "spillway-predictor[p:1]", "spillway-trainer[t:1]", "engines[e:1]fast", "engines[e:2]slow"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{deploy + "/prometheus/rules.yaml"}, got.Rules); diff != "" {
		t.Error(diff)
	}
}

func TestPointedWantsTheSameJobs(t *testing.T) {
	less, more := jobs(), jobs()
	delete(less, "engines")
	more["gateway"] = nil
	for want, jobs := range map[string]map[string][]target{
		`this run has nothing for the job "engines"`: less,
		`prometheus.yaml has no job "gateway"`:       more,
	} {
		if _, err := pointed(deploy, jobs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// spoken is a Prometheus that has a number for some expressions, none for others,
// and does not understand one.
func spoken(t *testing.T) api {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expr := r.URL.Query().Get("query")
		switch {
		case r.URL.Path == "/api/v1/rules":
			fmt.Fprint(w, `{"status":"success","data":{"groups":[{"rules":[{"name":"Fine","health":"ok"},{"name":"Bad","health":"err","lastError":"why"}]}]}}`)
		case strings.Contains(expr, "wrong"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","error":"parse error"}`)
		case strings.Contains(expr, "nan"):
			fmt.Fprint(w, `{"status":"success","data":{"result":[{"metric":{},"values":[[1,"NaN"],[2,"+Inf"]]}]}}`)
		case strings.Contains(expr, "none"):
			fmt.Fprint(w, `{"status":"success","data":{"result":[]}}`)
		default:
			fmt.Fprint(w, `{"status":"success","data":{"result":[{"metric":{"b":"2","a":"1"},"value":[1,"1"],"values":[[1,"NaN"],[2,"1"]]}]}}`)
		}
	}))
	t.Cleanup(server.Close)
	return api{server.URL}
}

const board = `{"panels": [
  {"title": "P", "targets": [{"refId": "A", "expr": "some"}, {"refId": "B", "expr": "none"}, {"refId": "C", "expr": "nan"}, {"refId": "D", "expr": "wrong"}]},
  {"title": "Q", "targets": [{"refId": "A", "expr": "none"}, {"refId": "B", "expr": "some"}]}]}`

func TestJudge(t *testing.T) {
	boards, err := dashboards.Read(fstest.MapFS{"x.json": {Data: []byte(board)}})
	if err != nil {
		t.Fatal(err)
	}
	j := judge{ask: spoken(t), deployed: deployed{
		boards: boards,
		rules: []dashboards.Rule{
			{Alert: "Loud", Expr: "spillway_some > 0", Labels: map[string]string{"severity": dashboards.Critical}},
			{Alert: "Quiet", Expr: "spillway_none > 0", Labels: map[string]string{"severity": dashboards.Critical}},
			{Alert: "Minor", Expr: "spillway_some > 0", Labels: map[string]string{"severity": dashboards.Warning}},
			{Alert: "Listed", Expr: "spillway_none_listed > 0"},
		},
		expected: &dashboards.Expected{
			Queries: []dashboards.ExpectedQuery{
				{Dashboard: "x", Panel: "Q", Ref: "A", Because: "b"}, {Dashboard: "x", Panel: "Q", Ref: "B", Because: "b"}, {Dashboard: "x", Panel: "Z", Ref: "A", Because: "b"},
			},
			Selectors: []dashboards.ExpectedSelector{{Selector: "spillway_none_listed", Because: "b"}, {Selector: "spillway_gone", Because: "b"}},
		},
	}}
	if err := j.well(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := j.report(t.Context(), &out, time.Unix(1, 0), time.Unix(2, 0)); err == nil || err.Error() != "9 things are wrong" {
		t.Error(err)
	}
	want := `alert Loud has something to say of a fleet that is well: {a="1", b="2"}
x: "P", query B found nothing: none
x: "P", query C found nothing: nan
x: "P", query D: parse error: wrong
x: "Q", query B found data and is expected to be empty
expected to be empty, and not there: x: "Z", query A
rule Quiet looks at nothing: spillway_none
expected to be empty, and in no rule: spillway_gone
rule Bad: err: why
1 dashboards with 2 panels and 6 queries, 4 rules with 3 selectors; 5 expected to be empty
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
