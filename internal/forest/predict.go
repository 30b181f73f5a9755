package forest

import "fmt"

// lanes is how many rows of a batch are walked side by side: as many as leave
// the registers of amd64 room for what they share.
const lanes = 8

// rowKeys holds the keys of up to lanes rows: that of column c and row r stands
// at c*lanes+r. It is longer than that so that no index is out of range.
type rowKeys [(maxColumns + 1) * lanes]uint32

// stepsAtOnce is how many steps are walked between two looks at whether all
// rows have come to the end.
const stepsAtOnce = 16

// Predict returns the raw prediction for one row of NumFeatures values; NaN
// means unknown. It does not allocate. It panics when the row has another
// width: see Check.
//
// Rows whose values are float32s, as those of vectors are, are the fast ones.
func (f *Forest) Predict(row []float64) float64 {
	if len(row) != f.NumFeatures() {
		panic(fmt.Sprintf("forest: row of %d values, want %d", len(row), f.NumFeatures()))
	}
	var x rowKeys
	if !f.load(&x, row, 1) {
		return f.walk(row)
	}
	return f.single(&x)
}

// PredictBatch writes the raw predictions for n rows, which stand one after
// the other in rows, to out[:n]. The result equals, bit for bit, n calls of
// Predict, and takes less time from four rows on. It does not allocate. It
// panics unless rows holds n*NumFeatures values and out at least n: see Check.
func (f *Forest) PredictBatch(rows []float64, n int, out []float64) {
	width := f.NumFeatures()
	if n < 0 || len(rows) != n*width || len(out) < n {
		panic(fmt.Sprintf("forest: %d values and %d results for %d rows of %d", len(rows), len(out), n, width))
	}
	var x rowKeys
	var sums [lanes]float64
	for n > 0 {
		k := min(n, lanes)
		if k < lanes/2 {
			k = 1 // half-empty lanes cost more than rows alone
		}
		switch {
		case !f.load(&x, rows[:k*width], k):
			for r := range k {
				out[r] = f.walk(rows[r*width : (r+1)*width])
			}
		case k == 1:
			out[0] = f.single(&x)
		default:
			f.eights(&x, &sums) // lanes without a row hold keys of others, or 0
			copy(out[:k], sums[:])
		}
		rows, out, n = rows[k*width:], out[k:], n-k
	}
}

// load fills the first n lanes with the keys of as many rows. It reports false
// when they have none: a value is not a float32, or the forest is not flat.
func (f *Forest) load(x *rowKeys, rows []float64, n int) bool {
	if f.words == nil {
		return false
	}
	width := f.NumFeatures()
	exact := true
	for i := range f.columns {
		c := &f.columns[i]
		keys := x[i*lanes:][:n]
		at := int(c.feature)
		for r := range keys {
			value := rows[at]
			at += width
			short := float32(value)
			keys[r] = keyOf(short)
			switch {
			case value != value, c.zero && isZero(value):
				keys[r] = c.missing
			case float64(short) != value:
				exact = false
			}
		}
	}
	return exact
}

// eights walks eight rows down all trees and returns the sums of their leaves;
// what is added at a split is 0. The word itself is what a lane holds between
// two steps: with an index beside it eight lanes don't fit the registers.
func (f *Forest) eights(x *rowKeys, sums *[lanes]float64) {
	words := f.words
	values := f.values[:len(words)]
	end := words[len(words)-1]
	*sums = [lanes]float64{}
	var a, b, c, d, e, g, h, i uint64 // words that lead to the first root
	for {
		for range stepsAtOnce {
			at := uint32((a+uint64(x[a>>columnShift]))>>childShift) & childMask
			a = words[at]
			sums[0] += values[at]
			at = uint32((b+uint64(x[b>>columnShift+1]))>>childShift) & childMask
			b = words[at]
			sums[1] += values[at]
			at = uint32((c+uint64(x[c>>columnShift+2]))>>childShift) & childMask
			c = words[at]
			sums[2] += values[at]
			at = uint32((d+uint64(x[d>>columnShift+3]))>>childShift) & childMask
			d = words[at]
			sums[3] += values[at]
			at = uint32((e+uint64(x[e>>columnShift+4]))>>childShift) & childMask
			e = words[at]
			sums[4] += values[at]
			at = uint32((g+uint64(x[g>>columnShift+5]))>>childShift) & childMask
			g = words[at]
			sums[5] += values[at]
			at = uint32((h+uint64(x[h>>columnShift+6]))>>childShift) & childMask
			h = words[at]
			sums[6] += values[at]
			at = uint32((i+uint64(x[i>>columnShift+7]))>>childShift) & childMask
			i = words[at]
			sums[7] += values[at]
		}
		if a == end && b == end && c == end && d == end && e == end && g == end && h == end && i == end {
			return
		}
	}
}

// single walks the first lane down four trees at once, so that their loads
// overlap, and adds their leaves in tree order. It waits in a leaf until all
// four have found theirs.
func (f *Forest) single(x *rowKeys) float64 {
	words, values := f.words, f.values
	sum := 0.0
	roots := f.roots
	for ; len(roots) >= 4; roots = roots[4:] {
		a, b, c, d := roots[0], roots[1], roots[2], roots[3]
		for {
			wa, wb, wc, wd := words[a], words[b], words[c], words[d]
			if uint32(wa)|uint32(wb)|uint32(wc)|uint32(wd) == 0 {
				break
			}
			a = step(a, wa, x)
			b = step(b, wb, x)
			c = step(c, wc, x)
			d = step(d, wd, x)
		}
		sum += values[a]
		sum += values[b]
		sum += values[c]
		sum += values[d]
	}
	for _, a := range roots {
		for uint32(words[a]) != 0 {
			a = step(a, words[a], x)
		}
		sum += values[a]
	}
	return sum
}

// step is the node behind node at, whose word is w, for the first lane: at
// itself when it is a leaf.
func step(at uint32, w uint64, x *rowKeys) uint32 {
	next := uint32((w+uint64(x[w>>columnShift]))>>childShift) & childMask
	leaf := uint32((uint64(uint32(w)) - 1) >> 32) // all ones or zero
	return next&^leaf | at&leaf
}

// walk follows the splits as they stand in the trees. It is what the flat
// layout has to equal, and serves what that does not hold.
func (f *Forest) walk(row []float64) float64 {
	sum := 0.0
	for i := range f.trees {
		t := &f.trees[i]
		at := t.root()
		for at >= 0 {
			at = t.Splits[at].child(row)
		}
		sum += t.Leaves[^at].Value
	}
	return sum
}
