package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The active-set method finds what trying every set of free parameters finds.
func TestNonNegativeAgainstEverySubset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 5).Draw(t, "width")
		rows := rapid.IntRange(width, 12).Draw(t, "rows")
		// Numbers without structure: of columns that nearly depend on each other
		// normal equations leave undecided which one to take.
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		between := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
		var equations []equation
		var weights []float64
		for range rows {
			e := equation{value: between(0.1, 10), of: between(0.1, 10)}
			for range width {
				e.parts = append(e.parts, between(-1, 5))
			}
			equations = append(equations, e)
			weights = append(weights, between(0.1, 1))
		}
		got := nonNegative(equations, weights, width, start{})
		for j, v := range got {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("parameter %d is %v", j, v)
			}
		}
		best := math.Inf(1)
		for set := range 1 << width {
			best = min(best, loss(equations, weights, everySubset(equations, weights, width, set)))
		}
		if l := loss(equations, weights, got); l > best*(1+1e-6)+1e-9 {
			t.Fatalf("loss is %v with %v, the best subset has %v", l, got, best)
		}
	})
}

func loss(equations []equation, weights, x []float64) float64 {
	sum := 0.0
	for i, e := range equations {
		sum += weights[i] * e.off(x) * e.off(x)
	}
	return sum
}

// everySubset solves for the parameters in set by elimination, the others 0;
// all 0 if the solution is negative or there is none.
func everySubset(equations []equation, weights []float64, width, set int) []float64 {
	x := make([]float64, width)
	var at []int
	for j := range width {
		if set>>j&1 == 1 {
			at = append(at, j)
		}
	}
	n := len(at)
	m := make([][]float64, n)
	for a := range n {
		m[a] = make([]float64, n+1)
		for i, e := range equations {
			w := weights[i] / (e.of * e.of)
			for b := range n {
				m[a][b] += w * e.parts[at[a]] * e.parts[at[b]]
			}
			m[a][n] += w * e.parts[at[a]] * e.value
		}
	}
	for c := range n {
		pivot := c
		for r := c + 1; r < n; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[pivot][c]) {
				pivot = r
			}
		}
		m[c], m[pivot] = m[pivot], m[c]
		if math.Abs(m[c][c]) < 1e-12 {
			return x
		}
		for r := range n {
			if r != c {
				f := m[r][c] / m[c][c]
				for k := c; k <= n; k++ {
					m[r][k] -= f * m[c][k]
				}
			}
		}
	}
	solution := make([]float64, width)
	for c := range n {
		v := m[c][n] / m[c][c]
		if v < 0 {
			return x
		}
		solution[at[c]] = v
	}
	return solution
}

func TestRobustIgnoresOutliers(t *testing.T) {
	var equations []equation
	for i := range 40 {
		x := float64(i + 1)
		v := 2 + 3*x
		if i%8 == 3 {
			v *= 5
		}
		equations = append(equations, equation{value: v, of: v, parts: []float64{1, x}})
	}
	got := robust(equations, 2)
	if math.Abs(got[0]-2) > 0.02 || math.Abs(got[1]-3) > 0.03 {
		t.Errorf("fitted %v, want 2 and 3", got)
	}
}
