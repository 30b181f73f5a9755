package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// leastRows is the least number of distinct rows for which a deployment is
// judged: fewer leave less than a row or so for each number of the fit.
const leastRows = 10

// silicon judges the steady states of every deployment with enough of them.
// The sample has the same measurement under two names in places (DeepSeek R1
// and V3); only the first counts.
func silicon(data string, report *bench.Report) ([]table, error) {
	rows, err := rowsOf(data, "silicon/silicon_sample.csv.gz", measured.Silicon)
	if err != nil {
		return nil, err
	}
	read := len(rows)
	seen := make(map[[2]feature.Seconds]bool)
	var repeated, split, few int
	rows = slices.DeleteFunc(rows, func(r measured.SteadyState) bool {
		times := [2]feature.Seconds{r.TTFT, r.TPOT}
		switch {
		case r.Deployment.Split:
			split++
			return true
		case seen[times]:
			repeated++
			return true
		}
		seen[times] = true
		return false
	})
	var all, shapes, deployments fit.Errors
	judged := 0
	for _, g := range measured.Groups(rows, func(r measured.SteadyState) measured.Deployment { return r.Deployment }) {
		if len(g.Rows) < leastRows {
			few += len(g.Rows)
			continue
		}
		held, err := fit.CrossSteadyStates(g.Rows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.Deployment, err)
		}
		judged++
		all.Merge(&held, regime)
		kind := "LLM: " + density(g.Deployment.LLM)
		for _, group := range []string{kind, "engine: " + g.Deployment.Engine} {
			all.Merge(&held, only(group))
		}
		deployments.Merge(&held, only(g.Deployment.String()))
		if other, err := fit.CrossShapes(g.Rows); err == nil { // else it has too few shapes
			shapes.Merge(&other, regime)
			shapes.Merge(&other, only(kind))
		}
	}
	report.Sizes["silicon rows read"], report.Sizes["silicon rows of split deployments"] = read, split
	report.Sizes["silicon rows repeated"], report.Sizes["silicon rows of deployments with too few"] = repeated, few
	report.Sizes["silicon deployments"] = judged
	report.Bars = append(report.Bars, bars("silicon", all.Of(fit.All))...)
	return []table{
		{"silicon, settings left out of the fit: by deployment", deployments.Table()},
		{"silicon, settings left out of the fit: by regime", all.Table()},
		{"silicon, all rows of one prompt and output length left out of the fit (extrapolation, not judged)", shapes.Table()},
	}, nil
}

// regime keeps the groups that mean the same for every deployment.
func regime(group string) string {
	if strings.Contains(group, "/") {
		return "" // a prompt and output length
	}
	return group
}

// only puts all rows into one group.
func only(name string) func(string) string {
	return func(group string) string {
		if group == fit.All {
			return name
		}
		return ""
	}
}

// density tells dense LLMs from those that use a part of their experts at a
// time, by the names that the sample has.
func density(llm string) string {
	for _, dense := range []string{"Qwen3-32B", "Llama"} {
		if strings.Contains(llm, dense) {
			return "dense"
		}
	}
	return "sparse"
}

// h200 judges dispatches to Qwen3-32B on H200.
func h200(data string, report *bench.Report) ([]table, error) {
	// The cache by arithmetic, as the built-in profile says; it scales d and e
	// against each other and hardly moves a prediction.
	engine := fit.Engine{KVCapacityTokens: 232_000, MaxBatchedTokens: 8192}
	var blocks, forward fit.Errors
	for _, name := range []string{"sharegpt-h200", "bimodal-h200-first80"} {
		rows, err := rowsOf(data, "measured-h200/"+name+".jsonl", measured.LatencyPredictor)
		if err != nil {
			return nil, err
		}
		report.Sizes[name+" rows"] = len(rows)
		for _, x := range []struct {
			into  *fit.Errors
			cross func([]measured.Dispatch, fit.Engine) (fit.Errors, error)
		}{{&blocks, fit.CrossDispatches}, {&forward, fit.ForwardDispatches}} {
			held, err := x.cross(rows, engine)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			x.into.Merge(&held, only(fit.All))
			x.into.Merge(&held, func(group string) string { return name + ", " + group })
		}
	}
	report.Bars = append(report.Bars, bars("h200", blocks.Of(fit.All))...)
	report.Bars = append(report.Bars, bars("h200_later", forward.Of(fit.All))...)
	return []table{
		{"h200, blocks of rows left out of the fit", blocks.Table()},
		{"h200, the last fifth predicted from what came before", forward.Table()},
	}, nil
}

// servingSim judges what engines noted themselves.
func servingSim(data string, report *bench.Report) ([]table, error) {
	files, err := filepath.Glob(filepath.Join(data, "measured-llmservingsim", "*.requests.jsonl"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("--data: no measured-llmservingsim/*.requests.jsonl in %s", data)
	}
	runs := make(map[string]fit.Errors)
	var all fit.Errors
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".requests.jsonl")
		requests, err := rowsOf(data, "measured-llmservingsim/"+filepath.Base(file), measured.ServingSim)
		if err != nil {
			return nil, err
		}
		engine, err := engineOf(strings.TrimSuffix(file, ".requests.jsonl") + ".meta.json")
		if err != nil {
			return nil, err
		}
		t, err := fit.NewTimeline(requests, engine.MaxBatchedTokens, max(1, engine.DataParallel))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if runs[name], err = t.Cross(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		report.Sizes[name+" requests"] = len(requests)
	}
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		held := runs[name]
		all.Merge(&held, only(fit.All))
		all.Merge(&held, func(group string) string { return name + ", " + group })
	}
	report.Bars = append(report.Bars, bars("llmservingsim_prefill", all.Of(fit.All))...)
	return []table{{"llmservingsim, blocks of requests left out of the fit; TTFT is prefill without the queue", all.Table()}}, nil
}

func engineOf(file string) (measured.Engine, error) {
	f, err := os.Open(file)
	if err != nil {
		return measured.Engine{}, fmt.Errorf("--data: %w", err)
	}
	defer f.Close()
	return measured.ServingSimEngine(f)
}
