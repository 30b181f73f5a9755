package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"syscall"
	"time"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// alpha is the quantile of the quantile forests.
const alpha = 0.9

// The settings of every tool: the defaults of trainer/gbdt.
const (
	trees     = 100
	leaves    = 31
	rate      = 0.1
	l2        = 1
	leastRows = 20
	bins      = 255
)

func (s settings) options(objective string) gbdt.Options {
	o := gbdt.Defaults()
	o.Trees, o.Leaves, o.LearningRate, o.L2 = trees, leaves, rate, l2
	o.MinLeafRows, o.Bins, o.Threads, o.Seed = leastRows, bins, s.threads, s.seed
	if objective == "quantile" {
		o.Objective, o.Alpha = gbdt.Quantile, alpha
	}
	return o
}

// comparison is one size and objective, trained by every tool in turns.
type comparison struct {
	Rows      int     `json:"rows"`
	Objective string  `json:"objective"`
	Ours      result  `json:"ours"`
	XGBoost   *result `json:"xgboost"` // nil for quantiles, which Debian's does not have
	Sklearn   *result `json:"sklearn"`
	turns     int
}

// result is what one tool came to.
type result struct {
	took          // the shortest of each
	Loss  float64 `json:"loss"` // root mean squared or mean pinball, on held-out rows
	Turns []took  `json:"turns"`
}

func (r *result) add(t took, loss float64) {
	if r.Turns == nil {
		r.took = t
	}
	r.Wall, r.CPU = min(r.Wall, t.Wall), min(r.CPU, t.CPU)
	r.Loss = loss
	r.Turns = append(r.Turns, t)
}

func (c *comparison) run(ctx context.Context, rivals []*rival, s settings, data, held gbdt.Data) error {
	data = firstRows(data, c.Rows)
	opts := s.options(c.Objective)
	out := make([]float64, len(held.Y))
	for range c.turns {
		var t took
		f, err := timed(&t, func() (predictor, error) { return gbdt.Train(ctx, data, opts) })
		if err != nil {
			return err
		}
		f.PredictBatch(held.X, len(out), out)
		c.Ours.add(t, loss(c.Objective, out, held.Y))

		for _, r := range rivals {
			to := &c.Sklearn
			if r.tool == "xgboost" {
				to = &c.XGBoost
				if c.Objective == "quantile" {
					continue // Debian's has none
				}
			}
			t, predictions, err := r.train(job{
				Objective: c.Objective, Alpha: alpha, Rows: c.Rows, Trees: trees, Leaves: leaves,
				Rate: rate, L2: l2, LeastRows: leastRows, Bins: bins, Threads: s.threads,
			}, len(held.Y))
			if err != nil {
				return err
			}
			if *to == nil {
				*to = &result{}
			}
			(*to).add(t, loss(c.Objective, predictions, held.Y))
		}
	}
	return nil
}

func (c *comparison) print(w io.Writer, threads int) {
	fmt.Fprintf(w, "%-8s %7d rows   ours     %6.2f s, %6.2f CPU s, loss %.5f\n", c.Objective, c.Rows, c.Ours.Wall, c.Ours.CPU, c.Ours.Loss)
	if x := c.XGBoost; x != nil {
		if x.Wall*float64(threads) > 1.3*x.CPU || c.Ours.Wall > 1.1*c.Ours.CPU {
			fmt.Fprintf(w, "%-22s the machine is busy with something else: the times below say little\n", "")
		}
		fmt.Fprintf(w, "%-22s XGBoost  %6.2f s, %6.2f CPU s, loss %.5f; ours takes %.2f of its time, %.2f of its CPU\n", "", x.Wall, x.CPU, x.Loss, c.Ours.Wall/x.Wall, c.Ours.CPU/x.CPU)
	}
	if x := c.Sklearn; x != nil {
		fmt.Fprintf(w, "%-22s sklearn  %6.2f s, %6.2f CPU s, loss %.5f; ours takes %.2f of its time, %.2f of its CPU\n", "", x.Wall, x.CPU, x.Loss, c.Ours.Wall/x.Wall, c.Ours.CPU/x.CPU)
	}
}

// predictor is what training gives.
type predictor interface {
	Predict(row []float64) float64
	PredictBatch(rows []float64, n int, out []float64)
}

// timed runs train and says what it took.
func timed(t *took, train func() (predictor, error)) (predictor, error) {
	wall, cpu := time.Now(), cpuSeconds()
	p, err := train()
	t.Wall, t.CPU = time.Since(wall).Seconds(), cpuSeconds()-cpu
	return p, err
}

// cpuSeconds is the CPU time of this process so far.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// loss is the root mean squared error, or the mean pinball loss.
func loss(objective string, predictions, y []float64) float64 {
	sum := 0.0
	for i, p := range predictions {
		d := y[i] - p
		switch {
		case objective == "squared":
			sum += d * d
		case d >= 0:
			sum += alpha * d
		default:
			sum -= (1 - alpha) * d
		}
	}
	if objective == "squared" {
		return math.Sqrt(sum / float64(len(y)))
	}
	return sum / float64(len(y))
}
