package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// judgedLoad is the share of the knee at which bars are read; the other shows
// what is left where nothing is tight.
const (
	judgedLoad = 0.8
	calmLoad   = 0.6
)

var loads = []float64{judgedLoad, calmLoad}

// length is how long requests arrive in a run of the comparison.
const length = 20 * time.Minute

// arms are the ways to put routers before the fleet; the first is what the
// others are compared with.
var arms = []arm{
	{"one", fleet.Replicas{Count: 1}},
	{"two, sharing", fleet.Replicas{Count: 2, Share: true, ShareDelay: shareDelay}},
	{"four, sharing", fleet.Replicas{Count: 4, Share: true, ShareDelay: shareDelay}},
	{"two, apart", fleet.Replicas{Count: 2}},
	{"four, apart", fleet.Replicas{Count: 4}},
}

// row is what one arm came to under one load.
type row struct {
	Load     float64 `json:"load"` // share of the knee
	Routers  int     `json:"routers"`
	Share    bool    `json:"share"`
	Requests int     `json:"requests"`

	// Means over the seeds.
	TTFTp90 feature.Number `json:"ttft_p90"`
	TTFT    feature.Number `json:"ttft_mean"`
	E2E     feature.Number `json:"e2e_mean"`
	HitRate feature.Number `json:"hit_rate"`
	GaveUp  int            `json:"gave_up"` // requests whose clients waited 600 s: the longest answers

	Ratio ratio `json:"ttft_p90_over_one"`
}

// ratio is a geometric mean over seeds with the ends of its 95 % interval.
type ratio struct {
	Mean   float64   `json:"mean"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	BySeed []float64 `json:"by_seed"`
}

// compare runs every arm under one load.
func compare(ctx context.Context, load float64, seeds []uint64, done func()) ([]row, error) {
	var rows []row
	one := make([]float64, len(seeds))
	for i, a := range arms {
		r := row{Load: load, Routers: a.replicas.Count, Share: a.replicas.Share}
		ratios := make([]float64, len(seeds))
		n := feature.Number(len(seeds))
		results, err := each(ctx, seeds, load*knee, length, a, done)
		if err != nil {
			return nil, err
		}
		for j, result := range results {
			s := result.Summary(result.Loaded, fleet.SLO{})
			r.Requests += s.Requests
			r.GaveUp += s.Requests - int(math.Round(float64(s.Success)*float64(s.Requests)))
			r.TTFTp90 += feature.Number(s.TTFT.P90) / n
			r.TTFT += feature.Number(s.TTFT.Mean) / n
			r.E2E += feature.Number(s.E2E.Mean) / n
			r.HitRate += s.HitRate / n
			if i == 0 {
				one[j] = float64(s.TTFT.P90)
			}
			ratios[j] = float64(s.TTFT.P90) / one[j]
		}
		r.Ratio = geometric(ratios)
		rows = append(rows, r)
	}
	return rows, nil
}

// studentT is the 97.5 % quantile of Student's distribution by its degrees of
// freedom, from 1; beyond these the normal one is near enough.
var studentT = []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09}

func geometric(values []float64) ratio {
	n, sum, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	mean := sum / n
	for _, v := range values {
		squares += (math.Log(v) - mean) * (math.Log(v) - mean)
	}
	t := 1.96
	if at := len(values) - 2; at < len(studentT) {
		t = studentT[at]
	}
	half := t * math.Sqrt(squares/(n-1)/n)
	return ratio{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half), values}
}

func printRows(out io.Writer, rows []row) {
	fmt.Fprintf(out, "mixed traffic on %d engines, %v a run; TTFT p90 over that of one router, with its 95 %% interval over the seeds\n", engines, length)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "load\trouters\tTTFT p90 s\tmean s\tE2E s\thit rate\tgave up\tover one\t\t")
	for i, r := range rows {
		fmt.Fprintf(w, "%.0f %%\t%s\t%.3f\t%.3f\t%.2f\t%.3f\t%d\t%.3f\t%.3f to %.3f\t\n",
			100*r.Load, arms[i%len(arms)].name, r.TTFTp90, r.TTFT, r.E2E, r.HitRate, r.GaveUp, r.Ratio.Mean, r.Ratio.Low, r.Ratio.High)
	}
	w.Flush()
	fmt.Fprintln(out)
}
