package main

import (
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// small is a scenario of some thousand requests.
var small = scenario{
	name: "small", workload: "rag", engines: 4, slow: 2, newcomers: 1, knee: kneeRetrieval,
	learned: []float64{0.5}, judged: []float64{0.8, 0.8}, each: 75 * time.Second,
}

// TestARunLearnsBeforeItJudges runs a scenario through and judges it.
func TestARunLearnsBeforeItJudges(t *testing.T) {
	l, err := small.run(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.learned) < 500 || len(l.judged) < 1000 {
		t.Fatalf("%d learned, %d judged", len(l.learned), len(l.judged))
	}
	split := l.judged[0].DecidedAt
	for i := range l.learned {
		if s := &l.learned[i]; s.Finished.After(split) || s.Class == classHalf {
			t.Fatalf("learned of %s, which ended at %v; what was learned decides from %v on", s.Class, s.Finished, split)
		}
	}
	for i := 1; i < len(l.judged); i++ {
		if l.judged[i].DecidedAt.Before(l.judged[i-1].DecidedAt) {
			t.Fatal("judged rows are not in order of decision")
		}
	}
	f := evaluate.NewForecasts(evaluate.Options{Series: simulatedSeries})
	l.judge(f, 7)
	r := f.Report(1)
	if r.Judged < 1000 || len(r.Series) != len(simulatedSeries) {
		t.Errorf("%d rows of %d series", r.Judged, len(r.Series))
	}
	ours, own := r.Series[len(r.Series)-1].TTFT, r.Series[0].TTFT
	if !(ours.All.MedianAPE < own.All.MedianAPE/2) || !(ours.BiasSpread.Typical < 0.2) {
		t.Errorf("ours is off by %v with a spread of %v, the router's own prior by %v", ours.All.MedianAPE, ours.BiasSpread.Typical, own.All.MedianAPE)
	}
	if len(ours.ByEndpoint) != 5 {
		t.Errorf("%d endpoints were judged, want 4 and one that joined", len(ours.ByEndpoint))
	}

	var s settling
	if s.add(&l); len(s.first) == 0 || len(s.final) == 0 {
		t.Errorf("of the newcomer there are %d and %d requests", len(s.first), len(s.final))
	}

	var forks forked
	if err := forks.add(t.Context(), small, &l, 7); err != nil {
		t.Fatal(err)
	}
	for _, row := range forks.table(1).Rows {
		if row.Choice.Decisions != int64(len(forkedAt)) || !(row.Choice.Mean.Mean >= 0) {
			t.Errorf("%s, %s: %d decisions lost %v s in the mean", row.Latency, row.Contender, row.Choice.Decisions, row.Choice.Mean.Mean)
		}
	}
}

// A decile with too few rows is not judged, and with none that is, a bar is short.
func TestDecilesNeedRows(t *testing.T) {
	few := evaluate.Report{Series: []evaluate.Series{{TTFT: evaluate.Quality{ByLoad: []evaluate.Group{
		{Scores: evaluate.Scores{Rows: 1999, Coverage: evaluate.Proportion{Share: 0.5}}},
	}}}}}
	report := bench.Report{Sizes: map[string]int{}}
	for _, b := range simulatedBars("x", &few, &report)[2:] {
		if b.Holds() || !math.IsNaN(b.Value) {
			t.Errorf("%v holds", b)
		}
	}
	groups := &few.Series[0].TTFT.ByLoad
	for _, share := range []feature.Number{0.89, 0.95, 0.91} {
		*groups = append(*groups, evaluate.Group{Scores: evaluate.Scores{Rows: 2500, Coverage: evaluate.Proportion{Share: share}}})
	}
	bars := simulatedBars("x", &few, &report)[2:]
	if bars[0].Value != 0.89 || bars[1].Value != 0.95 || report.Sizes["x deciles judged"] != 3 {
		t.Errorf("%v, %v", bars, report.Sizes)
	}
}
