package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// readRows reads the rows of all files, and says what it left out.
func readRows[T any](files []string, read func(io.Reader) iter.Seq2[T, error]) (all []T, warnings []string, err error) {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, fmt.Errorf("--rows: %w", err)
		}
		rows, report, err := func() ([]T, measured.Report, error) {
			defer f.Close()
			r, err := measured.Open(f)
			if err != nil {
				return nil, measured.Report{}, err
			}
			return measured.Collect(read(r))
		}()
		if err != nil {
			return nil, nil, fmt.Errorf("--rows %s: %w", name, err)
		}
		if report.Broken > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: skipped %d broken lines, the first is %v", name, report.Broken, report.First[0]))
		}
		all = append(all, rows...)
	}
	return all, warnings, nil
}

// choose keeps the rows of the one deployment that --select describes.
func choose[T any](rows []T, of func(T) measured.Deployment, choice string) (measured.Group[T], error) {
	var none measured.Group[T]
	want := map[string]string{}
	for part := range strings.SplitSeq(choice, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		switch key {
		case "model", "gpu", "engine", "version", "precision", "tp", "ep", "dp":
		default:
			ok = false
		}
		if !ok {
			return none, fmt.Errorf("--select: %q is none of model=, gpu=, engine=, version=, precision=, tp=, ep=, dp=", part)
		}
		want[key] = strings.ToLower(value)
	}
	var found []measured.Group[T]
	for _, g := range measured.Groups(rows, of) {
		if d := g.Deployment; !d.Split && described(d, want) {
			found = append(found, g)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return none, fmt.Errorf("--select %q: no deployment is like that", choice)
	}
	var names []string
	for i, g := range found {
		if i == 5 {
			names = append(names, fmt.Sprintf("%d more", len(found)-i))
			break
		}
		names = append(names, g.Deployment.String())
	}
	return none, fmt.Errorf("--select %q: one profile describes one deployment, this is %s", choice, strings.Join(names, ", "))
}

func described(d measured.Deployment, want map[string]string) bool {
	for key, value := range want {
		var ok bool
		switch key {
		case "model":
			ok = strings.Contains(strings.ToLower(d.LLM), value)
		case "gpu":
			ok = strings.Contains(strings.ToLower(d.GPU), value)
		case "engine":
			ok = strings.Contains(strings.ToLower(d.Engine), value)
		case "version":
			ok = strings.ToLower(d.Version) == value
		case "precision":
			ok = strings.ToLower(d.Precision) == value
		case "tp":
			ok = strconv.Itoa(d.TensorParallel) == value
		case "ep":
			ok = strconv.Itoa(d.ExpertParallel) == value
		case "dp":
			ok = strconv.Itoa(d.DataParallel) == value
		}
		if !ok {
			return false
		}
	}
	return true
}

// baseNames lists files without their folders.
func baseNames(files []string) string {
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return strings.Join(names, " and ")
}

// judged fills in what every format has.
func (r *fitResult) judged(errors *fit.Errors) *fitResult {
	all := errors.Of(fit.All)
	r.HeldOut, r.held = errors.Table(), &all
	return r
}

func fitSilicon(o *fitOptions) (*fitResult, error) {
	rows, warnings, err := readRows(o.files, measured.Silicon)
	if err != nil {
		return nil, err
	}
	g, err := choose(rows, func(r measured.SteadyState) measured.Deployment { return r.Deployment }, o.choice)
	if err != nil {
		return nil, err
	}
	s, err := fit.SteadyStates(g.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Deployment, err)
	}
	held, err := fit.CrossSteadyStates(g.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Deployment, err)
	}
	r := &fitResult{
		Rows: s.Rows, what: g.Deployment.String(), warnings: warnings, coeff: s.Coefficients, overhead: s.Client.Overhead,
		limits: fit.Limits{KVCapacityTokens: int(s.KVCapacityTokens)},
		Beside: []fitNumber{
			{"client: prefill steps until the first token", s.Client.Steps, "steps"},
			{"client: wait for the prefill of all others", s.Client.Burst, "of it"},
			{"rows short of cache", float64(s.Saturated), "rows"},
		},
	}
	return r.judged(&held), nil
}

func fitSplitwise(o *fitOptions) (*fitResult, error) {
	rows, warnings, err := readRows(o.files, measured.Splitwise)
	if err != nil {
		return nil, err
	}
	g, err := choose(rows, func(r measured.Batch) measured.Deployment { return r.Deployment }, o.choice)
	if err != nil {
		return nil, err
	}
	c, err := fit.Batches(g.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Deployment, err)
	}
	held, err := fit.CrossBatches(g.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Deployment, err)
	}
	r := &fitResult{Rows: len(g.Rows), what: g.Deployment.String(), warnings: warnings, coeff: c}
	return r.judged(&held), nil
}

func fitH200(o *fitOptions) (*fitResult, error) {
	rows, warnings, err := readRows(o.files, measured.LatencyPredictor)
	if err != nil {
		return nil, err
	}
	engine, err := o.engine(fit.Limits{}, "h200 rows tell only what share of the cache is used")
	if err != nil {
		return nil, err
	}
	return fitDispatches(rows, engine, baseNames(o.files), warnings)
}

// engine is what must be known of an engine to fit dispatches: what was given,
// else what the rows told.
func (o *fitOptions) engine(told fit.Limits, why string) (fit.Engine, error) {
	cache := cmp.Or(o.limits.KVCapacityTokens, told.KVCapacityTokens)
	if cache == 0 {
		return fit.Engine{}, fmt.Errorf("--kv-capacity-tokens is needed: %s", why)
	}
	budget := cmp.Or(o.limits.MaxBatchedTokens, told.MaxBatchedTokens, 8192)
	return fit.Engine{KVCapacityTokens: float64(cache), MaxBatchedTokens: float64(budget)}, nil
}

// fitDispatches fits and judges rows of requests with the load that was known.
func fitDispatches(rows []measured.Dispatch, engine fit.Engine, what string, warnings []string) (*fitResult, error) {
	d, err := fit.Dispatches(rows, engine)
	if err != nil {
		return nil, err
	}
	held, err := fit.CrossDispatches(rows, engine)
	if err != nil {
		return nil, err
	}
	r := &fitResult{
		Rows: d.Rows, what: what, warnings: warnings, coeff: d.Coefficients, overhead: d.Overhead,
		Beside: []fitNumber{
			{"collision with requests sent at the same time", float64(d.Collision), "s for each in flight"},
			{"queue: prompt token ahead", float64(d.Queue.Token), "s"},
			{"queue: request waiting", float64(d.Queue.Request), "s"},
			{"queue: added to each output token", float64(d.Queue.Decode), "s"},
			{"rows that found a queue", float64(d.Queued), "rows"},
		},
	}
	return r.judged(&held), nil
}

func fitServingSim(o *fitOptions) (*fitResult, error) {
	if len(o.files) > 1 {
		return nil, errors.New("--rows: one llmservingsim run makes one profile")
	}
	rows, warnings, err := readRows(o.files, measured.ServingSim)
	if err != nil {
		return nil, err
	}
	engine, err := servingSimEngine(o.files[0])
	if err != nil {
		return nil, err
	}
	budget, ranks := o.limits.MaxBatchedTokens, max(1, engine.DataParallel)
	if budget == 0 {
		budget = engine.MaxBatchedTokens
	}
	if budget == 0 {
		return nil, errors.New("--max-batched-tokens is needed: no .meta.json beside the rows tells it")
	}
	t, err := fit.NewTimeline(rows, budget, ranks)
	if err != nil {
		return nil, err
	}
	c, err := t.Fit()
	if err != nil {
		return nil, err
	}
	held, err := t.Cross()
	if err != nil {
		return nil, err
	}
	tokens, sequences := t.Held()
	r := &fitResult{
		Rows: len(rows), what: baseNames(o.files), warnings: warnings, coeff: c,
		limits: fit.Limits{
			MaxBatchedTokens: engine.MaxBatchedTokens, MaxNumSeqs: engine.MaxNumSeqs,
			KVCapacityTokens: engine.KVCapacityTokens, BlockTokens: engine.BlockTokens,
		},
		Beside: []fitNumber{
			{"most tokens held, those of preempted requests included", tokens, "tokens"},
			{"most requests running", sequences, "requests"},
		},
	}
	return r.judged(&held), nil
}

// servingSimEngine reads the description beside the requests; none is none.
func servingSimEngine(requests string) (measured.Engine, error) {
	name := strings.TrimSuffix(strings.TrimSuffix(requests, ".gz"), ".requests.jsonl") + ".meta.json"
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return measured.Engine{}, nil
	}
	if err != nil {
		return measured.Engine{}, err
	}
	defer f.Close()
	e, err := measured.ServingSimEngine(f)
	if err != nil {
		return e, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}
