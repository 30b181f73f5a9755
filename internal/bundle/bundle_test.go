package bundle_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/internal/physics"
)

func TestNewFillsKnownAnswers(t *testing.T) {
	examples := vectorsOf(7, 200)
	examples[0][feature.ColumnPriorTTFT] = float32(math.NaN())
	b, err := bundle.New(draftOf(t, examples), examples)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Known) != bundle.KnownAnswers {
		t.Fatalf("%d known answers, want %d", len(b.Known), bundle.KnownAnswers)
	}
	if !b.Known[0].Vector.Equal(&examples[1]) || !b.Known[len(b.Known)-1].Vector.Equal(&examples[199]) {
		t.Error("known answers do not span the usable examples")
	}
	if b.Schema != feature.Schema {
		t.Errorf("schema %s, want %s", b.Schema, feature.Schema)
	}
	if _, err := bundle.New(draftOf(t, examples), examples[:1]); err == nil {
		t.Error("a bundle without known answers was made")
	}
}

func TestCheckRefuses(t *testing.T) {
	short, err := forest.New(forest.Header{FeatureNames: feature.Names()[1:]}, []forest.Tree{{Leaves: []forest.Leaf{{Value: 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	nan, nan32 := math.NaN(), float32(math.NaN())
	for _, c := range []struct {
		name, want string
		spoil      func(*bundle.Bundle)
	}{
		{"schema", "schema", func(b *bundle.Bundle) { b.Schema[0]++ }},
		{"no LLM", "LLM", func(b *bundle.Bundle) { b.LLM = "" }},
		{"LLM not UTF-8", "UTF-8", func(b *bundle.Bundle) { b.LLM = "a\xff" }},
		{"window", "window", func(b *bundle.Bundle) { b.Window.From, b.Window.To = b.Window.To, b.Window.From }},
		{"coefficient", "class h100", func(b *bundle.Bundle) {
			b.Coefficients = map[string]physics.Coefficients{"h100": {A: nan}}
		}},
		{"forest text", "head tpot_p50", func(b *bundle.Bundle) { b.Heads[bundle.TPOTP50].Forest = []byte("tree\nversion=v9\n") }},
		{"columns", "head ttft_p90", func(b *bundle.Bundle) { b.Heads[bundle.TTFTP90].Forest = short.Text() }},
		{"NaN clip", "clips", func(b *bundle.Bundle) { b.Heads[0].Low = nan }},
		{"crossed clip", "clips", func(b *bundle.Bundle) { b.Heads[0].Low, b.Heads[0].High = 1, -1 }},
		{"wide clip", "clips", func(b *bundle.Bundle) { b.Heads[0].High = math.Inf(1) }},
		{"NaN shift", "shifts", func(b *bundle.Bundle) { b.Heads[0].Shift = nan }},
		{"damped by more than all", "damped", func(b *bundle.Bundle) { b.Heads[0].Damping = 1.1 }},
		{"falling term", "term 2", func(b *bundle.Bundle) { b.Fitted.TTFT.Terms[2].Seconds = -1 }},
		{"no range of priors", "range", func(b *bundle.Bundle) { b.Fitted.TTFT.Min = 0 }},
		{"support", "support of waiting", func(b *bundle.Bundle) { b.Support.Min[feature.Index("waiting")] = 1e9 }},
		{"support without priors", "support of prior_tpot", func(b *bundle.Bundle) {
			b.Support.Min[feature.ColumnPriorTPOT], b.Support.Max[feature.ColumnPriorTPOT] = nan32, nan32
		}},
		{"no known answers", "no known answers", func(b *bundle.Bundle) { b.Known = nil }},
		{"raw", "known answer 3: head ttft_p90", func(b *bundle.Bundle) { b.Known[3].Raw[bundle.TTFTP90] += 1e-6 }},
		{"residual", "known answer 4: residual tpot_p50", func(b *bundle.Bundle) { b.Known[4].Residual.TPOT.P50 = nan }},
		{"invalid known vector", "have no forecast", func(b *bundle.Bundle) { b.Known[5].Vector[feature.ColumnPriorTTFT] = 0 }},
		{"swapped forests", "known answer", func(b *bundle.Bundle) { b.Heads[0], b.Heads[2] = b.Heads[2], b.Heads[0] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bundleOf(t)
			if err := b.Check(); err != nil {
				t.Fatalf("before: %v", err)
			}
			c.spoil(b)
			err := b.Check()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one about %q", err, c.want)
			}
			if got := errors.Is(err, bundle.ErrSchema); got != (c.name == "schema") {
				t.Errorf("ErrSchema: %v", got)
			}
		})
	}
}

// nanForest stands for an evaluator that went wrong.
type nanForest struct{}

func (nanForest) PredictBatch(_ []float64, n int, out []float64) {
	for i := range n {
		out[i] = math.NaN()
	}
}

func TestEvaluatorOfRefusesForestsThatDisagree(t *testing.T) {
	b := bundleOf(t)
	var forests [bundle.Targets]bundle.Forest
	for i, h := range b.Heads {
		f, err := forest.Parse(h.Forest)
		if err != nil {
			t.Fatal(err)
		}
		forests[i] = f
	}
	if _, err := b.EvaluatorOf(forests); err != nil {
		t.Fatalf("the same forests: %v", err)
	}
	forests[bundle.TTFTP90] = nanForest{}
	if _, err := b.EvaluatorOf(forests); err == nil {
		t.Error("a forest that gives NaN was accepted")
	}
}
