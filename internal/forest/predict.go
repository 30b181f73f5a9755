package forest

import "fmt"

// lanes is how many rows of a batch are walked side by side: as many as leave
// the registers of amd64 room for what they share.
const lanes = 8

// rowKeys holds the keys of up to lanes rows: that of column c and row r stands
// at c*lanes+r.
type rowKeys [maxColumns * lanes]uint32

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
			sums := f.eights(&x) // lanes without a row hold keys of others, or 0
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

// eights walks eight rows down one tree after the other and returns the sums
// of their leaves. The word itself is what a lane holds between two steps:
// with an index beside it eight lanes don't fit the registers.
func (f *Forest) eights(x *rowKeys) (sums [lanes]float64) {
	for _, t := range f.spans {
		words, values := f.words[t.root:t.end], f.values[t.root:t.end]
		a := words[0]
		b, c, d, e, g, h, i := a, a, a, a, a, a, a
		for k := t.depth; k > 0; k-- {
			a = words[uint16((a+uint64(x[a>>columnShift]))>>childShift)]
			b = words[uint16((b+uint64(x[b>>columnShift+1]))>>childShift)]
			c = words[uint16((c+uint64(x[c>>columnShift+2]))>>childShift)]
			d = words[uint16((d+uint64(x[d>>columnShift+3]))>>childShift)]
			e = words[uint16((e+uint64(x[e>>columnShift+4]))>>childShift)]
			g = words[uint16((g+uint64(x[g>>columnShift+5]))>>childShift)]
			h = words[uint16((h+uint64(x[h>>columnShift+6]))>>childShift)]
			i = words[uint16((i+uint64(x[i>>columnShift+7]))>>childShift)]
		}
		sums[0] += values[uint16(a>>childShift)]
		sums[1] += values[uint16(b>>childShift)]
		sums[2] += values[uint16(c>>childShift)]
		sums[3] += values[uint16(d>>childShift)]
		sums[4] += values[uint16(e>>childShift)]
		sums[5] += values[uint16(g>>childShift)]
		sums[6] += values[uint16(h>>childShift)]
		sums[7] += values[uint16(i>>childShift)]
	}
	return sums
}

// single walks the first lane down four trees at once, so that their loads
// overlap, and adds their leaves in tree order.
func (f *Forest) single(x *rowKeys) float64 {
	sum := 0.0
	trees := f.spans
	for ; len(trees) >= 4; trees = trees[4:] {
		s, t, u, v := &trees[0], &trees[1], &trees[2], &trees[3]
		inA, inB, inC, inD := f.words[s.root:s.end], f.words[t.root:t.end], f.words[u.root:u.end], f.words[v.root:v.end]
		a, b, c, d := inA[0], inB[0], inC[0], inD[0]
		for k := max(s.depth, t.depth, u.depth, v.depth); k > 0; k-- {
			a = inA[uint16((a+uint64(x[a>>columnShift]))>>childShift)]
			b = inB[uint16((b+uint64(x[b>>columnShift]))>>childShift)]
			c = inC[uint16((c+uint64(x[c>>columnShift]))>>childShift)]
			d = inD[uint16((d+uint64(x[d>>columnShift]))>>childShift)]
		}
		sum += f.values[s.root+int32(uint16(a>>childShift))]
		sum += f.values[t.root+int32(uint16(b>>childShift))]
		sum += f.values[u.root+int32(uint16(c>>childShift))]
		sum += f.values[v.root+int32(uint16(d>>childShift))]
	}
	for _, t := range trees {
		a := f.words[t.root]
		for k := t.depth; k > 0; k-- {
			a = f.words[t.root+int32(uint16((a+uint64(x[a>>columnShift]))>>childShift))]
		}
		sum += f.values[t.root+int32(uint16(a>>childShift))]
	}
	return sum
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
