package correction_test

import (
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// Whoever is told of a request learns what whoever served it learned.
func TestLessonTeachesAsTheOutcomeDid(t *testing.T) {
	var saw, heard struct {
		output correction.Output
		offset correction.Offset
	}
	for i := range 80 {
		f := feature.NoForecast
		f.TTFT.P50, f.TPOT.P50 = feature.Seconds(0.1+0.01*float64(i)), 0.02
		ttft, tpot := f.TTFT.P50*1.3, f.TPOT.P50*0.9
		saw.output.Observe(1000, 200)
		saw.offset.Observe(f, ttft, tpot)
		l := correction.Lesson{PromptTokens: 1000, OutputTokens: 200, Bundle: 1, ForecastTTFT: f.TTFT.P50, ForecastTPOT: f.TPOT.P50, TTFT: ttft, TPOT: tpot}
		l.Teach(&heard.output, &heard.offset)
	}
	if saw.output != heard.output || saw.offset.TTFT(0.5) != heard.offset.TTFT(0.5) || saw.offset.TPOT(0.02) != heard.offset.TPOT(0.02) {
		t.Error("the lessons taught something else")
	}
	if heard.offset.TTFT(0.5) < 0.1 {
		t.Errorf("an offset of %v was learned from what took 1.3 times as long", heard.offset.TTFT(0.5))
	}
	other := heard.output
	was := heard.offset.TTFT(0.5)
	l := correction.Lesson{PromptTokens: 1000, OutputTokens: 900, ForecastTTFT: 1, TTFT: 9}
	l.Teach(&other, nil)
	if heard.offset.TTFT(0.5) != was || other.Expect(1000, feature.Unknown) <= 200 {
		t.Error("a lesson of another bundle is one of lengths alone")
	}
}
