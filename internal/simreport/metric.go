package simreport

// Metric is one number of a run.
type Metric struct {
	Name string // as in CSV and JSON: with the unit at the end
	Says string // for people, with the unit

	scale float64 // from the metric's unit to the one that Says has; 0: 1
	of    func(*Run) float64
}

// Of is the metric's value in a run, in the unit that Name has.
func (m Metric) Of(r *Run) float64 { return m.of(r) }

// shown turns a value into the unit that people are shown.
func (m Metric) shown(v float64) float64 {
	if m.scale != 0 {
		return v * m.scale
	}
	return v
}

// The metrics that have a plot.
const (
	ttftP90  = "ttft_p90_seconds"
	tpotP90  = "tpot_p90_seconds"
	input    = "input_tokens_per_second"
	output   = "output_tokens_per_second"
	hits     = "hit_rate"
	goodput  = "goodput_requests_per_second"
	slowdown = "slowdown"
)

// Metrics lists the numbers that are reported, in the order of every table.
// Latencies are of the judged requests that succeeded; throughput is what all
// engines read and wrote while the judged requests were sent, per second of that.
func Metrics() []Metric {
	return []Metric{
		{Name: "success", Says: "success %", scale: 100, of: func(r *Run) float64 { return float64(r.Summary.Success) }},
		{Name: "ttft_mean_seconds", Says: "TTFT mean s", of: func(r *Run) float64 { return float64(r.Summary.TTFT.Mean) }},
		{Name: "ttft_p50_seconds", Says: "TTFT p50 s", of: func(r *Run) float64 { return float64(r.Summary.TTFT.P50) }},
		{Name: ttftP90, Says: "TTFT p90 s", of: func(r *Run) float64 { return float64(r.Summary.TTFT.P90) }},
		{Name: "ttft_p99_seconds", Says: "TTFT p99 s", of: func(r *Run) float64 { return float64(r.Summary.TTFT.P99) }},
		{Name: "tpot_p50_seconds", Says: "TPOT p50 ms", scale: 1000, of: func(r *Run) float64 { return float64(r.Summary.TPOT.P50) }},
		{Name: tpotP90, Says: "TPOT p90 ms", scale: 1000, of: func(r *Run) float64 { return float64(r.Summary.TPOT.P90) }},
		{Name: "tpot_p99_seconds", Says: "TPOT p99 ms", scale: 1000, of: func(r *Run) float64 { return float64(r.Summary.TPOT.P99) }},
		{Name: "e2e_mean_seconds", Says: "E2E mean s", of: func(r *Run) float64 { return float64(r.Summary.E2E.Mean) }},
		{Name: "e2e_p50_seconds", Says: "E2E p50 s", of: func(r *Run) float64 { return float64(r.Summary.E2E.P50) }},
		{Name: "e2e_p90_seconds", Says: "E2E p90 s", of: func(r *Run) float64 { return float64(r.Summary.E2E.P90) }},
		{Name: "e2e_p99_seconds", Says: "E2E p99 s", of: func(r *Run) float64 { return float64(r.Summary.E2E.P99) }},
		{Name: input, Says: "input tokens/s", of: func(r *Run) float64 { return float64(r.Summary.Window.Input) }},
		{Name: output, Says: "output tokens/s", of: func(r *Run) float64 { return float64(r.Summary.Window.Output) }},
		{Name: "requests_per_second", Says: "requests/s", of: func(r *Run) float64 { return float64(r.Summary.Window.Requests) }},
		{Name: goodput, Says: "goodput requests/s", of: func(r *Run) float64 {
			return float64(r.Summary.GoodShare) * float64(r.Summary.Requests) / r.Judged.Seconds()
		}},
		{Name: "good_share", Says: "requests that kept the SLO %", scale: 100, of: func(r *Run) float64 { return float64(r.Summary.GoodShare) }},
		{Name: hits, Says: "prefix hits %", scale: 100, of: func(r *Run) float64 { return float64(r.Summary.HitRate) }},
		{Name: slowdown, Says: "slowdown (class mean)", of: func(r *Run) float64 { return float64(r.Summary.Slowdown) }},
		{Name: "herd", Says: "herd index", of: func(r *Run) float64 { return float64(r.Summary.Herd) }},
		{Name: "busiest_endpoint_to_mean", Says: "busiest to mean endpoint", of: func(r *Run) float64 { return float64(r.Summary.MostToMean) }},
		{Name: "preemptions", Says: "preemptions", of: func(r *Run) float64 { return float64(r.Summary.Preemptions) }},
	}
}
