package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/process"
	"github.com/spillway-llm/spillway/internal/collector"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/router/policy"
)

// judged are the targets that a log is judged under.
var judged = []string{policy.TokenLoad, policy.Predicted}

// setting is what one process judges.
type setting struct {
	Log    string
	Target string
}

// cost is what judging a log cost a process from its beginning to its end.
type cost struct {
	Log       string  `json:"log"`
	Target    string  `json:"target"`
	Decisions int     `json:"decisions"`
	Judged    int     `json:"judged"`
	CPU       float64 `json:"cpu_seconds"`
	PerMinute float64 `json:"decisions_per_cpu_minute"`
	MiB       float64 `json:"peak_memory_mib"`
}

// costOf judges a log in a process of its own.
func costOf(ctx context.Context, s setting) (cost, error) {
	var c cost
	p, err := process.Start(ctx, "judge", s, &c)
	if err != nil {
		return c, err
	}
	p.End()
	c.Log, c.Target = filepath.Base(s.Log), s.Target
	c.PerMinute = 60 * float64(c.Decisions) / c.CPU
	return c, nil
}

// judge is the role of such a process: as "spillway evaluate policy --rows".
func judge(_ context.Context, text []byte) (any, func(string) any, error) {
	collector.Often() // to the end of the process
	var s setting
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, nil, err
	}
	c, _, err := s.judge()
	return c, func(string) any { return nil }, err
}

func (s *setting) judge() (c cost, r offpolicy.Report, err error) {
	f, err := os.Open(s.Log)
	if err != nil {
		return c, r, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return c, r, err
	}
	rows, err := export.ParquetRows(f, info.Size())
	if err != nil {
		return c, r, err
	}
	done := bench.Progress(filepath.Base(s.Log)+", "+s.Target, int(rows))
	e, err := offpolicy.NewEvaluation(offpolicy.Options{Quantity: offpolicy.TTFT, Target: offpolicy.Target{Policy: s.Target}})
	if err != nil {
		return c, r, err
	}
	for row, err := range export.ReadParquet(f, info.Size()) {
		if err != nil {
			return c, r, err
		}
		if err := e.Add(&row.Decision, &row.Outcome); err != nil {
			return c, r, err
		}
		c.Decisions++
		done()
	}
	if r, err = e.Report(1); err != nil {
		return c, r, err
	}
	c.Judged = int(r.Judged)
	user, system := process.CPU()
	c.CPU = (user + system).Seconds()
	c.MiB, err = peak()
	return c, r, err
}

// peak is the most memory that this process had resident, in MiB. What rusage
// says of it begins with the memory of the process that started this one.
func peak() (float64, error) {
	const path = "/proc/self/status"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("peak memory is read from Linux: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("%s does not tell peak memory", path)
}
