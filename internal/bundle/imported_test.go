package bundle_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
)

// foreign is four forests as LightGBM 4 would write them over rows like those
// of vectorsOf.
func foreign(t *testing.T) bundle.Foreign {
	t.Helper()
	support := bundle.SupportOf(vectorsOf(7, 200))
	header := forest.Header{Objective: "quantile alpha:0.9", FeatureNames: feature.Names()}
	for j := range feature.Width {
		header.Ranges = append(header.Ranges, forest.Range{Min: float64(support.Min[j]), Max: float64(support.Max[j])})
	}
	f := bundle.Foreign{LLM: "qwen3-32b", Clip: 0.25, At: created}
	for i := range f.Forests {
		made, err := forest.New(header, []forest.Tree{{
			Splits: []forest.Split{{Feature: int32(feature.Index("kv_used")), Threshold: 0.5, Left: ^0, Right: ^1, Missing: forest.MissingNaN}},
			Leaves: []forest.Leaf{{Value: -0.1}, {Value: 0.1 + 0.1*float64(i)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		f.Forests[i] = bytes.Replace(made.Text(), []byte("version=v3"), []byte("version=v4"), 1)
	}
	return f
}

func TestImportedForestsAreServedAsTheyAre(t *testing.T) {
	f := foreign(t)
	b, err := bundle.Import(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := bundle.SupportOf(vectorsOf(7, 200)); !b.Support.Min.Equal(&want.Min) || !b.Support.Max.Equal(&want.Max) {
		t.Errorf("support %+v, want that of feature_infos %+v", b.Support, want)
	}
	if len(b.Known) != bundle.KnownAnswers {
		t.Errorf("%d known answers, want %d", len(b.Known), bundle.KnownAnswers)
	}
	raw := map[float64]bool{}
	for _, k := range b.Known {
		raw[k.Raw[bundle.TTFTP50]] = true
	}
	if !raw[-0.1] || !raw[0.1] {
		t.Errorf("the known answers see only the leaves %v", raw)
	}
	data, err := bundle.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := bundle.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	v := vectorsOf(7, 1)[0]
	v[feature.Index("kv_used")] = 0.7
	out := make([]feature.Forecast, 1)
	evaluatorOf(t, again).Evaluate([]feature.Vector{v}, out)
	want := feature.Residual{TTFT: feature.LogQuantiles{P50: 0.1, P90: 0.2}, TPOT: feature.LogQuantiles{P50: 0.25, P90: 0.25}} // clipped from 0.3 and 0.4
	if out[0].Residual != want {
		t.Errorf("residual %+v, want %+v", out[0].Residual, want)
	}
}

func TestImportRefuses(t *testing.T) {
	swap := func(target bundle.Target, old, new string) func(*testing.T, *bundle.Foreign) {
		return func(t *testing.T, f *bundle.Foreign) {
			if !bytes.Contains(f.Forests[target], []byte(old)) {
				t.Fatalf("no %q in\n%s", old, f.Forests[target])
			}
			f.Forests[target] = bytes.ReplaceAll(f.Forests[target], []byte(old), []byte(new))
		}
	}
	for _, c := range []struct {
		name, want string
		spoil      func(*testing.T, *bundle.Foreign)
	}{
		{"another column", `forest ttft_p90: column 6 of its forest is "queue", want waiting`, swap(bundle.TTFTP90, "waiting", "queue")},
		{"too few columns", "forest ttft_p50: its forest has 26 columns", func(t *testing.T, f *bundle.Foreign) {
			made, err := forest.New(forest.Header{FeatureNames: feature.Names()[1:]}, []forest.Tree{{Leaves: []forest.Leaf{{}}}})
			if err != nil {
				t.Fatal(err)
			}
			f.Forests[0] = made.Text()
		}},
		{"transformed output", `forest tpot_p50: objective "binary"`, swap(bundle.TPOTP50, "objective=quantile alpha", "objective=binary sigmoid")},
		{"no such format", "forest tpot_p90: parse forest: first line", swap(bundle.TPOTP90, "tree\nversion=v4", "binf")},
		{"cyclic", "head tpot_p90", swap(bundle.TPOTP90, "left_child=-1", "left_child=0")},
		{"categories without others", "not supported", swap(bundle.TPOTP90, "decision_type=8", "decision_type=9")},
		{"no LLM", "LLM", func(_ *testing.T, f *bundle.Foreign) { f.LLM = "" }},
		{"clip", "clip", func(_ *testing.T, f *bundle.Foreign) { f.Clip = math.NaN() }},
		{"wide clip", "clip", func(_ *testing.T, f *bundle.Foreign) { f.Clip = 11 }},
		{"no ranges", "prior_ttft the range [NaN, NaN]", func(t *testing.T, f *bundle.Foreign) {
			for i := range f.Forests {
				swap(bundle.Target(i), "feature_infos=", "infos=")(t, f)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := foreign(t)
			c.spoil(t, &f)
			if c.name == "categories without others" {
				swap(bundle.TPOTP90, "num_cat=0", "num_cat=1\ncat_boundaries=0 1\ncat_threshold=1")(t, &f)
				swap(bundle.TPOTP90, "threshold=0.5", "threshold=0")(t, &f)
			}
			if _, err := bundle.Import(f, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one about %q", err, c.want)
			} else if c.name == "categories without others" != errors.Is(err, forest.ErrUnsupported) {
				t.Errorf("ErrUnsupported: %v", err)
			}
		})
	}
}
