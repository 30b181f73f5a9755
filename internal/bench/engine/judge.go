package main

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// recording is one measured run.
type recording struct {
	name     string
	engine   measured.Engine
	requests []measured.Served // in order of queueing
	timeline *fit.Timeline
}

// load reads all runs of a data folder, by name.
func load(data string) ([]recording, error) {
	const suffix = ".requests.jsonl"
	files, err := filepath.Glob(filepath.Join(data, "measured-llmservingsim", "*"+suffix))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("--data: no measured-llmservingsim/*%s below %s", suffix, data)
	}
	var runs []recording
	for _, file := range files {
		r := recording{name: strings.TrimSuffix(filepath.Base(file), suffix)}
		if r.requests, err = readRequests(file); err != nil {
			return nil, err
		}
		meta, err := os.Open(strings.TrimSuffix(file, suffix) + ".meta.json")
		if err != nil {
			return nil, err
		}
		r.engine, err = measured.ServingSimEngine(meta)
		meta.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", meta.Name(), err)
		}
		if r.timeline, err = fit.NewTimeline(r.requests, r.engine.MaxBatchedTokens, max(1, r.engine.DataParallel)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func readRequests(name string) ([]measured.Served, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	requests, err := collect(measured.ServingSim(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	slices.SortStableFunc(requests, func(a, b measured.Served) int { return cmp.Compare(a.Queued, b.Queued) })
	return requests, nil
}

func collect[T any](rows iter.Seq2[T, error]) (all []T, err error) {
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// spread is a distribution of relative errors.
type spread struct {
	Requests int     `json:"requests"`
	Median   float64 `json:"median"`
	P90      float64 `json:"p90"`
}

// String is median and p90 in percent, each in a cell of the table.
func (s spread) String() string { return fmt.Sprintf("%.1f\t%.1f", 100*s.Median, 100*s.P90) }

func newSpread(errors []float64) spread {
	if len(errors) == 0 {
		return spread{}
	}
	slices.Sort(errors)
	at := func(q float64) float64 { return errors[int(math.Round(q*float64(len(errors)-1)))] }
	return spread{len(errors), at(0.5), at(0.9)}
}

// verdict is how well a run was replayed.
type verdict struct {
	Fitted       string  `json:"fitted"` // run that the step model was fitted to
	Run          string  `json:"run"`
	Prefill      float64 `json:"prefill_slowness"` // times as slow as the fitted run
	Decode       float64 `json:"decode_slowness"`
	Requests     int     `json:"requests"` // judged
	QueueWait    spread  `json:"queue_wait"`
	PrefillError spread  `json:"prefill"`
	Unqueued     spread  `json:"ttft_of_requests_that_did_not_wait"`
	DecodeError  spread  `json:"decode"`
}

// waited is from when on a request counts as having waited: longer than a step.
const waited = 100 * time.Millisecond

// replayAll fits one run and replays all.
func replayAll(runs []recording, base recording) ([]verdict, error) {
	c, err := base.timeline.Fit()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", base.name, err)
	}
	var all []verdict
	for _, r := range runs {
		v := verdict{Fitted: base.name, Run: r.name, Prefill: 1, Decode: 1}
		if r.name != base.name {
			if v.Prefill, v.Decode, err = r.slowness(c); err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
		}
		got, err := r.replay(slowed(c, v.Prefill, v.Decode))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		v.judge(r.requests, got)
		all = append(all, v)
	}
	return all, nil
}

// slowed is an engine that many times as slow in prefill and in decode.
func slowed(c physics.Coefficients, prefill, decode float64) physics.Coefficients {
	return physics.Coefficients{A: c.A * decode, B: c.B * prefill, C: c.C * prefill, D: c.D * decode, E: c.E * decode}
}

// first is how many of n requests tell the speed of an engine.
func first(n int) int { return n / 10 }

// slowness is how many times as slow an engine is as c says, by its first requests:
// in prefill given what else the engine is known to have done, in decode by
// replaying until simulated and measured decode agree in the median.
func (r recording) slowness(c physics.Coefficients) (prefill, decode float64, err error) {
	if prefill, err = r.timeline.Speed(c, first(len(r.requests))); err != nil {
		return 0, 0, err
	}
	decode = prefill
	for range 4 { // each round leaves a tenth of the error or less
		got, err := r.replay(slowed(c, prefill, decode))
		if err != nil {
			return 0, 0, err
		}
		var ratios []float64
		for i := range first(len(r.requests)) {
			if d := got[i].last - got[i].first; d > 0 {
				ratios = append(ratios, float64(r.requests[i].Decode())/d.Seconds())
			}
		}
		if len(ratios) == 0 {
			return 0, 0, fmt.Errorf("none of the first %d requests decoded", first(len(r.requests)))
		}
		slices.Sort(ratios)
		decode *= ratios[len(ratios)/2]
	}
	return prefill, decode, nil
}

// roomy is a KV cache that was not recorded: more than any run here needs.
const roomy = 1 << 22

func (r recording) replay(c physics.Coefficients) ([]served, error) {
	p := physics.Profile{
		Name: r.name, Coefficients: c, MaxBatchedTokens: r.engine.MaxBatchedTokens, MaxNumSeqs: r.engine.MaxNumSeqs,
		KVCapacityTokens: r.engine.KVCapacityTokens, BlockTokens: r.engine.BlockTokens,
		PeakPrefillThroughput: fit.PeakPrefill(c, r.engine.MaxBatchedTokens),
	}
	if p.KVCapacityTokens == 0 {
		p.KVCapacityTokens = roomy
	}
	if p.BlockTokens == 0 {
		p.BlockTokens = 16
	}
	return replay(fleet.Config{Profile: p}, max(1, r.engine.DataParallel), r.requests)
}

// judge compares all but the first requests.
func (v *verdict) judge(requests []measured.Served, got []served) {
	var wait, prefill, unqueued, decode []float64
	off := func(simulated time.Duration, measured float64) float64 {
		return math.Abs(simulated.Seconds()/measured - 1)
	}
	for i := first(len(requests)); i < len(requests); i++ {
		r, g := requests[i], got[i]
		v.Requests++
		if float64(r.Wait()) > waited.Seconds() {
			wait = append(wait, off(g.wait, float64(r.Wait())))
		} else {
			unqueued = append(unqueued, off(g.first, float64(r.Wait()+r.Prefill())))
		}
		prefill = append(prefill, off(g.first-g.wait, float64(r.Prefill())))
		if r.Decode() > 0 {
			decode = append(decode, off(g.last-g.first, float64(r.Decode())))
		}
	}
	v.QueueWait, v.PrefillError, v.Unqueued, v.DecodeError = newSpread(wait), newSpread(prefill), newSpread(unqueued), newSpread(decode)
}
