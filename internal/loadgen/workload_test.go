package loadgen_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spillway-llm/spillway/internal/loadgen"
	"github.com/spillway-llm/spillway/internal/trace"
)

func draw(t *testing.T, w loadgen.Workload, n int) []trace.Item {
	t.Helper()
	seq, err := w.Items()
	if err != nil {
		t.Fatal(err)
	}
	var out []trace.Item
	for item := range seq {
		if out = append(out, item); len(out) == n {
			break
		}
	}
	return out
}

func TestWorkloadsAreWellFormed(t *testing.T) {
	for _, name := range loadgen.Workloads() {
		t.Run(name, func(t *testing.T) {
			all := draw(t, loadgen.Workload{Name: name, Rate: 4, Seed: 7}, 3000)
			last, shared := time.Duration(0), 0
			seen := map[uint64]bool{}
			for i, item := range all {
				if item.At < last || item.PromptTokens < 1 || item.OutputTokens < 1 || item.PromptTokens+item.OutputTokens > 131_072 {
					t.Fatalf("item %d: %+v", i, item)
				}
				if want := (item.PromptTokens + item.BlockTokens - 1) / item.BlockTokens; len(item.Blocks) != want {
					t.Fatalf("item %d: %d blocks of %d, want %d", i, len(item.Blocks), item.BlockTokens, want)
				}
				if seen[item.Blocks[0]] {
					shared++
				}
				for _, id := range item.Blocks {
					seen[id] = true
				}
				last = item.At
			}
			// Conversations under way are few at first, so the rate comes out
			// a little low.
			if rate := float64(len(all)) / last.Seconds(); rate < 3 || rate > 4.4 {
				t.Errorf("%.2f requests a second, want about 4", rate)
			}
			if name != "reasoning" && shared < len(all)*7/10 {
				t.Errorf("only %d of %d prompts begin like an earlier one", shared, len(all))
			}
			if !reflect.DeepEqual(all, draw(t, loadgen.Workload{Name: name, Rate: 4, Seed: 7}, 3000)) {
				t.Error("the same seed made other requests")
			}
			if d := cmp.Diff(all[0], draw(t, loadgen.Workload{Name: name, Rate: 4, Seed: 8}, 1)[0]); d == "" {
				t.Error("another seed made the same requests")
			}
		})
	}
}

func TestTurnsGrowOnePrompt(t *testing.T) {
	grown := 0
	longest := map[uint64][]uint64{} // by the conversation's own first block
	for _, item := range draw(t, loadgen.Workload{Name: "interactive-chat"}, 2000) {
		const system = 512 / 64 // blocks
		if len(item.Blocks) <= system {
			continue
		}
		own := item.Blocks[system]
		before := longest[own]
		if len(before) > len(item.Blocks) {
			t.Fatal("a later turn is shorter")
		}
		if len(before) > 0 {
			grown++
			if d := cmp.Diff(before, item.Blocks[:len(before)]); d != "" {
				t.Fatal("a later turn does not begin with the earlier")
			}
		}
		longest[own] = item.Blocks
	}
	if grown < 1000 {
		t.Errorf("only %d later turns", grown)
	}
}

func TestB2BClimbsThePublishedLadder(t *testing.T) {
	all := draw(t, loadgen.Workload{Name: "b2b-saas"}, 1<<20)
	warm, pause, next := 0, 0, 0
	for _, item := range all {
		if item.PromptTokens != 6000+1200 || item.OutputTokens != 1000 {
			t.Fatalf("%+v", item)
		}
		switch at := item.At.Seconds(); {
		case at < 50:
			warm++
		case at < 80:
			pause++
		case at < 100:
			next++
		}
	}
	if math.Abs(float64(warm)-750) > 110 || pause != 0 || math.Abs(float64(next)-60) > 32 {
		t.Errorf("warm-up %d, want about 750; pause %d, want 0; second stage %d, want about 60", warm, pause, next)
	}
}

func TestUnknownWorkloadsAreNamed(t *testing.T) {
	if _, err := (loadgen.Workload{Name: "x"}).Items(); err == nil || !strings.Contains(err.Error(), `workload "x" is not known: expected one of code-generation, reasoning, b2b-saas`) {
		t.Error(err)
	}
	if _, err := (loadgen.Workload{Name: "rag", Rate: -1}).Items(); err == nil {
		t.Error("negative rate accepted")
	}
}
