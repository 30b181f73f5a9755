package advise

import (
	"encoding/json"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Change is by how much numbers differ on paired seeds: the mean ratio less 1,
// with its 95 % interval (Student's t on logarithms). What is not known is NaN.
type Change struct{ Mean, Low, High float64 }

// changeOf takes pairs of numbers above 0; pairs of others are left out.
func changeOf(values, others []float64) Change {
	var logs []float64
	for i := range values {
		if l := math.Log(values[i] / others[i]); !math.IsNaN(l) && !math.IsInf(l, 0) {
			logs = append(logs, l)
		}
	}
	e := estimate(logs)
	return Change{math.Expm1(e.Mean), math.Expm1(e.Low), math.Expm1(e.High)}
}

// Proven says that the interval has one sign.
func (c Change) Proven() bool { return c.Low > 0 || c.High < 0 }

// MarshalJSON writes what is not known as null.
func (c Change) MarshalJSON() ([]byte, error) { return interval(c.Mean, c.Low, c.High) }

// Estimate is a mean over seeds with its 95 % interval (Student's t). With one
// seed there is no interval; what is not known is NaN.
type Estimate struct{ Mean, Low, High float64 }

// MarshalJSON writes what is not known as null.
func (e Estimate) MarshalJSON() ([]byte, error) { return interval(e.Mean, e.Low, e.High) }

func estimate(values []float64) Estimate {
	unknown := math.NaN()
	switch n := float64(len(values)); {
	case n == 0:
		return Estimate{unknown, unknown, unknown}
	case n == 1:
		return Estimate{values[0], unknown, unknown}
	default:
		m, deviation := stat.MeanStdDev(values, nil)
		half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
		return Estimate{m, m - half, m + half}
	}
}

func interval(mean, low, high float64) ([]byte, error) {
	return json.Marshal(struct {
		Mean feature.Number `json:"mean"`
		Low  feature.Number `json:"low"`
		High feature.Number `json:"high"`
	}{feature.Number(mean), feature.Number(low), feature.Number(high)})
}
