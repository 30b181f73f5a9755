package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Change is by how much one router's numbers differ from another's on equal
// requests: the mean ratio less 1, with its 95 % interval. What is unknown is NaN.
type Change struct{ Mean, Low, High float64 }

// ChangeOf takes the logarithms of the ratios, one for each seed, and gives
// Student's interval of their mean. With fewer than two there is none.
func ChangeOf(logs []float64) Change {
	unknown := math.NaN()
	switch n := float64(len(logs)); {
	case n == 0:
		return Change{unknown, unknown, unknown}
	case n == 1:
		return Change{math.Expm1(logs[0]), unknown, unknown}
	default:
		mean, deviation := stat.MeanStdDev(logs, nil)
		half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
		return Change{math.Expm1(mean), math.Expm1(mean - half), math.Expm1(mean + half)}
	}
}

// Pooled averages the logarithms of several worlds, seed by seed: worlds[i][s] is
// that of seed s in world i. Each world counts alike.
func Pooled(worlds ...[]float64) []float64 {
	if len(worlds) == 0 {
		return nil
	}
	out := make([]float64, len(worlds[0]))
	for _, logs := range worlds {
		for s, l := range logs {
			out[s] += l / float64(len(worlds))
		}
	}
	return out
}

// String is in percent.
func (c Change) String() string {
	if math.IsNaN(c.Low) {
		return fmt.Sprintf("%+.1f", 100*c.Mean)
	}
	return fmt.Sprintf("%+.1f [%+.1f, %+.1f]", 100*c.Mean, 100*c.Low, 100*c.High)
}

// MarshalJSON writes what is unknown as null.
func (c Change) MarshalJSON() ([]byte, error) {
	known := map[string]*float64{"mean": nil, "low": nil, "high": nil}
	for name, v := range map[string]*float64{"mean": &c.Mean, "low": &c.Low, "high": &c.High} {
		if !math.IsNaN(*v) && !math.IsInf(*v, 0) {
			known[name] = v
		}
	}
	return json.Marshal(known)
}

// Each calls do for 0 to n-1, as many at once as there are processors, and
// returns the first error.
func Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}
