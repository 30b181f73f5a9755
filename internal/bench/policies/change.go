package main

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// change is by how much one arm's numbers differ from another's on equal
// requests: the mean ratio less 1, with its 95 % interval.
type change struct{ Mean, Low, High float64 }

// changeOf takes the logarithms of the ratios, one for each seed. With fewer than
// two there is no interval.
func changeOf(logs []float64) change {
	unknown := math.NaN()
	switch n := float64(len(logs)); {
	case n == 0:
		return change{unknown, unknown, unknown}
	case n == 1:
		return change{math.Expm1(logs[0]), unknown, unknown}
	default:
		mean, deviation := stat.MeanStdDev(logs, nil)
		half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
		return change{math.Expm1(mean), math.Expm1(mean - half), math.Expm1(mean + half)}
	}
}

// String is in percent.
func (c change) String() string {
	if math.IsNaN(c.Low) {
		return fmt.Sprintf("%+.1f", 100*c.Mean)
	}
	return fmt.Sprintf("%+.1f [%+.1f, %+.1f]", 100*c.Mean, 100*c.Low, 100*c.High)
}

// MarshalJSON writes what is unknown as null.
func (c change) MarshalJSON() ([]byte, error) {
	known := map[string]*float64{"mean": nil, "low": nil, "high": nil}
	for name, v := range map[string]*float64{"mean": &c.Mean, "low": &c.Low, "high": &c.High} {
		if !math.IsNaN(*v) && !math.IsInf(*v, 0) {
			known[name] = v
		}
	}
	return json.Marshal(known)
}
