package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// target is where one process is scraped, and the labels that
// deploy/prometheus/prometheus.yaml gives such a one.
type target struct {
	address string
	labels  map[string]string
}

// pointed is deploy/prometheus/prometheus.yaml with the addresses of this run in
// each of its jobs, and in the pace of this run. Everything else is as it stands.
func pointed(deploy string, jobs map[string][]target) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus", "prometheus.yaml"))
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("prometheus.yaml: %w", err)
	}
	config["global"] = map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}
	files, _ := config["rule_files"].([]any)
	for i := range files {
		files[i] = filepath.Join(deploy, "prometheus", fmt.Sprint(files[i]))
	}
	var met []string
	scrapes, _ := config["scrape_configs"].([]any)
	for _, s := range scrapes {
		scrape, _ := s.(map[string]any)
		name := fmt.Sprint(scrape["job_name"])
		targets, ok := jobs[name]
		if !ok {
			return nil, fmt.Errorf("prometheus.yaml: this run has nothing for the job %q", name)
		}
		met = append(met, name)
		var static []any
		for _, t := range targets {
			static = append(static, map[string]any{"targets": []string{t.address}, "labels": t.labels})
		}
		scrape["static_configs"] = static
	}
	for name := range jobs {
		if !slices.Contains(met, name) {
			return nil, fmt.Errorf("prometheus.yaml has no job %q", name)
		}
	}
	return yaml.Marshal(config)
}

// api is the HTTP API of a Prometheus.
type api struct{ base string }

// call asks for a path and decodes its data.
func (a api) call(ctx context.Context, path string, query url.Values, data any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, res.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}

// span is how many series an expression had a number in, at any moment between
// two.
func (a api) span(ctx context.Context, expr string, from, to time.Time) (int, error) {
	var data struct {
		Result []struct {
			Values [][2]any `json:"values"`
		} `json:"result"`
	}
	err := a.call(ctx, "/api/v1/query_range", url.Values{
		"query": {expr}, "step": {"1"},
		"start": {unix(from)}, "end": {unix(to)},
	}, &data)
	n := 0
	for _, series := range data.Result {
		if slices.ContainsFunc(series.Values, func(v [2]any) bool { return isNumber(v[1]) }) {
			n++
		}
	}
	return n, err
}

// now is the series that an expression has at this moment, as labels.
func (a api) now(ctx context.Context, expr string) ([]string, error) {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
		} `json:"result"`
	}
	if err := a.call(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var all []string
	for _, series := range data.Result {
		var labels []string
		for k, v := range series.Metric {
			labels = append(labels, fmt.Sprintf("%s=%q", k, v))
		}
		slices.Sort(labels)
		all = append(all, "{"+strings.Join(labels, ", ")+"}")
	}
	slices.Sort(all)
	return all, nil
}

// broken are the rules that Prometheus could not evaluate.
func (a api) broken(ctx context.Context) ([]string, error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := a.call(ctx, "/api/v1/rules", nil, &data); err != nil {
		return nil, err
	}
	var all []string
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				all = append(all, fmt.Sprintf("rule %s: %s: %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	return all, nil
}

func unix(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', 3, 64)
}

// isNumber reports whether a value, which the API writes as text, can be drawn.
func isNumber(v any) bool {
	x, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	return err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
}
