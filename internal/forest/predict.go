package forest

import "fmt"

// batchRows is how many rows PredictBatch takes through one tree before the
// next tree: few enough that they stay in the first-level cache.
const batchRows = 128

// Predict returns the raw prediction for one row of NumFeatures values; NaN
// means unknown. It does not allocate. It panics when the row has another
// width: see Check.
func (f *Forest) Predict(row []float64) float64 {
	if len(row) != f.NumFeatures() {
		panic(fmt.Sprintf("forest: row of %d values, want %d", len(row), f.NumFeatures()))
	}
	if f.walkZero {
		return f.walk(row)
	}
	return f.single(row)
}

// PredictBatch writes the raw predictions for n rows, which stand one after
// the other in rows, to out[:n]. The result equals, bit for bit, n calls of
// Predict. It does not allocate. It panics unless rows holds n*NumFeatures
// values and out at least n: see Check.
func (f *Forest) PredictBatch(rows []float64, n int, out []float64) {
	width := f.NumFeatures()
	if n < 0 || len(rows) != n*width || len(out) < n {
		panic(fmt.Sprintf("forest: %d values and %d results for %d rows of %d", len(rows), len(out), n, width))
	}
	out = out[:n]
	if f.walkZero {
		for i := range out {
			out[i] = f.walk(rows[i*width : (i+1)*width])
		}
		return
	}
	for len(out) >= 8 {
		k := min(len(out), batchRows) &^ 7
		clear(out[:k])
		for t := range f.roots {
			f.eights(t, rows[:k*width], out[:k])
		}
		rows, out = rows[k*width:], out[k:]
	}
	for i := range out {
		out[i] = f.single(rows[i*width : (i+1)*width])
	}
}

// step returns the node after n for value x, without a branch.
func (n *node) step(x float64) int32 {
	return n.left + int32(b2u(!(x <= n.threshold))&^(b2u(x != x)&n.nanLeft))
}

// b2u compiles to a flag-set instruction, not to a jump.
func b2u(b bool) uint8 {
	var u uint8
	if b {
		u = 1
	}
	return u
}

// single walks four trees at once, so that their loads overlap, and adds
// their leaves in tree order.
func (f *Forest) single(row []float64) float64 {
	nodes, values, roots, depths := f.nodes, f.values, f.roots, f.depths
	depths = depths[:len(roots)]
	sum := 0.0
	t := 0
	for ; t+4 <= len(roots); t += 4 {
		a, b, c, d := roots[t], roots[t+1], roots[t+2], roots[t+3]
		for k := max(depths[t], depths[t+1], depths[t+2], depths[t+3]); k > 0; k-- {
			na, nb, nc, nd := &nodes[a], &nodes[b], &nodes[c], &nodes[d]
			a = na.step(row[na.feature])
			b = nb.step(row[nb.feature])
			c = nc.step(row[nc.feature])
			d = nd.step(row[nd.feature])
		}
		sum += values[a]
		sum += values[b]
		sum += values[c]
		sum += values[d]
	}
	for ; t < len(roots); t++ {
		a := roots[t]
		for k := depths[t]; k > 0; k-- {
			na := &nodes[a]
			a = na.step(row[na.feature])
		}
		sum += values[a]
	}
	return sum
}

// eights adds the leaves of tree t to out, eight rows at once; len(out) is a
// multiple of eight.
func (f *Forest) eights(t int, rows, out []float64) {
	nodes, values, width := f.nodes, f.values, f.NumFeatures()
	root, depth := f.roots[t], f.depths[t]
	for len(out) >= 8 && len(rows) >= 8*width {
		r0, r1, r2, r3 := rows[:width], rows[width:2*width], rows[2*width:3*width], rows[3*width:4*width]
		r4, r5, r6, r7 := rows[4*width:5*width], rows[5*width:6*width], rows[6*width:7*width], rows[7*width:8*width]
		a, b, c, d := root, root, root, root
		e, g, h, i := root, root, root, root
		for k := depth; k > 0; k-- {
			na, nb, nc, nd := &nodes[a], &nodes[b], &nodes[c], &nodes[d]
			a = na.step(r0[na.feature])
			b = nb.step(r1[nb.feature])
			c = nc.step(r2[nc.feature])
			d = nd.step(r3[nd.feature])
			ne, ng, nh, ni := &nodes[e], &nodes[g], &nodes[h], &nodes[i]
			e = ne.step(r4[ne.feature])
			g = ng.step(r5[ng.feature])
			h = nh.step(r6[nh.feature])
			i = ni.step(r7[ni.feature])
		}
		out[0] += values[a]
		out[1] += values[b]
		out[2] += values[c]
		out[3] += values[d]
		out[4] += values[e]
		out[5] += values[g]
		out[6] += values[h]
		out[7] += values[i]
		rows, out = rows[8*width:], out[8:]
	}
}

// walk evaluates a forest in which zero may count as missing, one tree after
// the other.
func (f *Forest) walk(row []float64) float64 {
	sum := 0.0
	for t, at := range f.roots {
		for k := f.depths[t]; k > 0; k-- {
			n := &f.nodes[at]
			x := row[n.feature]
			if n.zeroDefault != 0 && x >= -zeroThreshold && x <= zeroThreshold {
				at = n.left + 1 - int32(n.nanLeft)
				continue
			}
			at = n.step(x)
		}
		sum += f.values[at]
	}
	return sum
}
