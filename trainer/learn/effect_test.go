package learn_test

import (
	"math"
	"testing"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/learn"
)

const peculiar = 0.2 // by which endpoints are slower and faster, in log

// fleet are rows of four endpoints, two of them slower than their vectors tell
// and two faster. Each can be told by a number of its own.
func fleet(t testing.TB, class func(endpoint int) string) []learn.Sample {
	samples := world(t, 21, 1200, steady, crooked)
	for i := range samples {
		s, k := &samples[i], i%4
		s.Endpoint, s.Class = string(rune('a'+k)), class(k)
		s.Vector[feature.Index("scrape_age")] = marks[k]
		s.TTFT += slowerBy(k)
		s.TPOT += slowerBy(k)
	}
	return samples
}

var marks = [4]float32{20, 1, 30, 2}

func slowerBy(endpoint int) float64 { return peculiar * float64(1-2*(endpoint%2)) }

// said is the mean residual of the p50s of TTFT and TPOT, over rows as those of an
// endpoint.
func said(t testing.TB, b *bundle.Bundle, endpoint int) (ttft, tpot float64) {
	later := world(t, 22, 500, steady, crooked)
	for i := range later {
		later[i].Vector[feature.Index("scrape_age")] = marks[endpoint]
	}
	for _, f := range forecasts(t, b, later) {
		ttft, tpot = ttft+f.Residual.TTFT.P50/500, tpot+f.Residual.TPOT.P50/500
	}
	return ttft, tpot
}

// TestWhatOneEndpointAddsIsLeftToTheRouter: forecasts say the same of endpoints of
// one class, in their middle, whatever tells them apart; and so does each class of
// what its endpoints have alike.
func TestWhatOneEndpointAddsIsLeftToTheRouter(t *testing.T) {
	one := fitted(t, fleet(t, func(int) string { return "h100" }))
	each := fitted(t, fleet(t, func(k int) string { return string(rune('A' + k%2)) }))
	plain := fitted(t, world(t, 21, 1200, steady, crooked))
	for k := range 4 {
		ttft, tpot := said(t, one, k)
		wantTTFT, wantTPOT := said(t, plain, k)
		if math.Abs(ttft-wantTTFT) > 0.05 || math.Abs(tpot-wantTPOT) > 0.05 {
			t.Errorf("of endpoint %d %.3f and %.3f are said, of all %.3f and %.3f", k, ttft, tpot, wantTTFT, wantTPOT)
		}
		ttft, tpot = said(t, each, k)
		if by := slowerBy(k); math.Abs(ttft-wantTTFT-by) > 0.05 || math.Abs(tpot-wantTPOT-by) > 0.05 {
			t.Errorf("of endpoint %d, whose class is %+.1f slower, %.3f and %.3f more are said than of all", k, by, ttft-wantTTFT, tpot-wantTPOT)
		}
	}
}

// TestWhatAFrontDoorAddsIsLeftToTheRouter: so many seconds more for every request
// of some endpoints, which is much of a quick answer and little of a slow one.
func TestWhatAFrontDoorAddsIsLeftToTheRouter(t *testing.T) {
	samples := fleet(t, func(int) string { return "h100" })
	for i := range samples {
		s, k := &samples[i], i%4
		s.TPOT -= slowerBy(k)
		prior := float64(s.Vector.Prior().TTFT)
		s.TTFT = math.Log(math.Exp(s.TTFT-slowerBy(k)) + 0.02*float64(k%2)/prior)
	}
	b := fitted(t, samples)
	slow, _ := said(t, b, 0)
	quick, _ := said(t, b, 1)
	if math.Abs(slow-quick) > 0.03 {
		t.Errorf("forecasts of endpoints that their doors alone tell apart differ by %.3f", slow-quick)
	}
}

// TestP90sOfFewRowsHold on what comes next, over many small windows, to a router
// that knows nothing of the endpoints yet.
func TestP90sOfFewRowsHold(t *testing.T) {
	const windows = 12
	var mean [2]float64
	for w := range windows {
		samples := world(t, 100+uint64(w), 500, steady, crooked)
		for i := range samples {
			k := i % 4
			samples[i].Endpoint, samples[i].Class = string(rune('a'+k)), "h100"
			samples[i].TTFT += slowerBy(k) / 2
			samples[i].TPOT += slowerBy(k) / 2
		}
		b := fitted(t, samples[:250])
		_, below := miss(forecasts(t, b, samples[250:]), samples[250:])
		for k := range mean {
			mean[k] += below[k] / windows
			if below[k] < 0.8 {
				t.Errorf("window %d: %.3f lie below the p90 of latency %d", w, below[k], k)
			}
		}
	}
	if mean[0] < 0.89 || mean[0] > 0.96 || mean[1] < 0.89 || mean[1] > 0.96 {
		t.Errorf("%.3f lie below the p90s", mean)
	}
}
