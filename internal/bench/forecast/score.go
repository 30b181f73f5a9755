package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// score is how good the forecasts of one latency were.
type score struct {
	Rows        int
	MAPE        float64 // mean of |p50-actual|/actual
	Median      float64 // median of it
	WAPE        float64 // sum of |p50-actual| over the sum of actual
	Frozen      evaluate.Proportion
	Prequential evaluate.Proportion // of the p90 moved by what the rows before it came to
	Width       float64             // geometric mean of p90/p50, moved so
	FrozenWidth float64
}

// MarshalJSON writes unknown numbers as null.
func (s score) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"rows": s.Rows, "mape": feature.Number(s.MAPE), "median_ape": feature.Number(s.Median), "wape": feature.Number(s.WAPE),
		"coverage_frozen": s.Frozen, "coverage_prequential": s.Prequential,
		"width_frozen": feature.Number(s.FrozenWidth), "width_prequential": feature.Number(s.Width),
	})
}

// loadColumn is what deciles of load, and the bands of coverage, are of.
var loadColumn = feature.Index("inflight_requests")

// tally gathers the errors of one contender.
type tally [2]struct {
	off                []float64 // relative
	sum, actual        float64
	width, frozenWidth float64
	covered, frozen    int64
}

// add judges TTFT and TPOT forecasts of samples in the order of their
// completion. The errors are those of the forecasts as they are; beside the
// coverage of their p90 stands that of the p90 as a router would have moved it
// by then.
func (t *tally) add(samples []learn.Sample, forecasts []feature.Forecast) {
	var coverage correction.Coverage
	for i := range samples {
		actual, f, load := latencies(&samples[i]), forecasts[i], float64(samples[i].Vector[loadColumn])
		moved := f
		moved.TTFT = quantiles(float64(f.TTFT.P50), float64(f.TTFT.P90)*math.Exp(coverage.TTFT(load)))
		moved.TPOT = quantiles(float64(f.TPOT.P50), float64(f.TPOT.P90)*math.Exp(coverage.TPOT(load)))
		for k, q := range [2][2]feature.Quantiles{{f.TTFT, moved.TTFT}, {f.TPOT, moved.TPOT}} {
			x, p50, into := actual[k], float64(q[0].P50), &t[k]
			if x != x {
				continue
			}
			into.off = append(into.off, math.Abs(p50-x)/x)
			into.sum += math.Abs(p50 - x)
			into.actual += x
			into.frozenWidth += math.Log(float64(q[0].P90 / q[0].P50))
			into.width += math.Log(float64(q[1].P90 / q[1].P50))
			if x <= float64(q[0].P90) {
				into.frozen++
			}
			if x <= float64(q[1].P90) {
				into.covered++
			}
		}
		coverage.Observe(&correction.Said{Plain: f, Corrected: moved, Load: load}, feature.Seconds(actual[0]), feature.Seconds(actual[1]))
	}
}

// scores are those of TTFT and of TPOT.
func (t *tally) scores() [2]score {
	var out [2]score
	for k := range out {
		from := &t[k]
		slices.Sort(from.off)
		rows := int64(len(from.off))
		out[k] = score{
			Rows: len(from.off), MAPE: evaluate.Mean(from.off), Median: evaluate.Quantile(from.off, 0.5), WAPE: from.sum / from.actual,
			Frozen: evaluate.Wilson(from.frozen, rows), Prequential: evaluate.Wilson(from.covered, rows),
			Width: math.Exp(from.width / float64(rows)), FrozenWidth: math.Exp(from.frozenWidth / float64(rows)),
		}
	}
	return out
}

// table is the contenders side by side, on one set of rows.
type table struct {
	Title string `json:"title"`
	Rows  []line `json:"rows"`
}

type line struct {
	Split     string `json:"split"`
	Latency   string `json:"latency"`
	Contender string `json:"contender"`
	Score     score  `json:"score"`
}

func (t table) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "split\tlatency\tforecast\trows\tMAPE\tmedian\tWAPE\tfrozen p90 covers\tp90/p50\tprequential covers\t99 %\tp90/p50\t")
	for _, l := range t.Rows {
		s := l.Score
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%.2f\t%s\t%s-%s\t%.2f\t\n", l.Split, l.Latency, l.Contender, s.Rows,
			percent(s.MAPE), percent(s.Median), percent(s.WAPE), percent(float64(s.Frozen.Share)), s.FrozenWidth,
			percent(float64(s.Prequential.Share)), percent(float64(s.Prequential.Low)), percent(float64(s.Prequential.High)), s.Width)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
