package correction

import "github.com/spillway-llm/spillway/internal/feature"

// Lesson is what one request that was served teaches about lengths and about
// its endpoint: all that routers which share tell each other of it. Numbers that
// are not known are NaN.
type Lesson struct {
	PromptTokens float64
	OutputTokens float64 // of one completion

	Bundle       int64           // behind the forecast; 0: there was none
	ForecastTTFT feature.Seconds // p50, before online correction
	ForecastTPOT feature.Seconds
	TTFT         feature.Seconds // as measured
	TPOT         feature.Seconds
}

// Teach adds the lesson to what is known of its LLM's outputs and of its
// endpoint. offset is nil where forecasts are of another bundle.
func (l *Lesson) Teach(outputs *Output, offset *Offset) {
	outputs.Observe(l.PromptTokens, l.OutputTokens)
	if offset == nil {
		return
	}
	var f feature.Forecast
	f.TTFT.P50, f.TPOT.P50 = l.ForecastTTFT, l.ForecastTPOT
	offset.Observe(f, l.TTFT, l.TPOT)
}
