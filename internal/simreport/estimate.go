package simreport

import (
	"encoding/json"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is a mean over seeds with its 95 % interval (Student's t). With fewer
// than two values Low and High are NaN, and without any Mean is too.
type Estimate struct {
	Mean, Low, High float64
	N               int // seeds with a value
}

// estimate leaves out values that are not numbers.
func estimate(values []float64) Estimate {
	known := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			known = append(known, v)
		}
	}
	e := Estimate{Mean: math.NaN(), Low: math.NaN(), High: math.NaN(), N: len(known)}
	switch n := float64(len(known)); {
	case n == 1:
		e.Mean = known[0]
	case n > 1:
		mean, deviation := stat.MeanStdDev(known, nil)
		half := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
		e.Mean, e.Low, e.High = mean, mean-half, mean+half
	}
	return e
}

// Differs says that the whole interval lies on one side of 0: for estimates of a
// change.
func (e Estimate) Differs() bool { return e.Low > 0 || e.High < 0 }

// MarshalJSON writes what is no number as null.
func (e Estimate) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Mean *float64 `json:"mean"`
		Low  *float64 `json:"low"`
		High *float64 `json:"high"`
		N    int      `json:"n"`
	}{number(e.Mean), number(e.Low), number(e.High), e.N})
}

func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
