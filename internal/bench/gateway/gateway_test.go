package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/openai"
)

func TestPromptsAreWhatTheyClaim(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{short, long} {
		a, b := chat(rng, size), chat(rng, size)
		r, err := openai.Scan(a, "/v1/chat/completions")
		if err != nil {
			t.Fatal(err)
		}
		if r.Model != llm || !r.Stream || r.PromptBytes < size || r.PromptBytes > size+size/10 {
			t.Errorf("%d bytes: %s, streamed %v, a prompt of %d", size, r.Model, r.Stream, r.PromptBytes)
		}
		same := 0
		for same < len(a) && a[same] == b[same] {
			same++
		}
		if same < len(a)*4/10 || same > len(a)*6/10 {
			t.Errorf("two bodies of %d bytes share %d, want half", len(a), same)
		}
	}
}

func TestTimes(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i)*time.Millisecond)
	}
	if got := timesOf(all); got != (times{501, 991}) {
		t.Errorf("%+v", got)
	}
	if got := timesOf(nil); got != (times{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// What is lost, or costs more than it may, is short.
func TestBars(t *testing.T) {
	plain := row{Crowd: times{1, 2}, EventsASecond: 1000, CPULong: 100, CPUEvent: 10, HeapEarly: 100, HeapLate: 100}
	good := results{Rows: [ways]row{plain, plain, plain}, Throughput: []float64{0.2, 1, 0.9}}
	if short := shortOf(good.bars()); len(short) > 0 {
		t.Errorf("all is as it is without a router, and short are %v", short)
	}
	worse := plain
	worse.Failed, worse.Missing, worse.HeapLate = 1, 1, 120
	worse.Crowd, worse.EventsASecond, worse.CPULong, worse.CPUEvent = times{2, 5}, 600, 201, 16
	bad := results{Rows: [ways]row{plain, plain, worse}, Throughput: []float64{0.6, 2, 0.7, 0.6}}
	if all := bad.bars(); len(shortOf(all)) != len(all) {
		t.Errorf("short are %v of %d", shortOf(all), len(all))
	}
}

func shortOf(bars []bench.Bar) (names []string) {
	for _, b := range bars {
		if !b.Holds() {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}
