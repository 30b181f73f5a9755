package gbdt

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/spillway-llm/spillway/internal/forest"
)

// maxBins leaves one of the 256 codes of a byte to missing values.
const maxBins = 255

// binSample is how many rows the bins are drawn from; LightGBM's default.
const binSample = 200_000

// column is one feature, binned.
type column struct {
	codes  []uint8   // of each row
	bounds []float64 // bin i holds values above bounds[i-1] up to bounds[i]; the last has no upper bound
	extent forest.Range
}

// missing is the code of NaN: the one after those of the known values.
func (c *column) missing() uint8 { return uint8(len(c.bounds) + 1) }

// threshold is the largest value of bin i; after the last bin every finite
// value passes and only missing ones stay behind.
func (c *column) threshold(i uint8) float64 {
	if int(i) < len(c.bounds) {
		return c.bounds[i]
	}
	return math.MaxFloat64
}

func (c *column) code(x float64) uint8 {
	if math.IsNaN(x) {
		return c.missing()
	}
	return uint8(sort.SearchFloat64s(c.bounds, x))
}

// binColumns bins every feature of the training data.
func binColumns(ctx context.Context, data Data, opts Options) ([]column, error) {
	rows, width := len(data.Y), len(data.FeatureNames)
	sample := make([]int, rows)
	for i := range sample {
		sample[i] = i
	}
	if rows > binSample {
		rng := rand.New(rand.NewPCG(opts.Seed, 0))
		for i := range binSample {
			j := i + rng.IntN(rows-i)
			sample[i], sample[j] = sample[j], sample[i]
		}
		sample = sample[:binSample]
	}
	columns := make([]column, width)
	parallel(opts.Threads, width, func(_, f int) {
		if ctx.Err() != nil {
			return
		}
		known := make([]float64, 0, len(sample))
		for _, r := range sample {
			if x := data.X[r*width+f]; !math.IsNaN(x) {
				known = append(known, x)
			}
		}
		columns[f] = column{bounds: findBounds(known, opts.Bins)}
		columns[f].fill(data.X, width, f)
	})
	return columns, ctx.Err()
}

// fill codes column f of row-major x and measures its extent.
func (c *column) fill(x []float64, width, f int) {
	c.codes = make([]uint8, len(x)/width)
	c.extent = forest.Range{Min: math.NaN(), Max: math.NaN()}
	for i := range c.codes {
		v := x[i*width+f]
		c.codes[i] = c.code(v)
		if math.IsNaN(v) {
			continue
		}
		if !(c.extent.Min <= v) {
			c.extent.Min = v
		}
		if !(c.extent.Max >= v) {
			c.extent.Max = v
		}
	}
}

// findBounds returns at most bins-1 bounds that put about the same number of
// values into every bin and never part equal ones. A value that fills a bin
// alone gets one. It sorts the values.
func findBounds(values []float64, bins int) []float64 {
	slices.Sort(values)
	distinct, counts := runs(values)
	if len(distinct) == 0 {
		return nil
	}
	bounds := make([]float64, 0, min(bins, len(distinct))-1)
	rest, held := len(values), 0
	for i := 0; i < len(distinct)-1 && len(bounds) < bins-1; i++ {
		held += counts[i]
		// What is not yet behind a bound is shared among the bins left.
		share := float64(rest) / float64(bins-len(bounds))
		enough := len(distinct) <= bins || float64(held) >= share
		nextAlone := float64(counts[i+1]) >= share && 2*float64(held) >= share
		if enough || nextAlone {
			bounds = append(bounds, between(distinct[i], distinct[i+1]))
			rest, held = rest-held, 0
		}
	}
	return bounds
}

// runs returns the distinct values of a sorted slice and how often each occurs.
func runs(sorted []float64) (distinct []float64, counts []int) {
	for i, v := range sorted {
		if i == 0 || v != sorted[i-1] {
			distinct, counts = append(distinct, v), append(counts, 0)
		}
		counts[len(counts)-1]++
	}
	return distinct, counts
}

// between returns a threshold t with a <= t < b, in the middle if there is one.
func between(a, b float64) float64 {
	if t := a/2 + b/2; a <= t && t < b {
		return t
	}
	return a
}
