package evaluate

import "math"

// Quantile is the q-quantile (0 to 1) of sorted values, interpolated between
// the two nearest. It is NaN when there are none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Mean is the mean of the known values; NaN when none is.
func Mean(values []float64) float64 {
	var sum, n float64
	for _, v := range values {
		if v == v {
			sum += v
			n++
		}
	}
	return sum / n
}

// Pinball is the loss of saying forecast for the q-quantile when actual came
// (Koenker and Bassett 1978): q for each unit that the forecast was too low,
// 1-q for each that it was too high. Over many rows it is least where a share
// q of them come out at or below the forecast.
func Pinball(q, actual, forecast float64) float64 {
	if actual >= forecast {
		return q * (actual - forecast)
	}
	return (1 - q) * (forecast - actual)
}
