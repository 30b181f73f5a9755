package feature

// Quantiles are a forecast of one quantity. P90 is never below P50.
type Quantiles struct {
	P50 Seconds
	P90 Seconds
}

// Residual is what a bundle adds to a prior: natural logarithms of
// actual/prior.
type Residual struct {
	TTFT LogQuantiles
	TPOT LogQuantiles
}

// LogQuantiles are ln(actual/prior) at two quantiles.
type LogQuantiles struct {
	P50 float64
	P90 float64
}

// NoResidual is the residual of a candidate without a forecast.
var NoResidual = Residual{
	TTFT: LogQuantiles{Unknown, Unknown},
	TPOT: LogQuantiles{Unknown, Unknown},
}

// Known reports whether r came from a bundle.
func (r Residual) Known() bool { return r.TTFT.P50 == r.TTFT.P50 && r.TPOT.P50 == r.TPOT.P50 }

// Forecast is the expected latency of one request on one endpoint.
type Forecast struct {
	TTFT     Quantiles
	TPOT     Quantiles
	Residual Residual // the log-residuals behind it
	Support  float64  // 1 inside the region the bundle was trained on, falling to 0 far outside
}

// NoForecast is the forecast of a candidate that was not asked about.
var NoForecast = Forecast{
	TTFT:     Quantiles{Seconds(Unknown), Seconds(Unknown)},
	TPOT:     Quantiles{Seconds(Unknown), Seconds(Unknown)},
	Residual: NoResidual,
	Support:  Unknown,
}

// Known reports whether f is a forecast at all.
func (f Forecast) Known() bool { return f.TTFT.P50 == f.TTFT.P50 && f.TPOT.P50 == f.TPOT.P50 }
