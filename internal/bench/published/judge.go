package main

import (
	"math"
	"slices"
)

// comparison is a study's published and simulated ladders side by side.
type comparison struct {
	study     study
	published ladder
	simulated ladder
	each      []ladder // simulated, by seed
	again     ladder   // another published campaign; no loads where there is none
}

// noise is the comparison with the other campaign in the place of the simulation:
// how far one measurement tells the order of another.
func (c comparison) noise() (comparison, bool) {
	c.simulated = c.again
	return c, len(c.again.loads) > 0
}

// published arms differ so much that run-to-run noise does not explain it: gross at
// two neighbouring loads, clear at one.
const (
	gross = 1.6
	clear = 1.15
)

// order counts the arm pairs whose order is known and those that the simulation has
// right, for one metric over some loads.
type order struct{ right, all int }

func (o order) plus(p order) order { return order{o.right + p.right, o.all + p.all} }

func (o order) share() float64 {
	if o.all == 0 {
		return math.NaN()
	}
	return float64(o.right) / float64(o.all)
}

// reads is what a metric's order is judged by.
type reads func(cell) float64

func ttft(c cell) float64 { return c.TTFT }

// ratio is arm a's published value over arm b's at a load; 0 where a client's is
// missing.
func (c comparison) ratio(of reads, a, b, load int) float64 {
	x, y := c.published.cells[a][load], c.published.cells[b][load]
	if !x.known() || !y.known() || x.Engine || y.Engine || of(y) == 0 {
		return 0
	}
	return of(x) / of(y)
}

// agrees says that the simulated arms stand in the order of the published ones.
func (c comparison) agrees(of reads, a, b, load int) bool {
	return of(c.simulated.cells[a][load]) > of(c.simulated.cells[b][load]) == (c.ratio(of, a, b, load) > 1)
}

// pair is two arms at a load, the first with the greater published value.
type pair struct{ more, less, load int }

// clearPairs are the pairs that differ clearly at a load, by load.
func (c comparison) clearPairs(of reads) (all []pair) {
	for load := range c.published.loads {
		for a := range arms {
			for b := range arms {
				if a != b && c.ratio(of, a, b, load) > clear {
					all = append(all, pair{a, b, load})
				}
			}
		}
	}
	return all
}

// grossPairs are those that differ grossly at a load and at the one before.
func (c comparison) grossPairs(of reads) (all []pair) {
	for _, p := range c.clearPairs(of) {
		if p.load > 0 && c.ratio(of, p.more, p.less, p.load-1) > gross && c.ratio(of, p.more, p.less, p.load) > gross {
			all = append(all, p)
		}
	}
	return all
}

// clearOrder is how many of the clear pairs are right, from a load on.
func (c comparison) clearOrder(of reads, from int) (o order) {
	for _, p := range c.clearPairs(of) {
		if p.load >= from {
			o.count(c.agrees(of, p.more, p.less, p.load))
		}
	}
	return o
}

// grossOrder is how many of the gross pairs are right at both their loads.
func (c comparison) grossOrder(of reads) (o order) {
	for _, p := range c.grossPairs(of) {
		o.count(c.agrees(of, p.more, p.less, p.load-1) && c.agrees(of, p.more, p.less, p.load))
	}
	return o
}

func (o *order) count(right bool) {
	o.all++
	if right {
		o.right++
	}
}

// upper is the index from which loads belong to the upper half of what is published.
func (c comparison) upper() int {
	last := 0
	for load := range c.published.loads {
		for a := range arms {
			if p := c.published.cells[a][load]; p.known() && !p.Engine {
				last = load
			}
		}
	}
	return (last + 1) / 2
}

// What a load has to keep for its throughput to count as goodput.
const (
	success = 0.98
	slower  = 5.0  // times the TTFT p90 of the lowest load
	stillUp = 1.05 // over the goodput of the load before
)

// knee is the highest load at which goodput still grew, over the loads that use
// accepts; NaN when there are none.
func (s study) knee(l ladder, a int, use func(load int) bool) float64 {
	knee, before, first := math.NaN(), 0.0, math.NaN()
	for i, c := range l.cells[a] {
		if !use(i) || !c.known() {
			continue
		}
		if math.IsNaN(first) {
			first = c.TTFT
		}
		good := 0.0
		if !(c.Success < success) && c.TTFT <= slower*first {
			good = s.throughput(c)
		}
		if good > 0 && good >= stillUp*before {
			knee = l.loads[i]
		}
		before = good
	}
	return knee
}

// knees are the published and the simulated knee of an arm over the loads that are
// published for it.
func (c comparison) knees(a int) (published, simulated float64) {
	use := func(load int) bool { p := c.published.cells[a][load]; return p.known() && !p.Engine }
	return c.study.knee(c.published, a, use), c.study.knee(c.simulated, a, use)
}

// sustained is the greatest throughput of an arm over its loads.
func (s study) sustained(l ladder, a int, use func(load int) bool) float64 {
	most := math.NaN()
	for i, c := range l.cells[a] {
		if v := s.throughput(c); use(i) && c.known() && !(v <= most) {
			most = v
		}
	}
	return most
}

// matched is the configuration that belongs to the workload.
func (s study) matched() int {
	if s.output {
		return activeRequest
	}
	return tokenLoad
}

// gain is the matched configuration's sustained throughput over the Kubernetes
// arm's.
func (s study) gain(l ladder, use func(load int) bool) float64 {
	return s.sustained(l, s.matched(), use) / s.sustained(l, k8s, use)
}

func everywhere(int) bool { return true }

// ranking is the arms from best to worst at a load: least TTFT first, or greatest
// throughput; arms without a cell are left out.
func ranking(l ladder, of reads, load int, greatest bool) []int {
	var order []int
	for a := range arms {
		if l.cells[a][load].known() {
			order = append(order, a)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := of(l.cells[a][load]), of(l.cells[b][load])
		if greatest {
			x, y = y, x
		}
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return order
}
