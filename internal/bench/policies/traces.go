package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
)

// source is a public trace.
type source struct {
	name, pattern string
	most          int // requests that are judged at most, from the beginning of what is judged
	knee          float64
}

// learnedShare of a trace, from its beginning, is learned from; what comes after
// is judged.
const learnedShare = 0.35

// replayWarmup is how much of a replay does not count: the caches fill.
const replayWarmup = 0.1

// read reads a trace below the data folder and cuts it. Where its clock is
// coarse, requests of one moment are spread up to the next, always alike.
func (s source) read(data string) (learned, judged []trace.Item, err error) {
	files, err := filepath.Glob(filepath.Join(data, "traces", s.pattern))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("--data: no file %s", filepath.Join(data, "traces", s.pattern))
	}
	f, err := os.Open(files[0])
	if err != nil {
		return nil, nil, fmt.Errorf("--data: %w", err)
	}
	defer f.Close()
	items, _, err := trace.Load(f)
	if err != nil {
		return nil, nil, fmt.Errorf("--data: %s: %w", files[0], err)
	}
	if trace.Rounded(items) {
		items = trace.Spread(items, rand.New(rand.NewPCG(1, 1)))
	}
	cut := int(learnedShare * float64(len(items)))
	return items[:cut], items[cut:min(len(items), cut+s.most)], nil
}

// replay sends the items at a mean rate of so many a second, from 0 on.
func replay(items []trace.Item, rate float64) workload.Plan {
	from := items[0].At
	moved := make([]trace.Item, len(items))
	for i, item := range items {
		item.At -= from
		moved[i] = item
	}
	length := moved[len(moved)-1].At
	plan := workload.FromTrace(moved, rate*length.Seconds()/float64(len(moved)))
	plan.Warmup = time.Duration(replayWarmup * float64(len(moved)) / rate * float64(time.Second))
	return plan
}
