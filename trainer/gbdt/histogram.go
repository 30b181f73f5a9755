package gbdt

import "unsafe"

// sums is what a split needs to know of a set of rows.
type sums struct {
	g, h float64 // gradients and hessians
	n    int64   // rows
}

func (s *sums) add(o *sums)      { s.g += o.g; s.h += o.h; s.n += o.n }
func (s *sums) subtract(o *sums) { s.g -= o.g; s.h -= o.h; s.n -= o.n }

// histogram is the sums by code of one feature; codes the feature has not stay
// untouched.
type histogram [256]sums

const histogramBytes = int(unsafe.Sizeof(histogram{}))

// maxHistogramBytes bounds what the open leaves of one tree may keep.
const maxHistogramBytes = 1 << 30

// fill sums the rows, whose gradients (and hessians, or nil where all are 1)
// stand in the same order, in that order.
func (hist *histogram) fill(c *column, rows []int32, grad, hess []float64) {
	used, codes := hist[:int(c.missing())+1], c.codes
	clear(used)
	grad = grad[:len(rows)]
	if hess == nil {
		for i, r := range rows {
			s := &hist[codes[r]]
			s.g += grad[i]
			s.n++
		}
		for i := range used {
			used[i].h = float64(used[i].n)
		}
		return
	}
	hess = hess[:len(rows)]
	for i, r := range rows {
		s := &hist[codes[r]]
		s.g += grad[i]
		s.h += hess[i]
		s.n++
	}
}

// subtract leaves what the parent has and the other child has not.
func (hist *histogram) subtract(child *histogram, c *column) {
	for i := range int(c.missing()) + 1 {
		hist[i].subtract(&child[i])
	}
}
