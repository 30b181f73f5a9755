package main

import (
	"math"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// invented are pairs of which an instrument is wrong by a known error each.
func invented(truths, errs []float64, half float64) []*pair {
	var all []*pair
	for k, truth := range truths {
		p := &pair{world: &world{mechanism: none}, estimates: silent()}
		if k%2 == 1 {
			p.world.mechanism = async
		}
		for q := range quantities {
			p.truth.log[q], p.truth.all[q] = effect{Mean: truth}, effect{Mean: truth}
			at := truth + errs[k]
			p.estimates[simulator][q] = said(evaluate.Interval{Mean: feature.Number(at), Low: feature.Number(at - half), High: feature.Number(at + half)}, 1000)
		}
		all = append(all, p)
	}
	return all
}

func TestScoresOfKnownErrors(t *testing.T) {
	all := invented([]float64{0.10, -0.20, 0.02, 0.30}, []float64{0.02, 0.04, -0.06, -0.40}, 0.05)
	all = append(all, &pair{world: &world{mechanism: none}, estimates: silent()})
	s := scoreOf(all, simulator, e2e, every)
	if s.pairs != 5 || s.answered != 4 || s.decisive != 3 || s.right != 2 {
		t.Errorf("%+v", s)
	}
	for what, got := range map[string][2]float64{
		"bias":   {s.bias, -0.1},
		"rmse":   {s.rmse, math.Sqrt((0.0004 + 0.0016 + 0.0036 + 0.16) / 4)},
		"median": {s.median, 0.05},
		"cover":  {s.covered, 0.5},
		"width":  {s.width, 0.05},
		"needed": {s.needed, 1000},
	} {
		if math.Abs(got[0]-got[1]) > 1e-12 {
			t.Errorf("%s is %v, want %v", what, got[0], got[1])
		}
	}
	if one := scoreOf(all, simulator, ttft, misspecified); one.pairs != 2 || one.answered != 2 || one.right != 1 {
		t.Errorf("misspecified: %+v", one)
	}
}

// The simulator stays the primary instrument unless it misses a bar over all
// worlds and in misspecified ones.
func TestBarsNameThePrimaryInstrument(t *testing.T) {
	truths := []float64{0.1, 0.1, 0.2, 0.2}
	good := invented(truths, []float64{0.01, 0.01, 0.01, 0.01}, 0.05)
	if says := verdict(good); broken(good) || !strings.Contains(says, "holds its bars") || !strings.Contains(says, "4 of 4 pairs") {
		t.Errorf("broken without an error: %s", says)
	}
	bad := invented(truths, []float64{0.01, -0.2, 0.01, -0.3}, 0.05)
	if !broken(bad) {
		t.Error("not broken with the sign of half of the pairs wrong")
	}
	elsewhere := invented(truths, []float64{-0.2, 0.01, -0.3, 0.01}, 0.05)
	if says := verdict(elsewhere); broken(elsewhere) || !strings.Contains(says, "misses its bars over all worlds, and not") {
		t.Errorf("broken by worlds that it can be right about: %s", says)
	}
}

func TestWorldsAreEnoughAndHalfMisspecified(t *testing.T) {
	all := allWorlds(0, fullTargets)
	pairs, lacking := 0, 0
	kinds := map[string]bool{}
	for _, w := range all {
		seen := map[string]bool{}
		for i := range w.targets {
			if seen[w.targets[i].name] {
				t.Errorf("%s asks twice for %s", w.name, w.targets[i].name)
			}
			seen[w.targets[i].name] = true
		}
		pairs += len(w.targets)
		kinds[w.kind()] = true
		if !w.plain() {
			lacking += len(w.targets)
		}
	}
	if pairs < 100 || 2*lacking < pairs || len(kinds) != 4 {
		t.Errorf("%d pairs, %d of them misspecified, logs of kinds %v", pairs, lacking, kinds)
	}
}

// A world small enough for a test is judged by every instrument that can.
func TestEveryInstrumentAnswers(t *testing.T) {
	w := allWorlds(2, 1)[1]
	w.traffic.length, w.traffic.warm, w.traffic.block, w.endpoints = 600, 0, 0, 4
	w.logged = exploring(1, prior)
	w.targets = []target{changed("exploring half", func(s *policy.Settings) { s.Exploration = 0.5 })}
	s, err := w.judge(t.Context(), 1001, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range instruments {
		for q := range quantities {
			if e := s.pairs[0].estimates[i][q]; !e.known() && i != simulator {
				t.Errorf("%s of %s: %s", i, q, e.refused)
			}
		}
	}
	var text strings.Builder
	writePairs(&text, []*study{s})
	if !strings.Contains(text.String(), "exploring half") || !strings.Contains(string(scatter(pairsOf([]*study{s}))), "switchback") {
		t.Error("the pair is not told of")
	}
}
