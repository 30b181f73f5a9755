package evaluate_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/evaluate"
)

// What forecasts are above others is the difference of their concordances, as
// long as both speak of the same rows.
func TestConcordanceOverIsTheDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := dispatches(t)
		others := make([]float64, len(rows))
		theirs := make([]evaluate.Dispatched, len(rows))
		for i := range rows {
			others[i] = rapid.SampledFrom([]float64{1, 2, 3, nan}).Draw(t, "other")
			if math.IsNaN(others[i]) || math.IsNaN(rows[i].Forecast) {
				rows[i].Forecast, others[i] = nan, nan
			}
			theirs[i] = rows[i]
			theirs[i].Forecast = others[i]
		}
		got := evaluate.ConcordanceOver(rows, others, 1)
		mine, his := evaluate.Concordance(rows, 1), evaluate.Concordance(theirs, 1)
		want := float64(mine.Mean - his.Mean)
		if math.Abs(float64(got.Mean)-want) > 1e-9 || (got.Mean == got.Mean) != (want == want) {
			t.Fatalf("over is %v, want %v - %v", got.Mean, mine.Mean, his.Mean)
		}
	})
}

func TestConcordanceOverSeesTheBetterOrder(t *testing.T) {
	at := time.Unix(1000, 0)
	var rows []evaluate.Dispatched
	var blind []float64
	for i := range 400 {
		actual := 1 + float64(i*7919%97)
		rows = append(rows, evaluate.Dispatched{At: at.Add(time.Duration(i) * time.Second), Endpoint: string(rune('a' + i%4)), Forecast: actual, Actual: actual})
		blind = append(blind, 1+float64(i*31%53))
	}
	if i := evaluate.ConcordanceOver(rows, blind, 1); !(i.Low > 0.3 && i.Mean < 0.7) {
		t.Errorf("a perfect order is above a blind one by %+v, want about 0.5", i)
	}
}

func TestEndpointSpread(t *testing.T) {
	var endpoints []string
	var errors []float64
	for i := range 4000 {
		e := i % 4
		endpoints = append(endpoints, string(rune('a'+e)))
		noise := 0.2 * math.Sin(float64(i)*1.7)
		switch {
		case i%17 == 0:
			errors = append(errors, nan)
		case e == 0:
			errors = append(errors, 0.3+noise)
		default:
			errors = append(errors, 0.3+0.1*float64(e)+noise)
		}
	}
	s := evaluate.EndpointSpread(endpoints, errors)
	if s.Endpoints != 4 || math.Abs(float64(s.Range)-(math.Exp(0.3)-1)) > 0.02 {
		t.Errorf("spread %+v, want 4 endpoints from 0 to 35 %% apart", s)
	}
	for i := range errors {
		errors[i] = 0.3 + 0.2*math.Sin(float64(i)*1.7)
	}
	if s := evaluate.EndpointSpread(endpoints, errors); !(s.Typical < 0.01) {
		t.Errorf("a bias that all share is spread by %v", s.Typical)
	}
}
