package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// heavyTrees is how many trees each head of a million rows has.
const heavyTrees = 200

// head is one forest over all rows.
type head struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	took
	// PeakBytes is how far the heap, garbage included, rose above what it was
	// before: the caller's rows are not in it, the codes of the bins are.
	PeakBytes   float64 `json:"peak_bytes"`
	BinnedBytes float64 `json:"binned_bytes"` // a byte for each value
}

func (h head) print(w io.Writer) {
	fmt.Fprintf(w, "%-24s %7d rows x %d trees: %.1f s, %.1f CPU s, peak %.1f MB = %.2f x binned\n",
		h.Name, h.Rows, heavyTrees, h.Wall, h.CPU, h.PeakBytes/1e6, h.PeakBytes/h.BinnedBytes)
}

// million trains the heads that a refit has, on all rows.
func million(ctx context.Context, s settings, data gbdt.Data) ([]head, error) {
	weighted := data
	weighted.Weights = make([]float64, len(data.Y))
	for i := range weighted.Weights {
		// A half-life of a third of the window.
		weighted.Weights[i] = math.Exp2(-3 * float64(len(data.Y)-i) / float64(len(data.Y)))
	}
	var heads []head
	for _, c := range []struct {
		name, objective string
		data            gbdt.Data
		signs           []int8
	}{
		{"squared error", "squared", data, nil},
		{"p90", "quantile", data, nil},
		{"p90, signs", "quantile", data, signs},
		{"p90, signs and weights", "quantile", weighted, signs},
	} {
		opts := s.options(c.objective)
		opts.Trees, opts.MonotoneSigns = heavyTrees, c.signs
		h := head{Name: c.name, Rows: len(data.Y), BinnedBytes: float64(len(data.X))}
		peak := watchHeap()
		_, err := timed(&h.took, func() (predictor, error) { return gbdt.Train(ctx, c.data, opts) })
		h.PeakBytes = peak()
		if err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, nil
}

// watchHeap looks at the heap every few milliseconds until the function it
// returns is called, which says how far it rose.
func watchHeap() (peak func() float64) {
	debug.FreeOSMemory()
	read := func() float64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return float64(sample[0].Value.Uint64())
	}
	before := read()
	most := before
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, read())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() float64 {
		close(done)
		watching.Wait()
		return max(most, read()) - before
	}
}

// kept is what became of the promise of monotone quantile forests.
type kept struct {
	Pairs      int     `json:"pairs"`
	Violations int     `json:"violations"`
	Loss       float64 `json:"loss"`      // mean pinball on held-out rows, with signs
	FreeLoss   float64 `json:"free_loss"` // and without
}

// monotone trains with signs and compares predictions for pairs of rows that
// differ in one feature with a sign, half of them beyond the training rows.
func monotone(ctx context.Context, s settings, data, held gbdt.Data) (kept, error) {
	k := kept{Pairs: 100_000}
	opts := s.options("quantile")
	out := make([]float64, len(held.Y))
	free, err := gbdt.Train(ctx, data, opts)
	if err != nil {
		return k, err
	}
	free.PredictBatch(held.X, len(out), out)
	k.FreeLoss = loss("quantile", out, held.Y)
	opts.MonotoneSigns = signs
	f, err := gbdt.Train(ctx, data, opts)
	if err != nil {
		return k, err
	}
	f.PredictBatch(held.X, len(out), out)
	k.Loss = loss("quantile", out, held.Y)

	var signed []int
	for i, sign := range signs {
		if sign != 0 {
			signed = append(signed, i)
		}
	}
	rng := rand.New(rand.NewPCG(s.seed, 99))
	ranges := f.Header().Ranges
	width := len(names)
	row := make([]float64, width)
	for i := range k.Pairs {
		r := rng.IntN(len(held.Y))
		copy(row, held.X[r*width:(r+1)*width])
		at := signed[rng.IntN(len(signed))]
		low, high := ranges[at].Min, ranges[at].Max
		if i%2 == 1 {
			low, high = low-(high-low), high+(high-low)
		}
		a, b := low+rng.Float64()*(high-low), low+rng.Float64()*(high-low)
		if i%4 > 1 { // near a value that rows have
			a = held.X[rng.IntN(len(held.Y))*width+at]
			b = a * (1 + 0.1*rng.NormFloat64())
		}
		row[at] = min(a, b)
		before := f.Predict(row)
		row[at] = max(a, b)
		after := f.Predict(row)
		if float64(signs[at])*(after-before) < 0 {
			k.Violations++
		}
	}
	return k, nil
}
