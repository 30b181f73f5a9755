package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// trace is the rows of one file, in the order of their completion.
type trace struct {
	file    string
	broken  int // lines that are no rows
	samples []learn.Sample
	states  []state // of the samples
}

// read makes the samples of a file below measured-h200 that the pattern
// matches: of several, the largest.
func read(data, name, pattern string, p physics.Profile) (trace, error) {
	path, err := largest(filepath.Join(data, "measured-h200", pattern))
	if err != nil {
		return trace{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return trace{}, fmt.Errorf("--data: %w", err)
	}
	defer f.Close()
	r, err := measured.Open(f)
	if err != nil {
		return trace{}, fmt.Errorf("%s: %w", path, err)
	}
	rows, skipped, err := measured.Collect(measured.LatencyPredictor(r))
	if err != nil {
		return trace{}, fmt.Errorf("%s: %w", path, err)
	}
	t := trace{file: filepath.Base(path), broken: skipped.Broken}
	for i, row := range rows {
		at := loadOf(row)
		s := learn.Sample{Decided: when(i), Finished: when(i), Class: name, Vector: vectorOf(at, p)}
		if s, ok := learn.Measured(s, row.TTFT, row.TPOT); ok {
			t.samples, t.states = append(t.samples, s), append(t.states, at)
		}
	}
	if len(t.samples) == 0 {
		return trace{}, fmt.Errorf("%s: no row has a latency", path)
	}
	return t, nil
}

// largest is the path of the largest file that matches.
func largest(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return "", fmt.Errorf("--data: %w", err)
	}
	var path string
	size := int64(-1)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", fmt.Errorf("--data: %w", err)
		}
		if info.Size() > size {
			path, size = file, info.Size()
		}
	}
	if path == "" {
		return "", fmt.Errorf("--data: no file %s", pattern)
	}
	return path, nil
}

// when is a time for row i: the files tell their order alone.
func when(i int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 100 * time.Millisecond)
}

// state is what a router knew when it sent a request.
type state struct {
	request feature.Request
	load    feature.Load
}

// loadOf is what a row tells, and NaN where it tells nothing. Prefix caching was
// off, so that all of a prompt was uncached. What the file calls running is all
// in flight, the queue included.
func loadOf(row measured.Dispatch) state {
	unknown := feature.Unknown
	return state{
		request: feature.Request{
			PromptTokens: row.PromptTokens, CachedTokens: row.PromptTokens - row.UncachedTokens,
			ExpectedOutputTokens: unknown, MaxOutputTokens: unknown, Completions: unknown,
		},
		load: feature.Load{
			Scraped: feature.Scraped{Waiting: row.Waiting, Running: unknown, KVUsed: row.KVUsed, Age: feature.Seconds(unknown)},
			Ledger: feature.Ledger{
				Requests: row.InFlight, PrefillTokens: row.PrefillTokens,
				Decoding: unknown, ContextTokens: unknown, SinceScrape: unknown, SinceScrapeTok: unknown,
			},
			Profile: feature.Profile{
				PeakPrefillThroughput: unknown, MaxBatchedTokens: unknown, MaxNumSeqs: unknown, KVCapacityTokens: unknown, SpeedFactor: unknown,
			},
		},
	}
}

// vectorOf makes the vector of a state, with the prior of a router that has p as
// its profile. What the prior does not know counts as none there.
func vectorOf(s state, p physics.Profile) feature.Vector {
	request, load := s.request, s.load
	request.Completions = 1
	load.Ledger.Decoding, load.Ledger.ContextTokens = 0, 0
	load.Profile.MaxBatchedTokens = float64(p.MaxBatchedTokens)
	return feature.Of(s.request, s.load, physics.Estimate(p.Coefficients, request, load))
}
