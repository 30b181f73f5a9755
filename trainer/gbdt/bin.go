package gbdt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/spillway-llm/spillway/internal/forest"
)

// maxBins leaves one of the 256 codes of a byte to missing values.
const maxBins = 255

// maxRows is what the row count of a histogram cell may reach; see fixed.
const maxRows = 1<<24 - 1

// quad is how many features share one word of codes.
const quad = 4

// codeRows is how many rows are coded at a time: their values stay in the
// second-level cache while one feature after another reads them.
const codeRows = 512

// Binned is a matrix of feature values turned into codes, from which any number
// of forests can be trained. It keeps a reference to the values, which must not
// change while it is in use, and is safe for concurrent use.
type Binned struct {
	names   []string
	x       []float64
	columns []column
	// codes holds, for every group of four features, one word a row: the code of
	// the group's first feature is its low byte. Features that fill up the last
	// group have code 0 everywhere.
	codes [][]uint32
}

// Bin turns rows of len(names) values, which stand one after the other in x,
// into codes. NaN is unknown; infinities are refused. Of the options it reads
// Bins, Seed and Threads.
func Bin(ctx context.Context, names []string, x []float64, opts Options) (*Binned, error) {
	if err := opts.checkBinning(); err != nil {
		return nil, fmt.Errorf("bin: %w", err)
	}
	if err := checkMatrix(names, x); err != nil {
		return nil, fmt.Errorf("bin: %w", err)
	}
	crew := hire(opts.Threads)
	defer crew.dismiss()
	b, err := bin(ctx, crew, names, x, &opts)
	if err != nil {
		return nil, fmt.Errorf("bin: %w", err)
	}
	return b, nil
}

// bin is Bin of what has been checked.
func bin(ctx context.Context, crew *crew, names []string, x []float64, opts *Options) (*Binned, error) {
	width := len(names)
	columns := make([]column, width)
	sample := sampleRows(len(x)/width, rand.New(rand.NewPCG(opts.Seed, 0)))
	sorters := make([]sorter, crew.threads)
	crew.each(width, func(worker, f int) {
		if ctx.Err() != nil {
			return
		}
		s := &sorters[worker]
		s.reset(len(sample))
		for _, r := range sample {
			if v := x[int(r)*width+f]; v == v {
				s.add(v)
			}
		}
		columns[f].bounds = findBounds(s.sort(), opts.Bins)
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := &Binned{names: slices.Clone(names), x: x, columns: columns}
	return b, b.code(ctx, crew)
}

// like returns other rows coded by the bins of b.
func (b *Binned) like(ctx context.Context, crew *crew, x []float64) (*Binned, error) {
	other := &Binned{names: b.names, x: x, columns: slices.Clone(b.columns)}
	return other, other.code(ctx, crew)
}

// With returns the rows of b and after them those of x, coded by the bins of b:
// what is judged must not decide on what a forest can tell apart. Of the options
// it reads Threads.
func (b *Binned) With(ctx context.Context, x []float64, opts Options) (*Binned, error) {
	if opts.Threads < 1 {
		return nil, fmt.Errorf("bin: option Threads is %d, want at least 1", opts.Threads)
	}
	if err := checkMatrix(b.names, x); err != nil {
		return nil, fmt.Errorf("bin: %w", err)
	}
	if rows := b.Rows() + len(x)/len(b.names); rows > maxRows {
		return nil, fmt.Errorf("bin: %d rows, want at most %d", rows, maxRows)
	}
	crew := hire(opts.Threads)
	defer crew.dismiss()
	all, err := b.like(ctx, crew, x)
	if err != nil {
		return nil, fmt.Errorf("bin: %w", err)
	}
	all.x = slices.Concat(b.x, x)
	for i := range all.codes {
		all.codes[i] = slices.Concat(b.codes[i], all.codes[i])
	}
	for f := range all.columns {
		all.columns[f].extent = widened(all.columns[f].extent, b.columns[f].extent)
	}
	return all, nil
}

// Rows is the number of rows.
func (b *Binned) Rows() int { return len(b.x) / len(b.names) }

// code fills the codes and the extents of all columns from the values.
func (b *Binned) code(ctx context.Context, crew *crew) error {
	rows, width := b.Rows(), len(b.names)
	b.codes = make([][]uint32, (width+quad-1)/quad)
	for i := range b.codes {
		b.codes[i] = make([]uint32, rows)
	}
	ladders := make([]ladder, width)
	for f := range ladders {
		ladders[f] = b.columns[f].ladder()
	}
	blocks := (rows + codeRows - 1) / codeRows
	extents := make([][]forest.Range, crew.threads)
	for i := range extents {
		extents[i] = unknownRanges(width)
	}
	var infinite atomic.Bool
	crew.each(blocks, func(worker, block int) {
		if ctx.Err() != nil {
			return
		}
		begin := block * codeRows
		end := min(begin+codeRows, rows)
		for f := range width {
			e := &extents[worker][f]
			ladders[f].code(b.x[begin*width+f:end*width], width, b.codes[f/quad][begin:end], f%quad*8, e)
			if math.IsInf(e.Min, 0) || math.IsInf(e.Max, 0) {
				infinite.Store(true)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if infinite.Load() {
		return b.infinity()
	}
	for f := range b.columns {
		b.columns[f].extent = unknownRange
		for i := range extents {
			b.columns[f].extent = widened(b.columns[f].extent, extents[i][f])
		}
	}
	return nil
}

// extents returns the range of each feature over the rows; all says that they
// are all rows.
func (b *Binned) extents(rows []int32, all bool) []forest.Range {
	out := make([]forest.Range, len(b.columns))
	for f := range out {
		out[f] = b.columns[f].extent
	}
	if all {
		return out
	}
	width := len(b.columns)
	for f := range out {
		out[f] = unknownRange
		for _, r := range rows {
			v := b.x[int(r)*width+f]
			out[f] = widened(out[f], forest.Range{Min: v, Max: v})
		}
	}
	return out
}

// infinity names the first infinite value.
func (b *Binned) infinity() error {
	for i, v := range b.x {
		if math.IsInf(v, 0) {
			width := len(b.names)
			return fmt.Errorf("row %d: feature %s is infinite", i/width, b.names[i%width])
		}
	}
	return errors.New("a value changed while it was read")
}

// codeOf is the code of feature f in row r.
func (b *Binned) codeOf(f, r int) uint8 {
	return uint8(b.codes[f/quad][r] >> (f % quad * 8))
}

// column is what is known of one feature.
type column struct {
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

// ladder finds the bin of a value in eight steps without a branch.
type ladder struct {
	bounds  [256]float64 // filled up with infinity
	missing uint32
}

func (c *column) ladder() (l ladder) {
	for i := copy(l.bounds[:], c.bounds); i < len(l.bounds); i++ {
		l.bounds[i] = math.Inf(1)
	}
	l.missing = uint32(c.missing())
	return l
}

// code puts the codes of every width-th value of x into the bits of codes from
// shift on, and widens the extent.
func (l *ladder) code(x []float64, width int, codes []uint32, shift int, extent *forest.Range) {
	low, high := extent.Min, extent.Max
	for i, k := 0, 0; i < len(codes); i, k = i+1, k+width {
		v := x[k]
		// The number of bounds below v, bit by bit.
		at := uint8(above(v, l.bounds[127])) << 7
		at |= uint8(above(v, l.bounds[at|63])) << 6
		at |= uint8(above(v, l.bounds[at|31])) << 5
		at |= uint8(above(v, l.bounds[at|15])) << 4
		at |= uint8(above(v, l.bounds[at|7])) << 3
		at |= uint8(above(v, l.bounds[at|3])) << 2
		at |= uint8(above(v, l.bounds[at|1])) << 1
		at |= uint8(above(v, l.bounds[at]))
		code := uint32(at)
		if v != v {
			code = l.missing
		} else {
			if !(low <= v) {
				low = v
			}
			if !(high >= v) {
				high = v
			}
		}
		codes[i] |= code << (shift & 31)
	}
	extent.Min, extent.Max = low, high
}

// above compiles to a flag-set instruction, not to a jump.
func above(v, bound float64) uint8 {
	var u uint8
	if v > bound {
		u = 1
	}
	return u
}

var unknownRange = forest.Range{Min: math.NaN(), Max: math.NaN()}

func unknownRanges(n int) []forest.Range {
	return slices.Repeat([]forest.Range{unknownRange}, n)
}

// widened is the smallest range around both, either of which may be unknown.
func widened(a, b forest.Range) forest.Range {
	if !(a.Min <= b.Min) && b.Min == b.Min {
		a.Min = b.Min
	}
	if !(a.Max >= b.Max) && b.Max == b.Max {
		a.Max = b.Max
	}
	return a
}
