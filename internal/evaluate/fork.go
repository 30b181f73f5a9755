package evaluate

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Fork is one decision of which a simulator ran every alternative: for each
// candidate, what was forecast and what would have come. Forks of one run
// stand in order of time.
type Fork struct {
	Candidates []Alternative
	Chosen     int // index of the one that the policy chose
}

// An Alternative is one candidate of a Fork.
type Alternative struct {
	Endpoint string
	Forecast Latency // as known at the decision, p50; unknown where it was not forecast
	True     Latency // of the request itself, had it been sent there and all else gone on
}

// Latency is what one request takes.
type Latency struct {
	TTFT feature.Seconds
	E2E  feature.Seconds
}

// Regret is what decisions lost against the best alternative of each. It is of
// the requests' own latency: what a choice does to others is not in it.
type Regret struct {
	Latency     string   `json:"latency"`     // "ttft" or "e2e"
	Policy      Choice   `json:"policy"`      // of what was chosen
	Forecast    Choice   `json:"forecast"`    // had the least forecast been chosen every time
	Concordance Interval `json:"concordance"` // share of pairs of candidates of one decision that the forecast orders as they would have turned out
}

// A Choice is how good one way to choose was.
type Choice struct {
	Decisions int64          `json:"decisions"` // that had at least two alternatives whose outcome is known
	Mean      Interval       `json:"mean"`      // seconds a decision lost against its best alternative
	Relative  feature.Number `json:"relative"`  // sum of what was lost over the sum of the best
	Best      Proportion     `json:"best"`      // decisions that chose the best, or one as good
}

// Regrets judges forks by TTFT and by E2E. Alternatives whose true latency is
// unknown are left out, and so are forks whose choice is among them.
func Regrets(forks []Fork, seed uint64) []Regret {
	return []Regret{
		regret("ttft", forks, seed, func(l Latency) float64 { return float64(l.TTFT) }),
		regret("e2e", forks, seed, func(l Latency) float64 { return float64(l.E2E) }),
	}
}

func regret(name string, forks []Fork, seed uint64, of func(Latency) float64) Regret {
	var chosen, favourite losing
	score := make([]share, len(forks))
	for i, f := range forks {
		best, known := math.Inf(1), 0
		least, leastAt := math.Inf(1), -1
		for c, a := range f.Candidates {
			actual, forecast := of(a.True), of(a.Forecast)
			if feature.IsUnknown(actual) {
				continue
			}
			known++
			best = min(best, actual)
			if forecast < least {
				least, leastAt = forecast, c
			}
			for _, b := range f.Candidates[:c] {
				score[i].pair(forecast, of(b.Forecast), actual, of(b.True))
			}
		}
		if known < 2 {
			continue
		}
		chosen.add(of(f.Candidates[f.Chosen].True), best)
		if leastAt >= 0 {
			favourite.add(of(f.Candidates[leastAt].True), best)
		}
	}
	return Regret{Latency: name, Policy: chosen.choice(seed), Forecast: favourite.choice(seed), Concordance: blockwise(score, seed).ofShare()}
}

// losing adds up what choices lost.
type losing struct {
	lost       []float64
	sum, ideal float64
	best       int64
}

func (l *losing) add(actual, best float64) {
	if feature.IsUnknown(actual) {
		return
	}
	l.lost = append(l.lost, actual-best)
	l.sum += actual - best
	l.ideal += best
	if actual <= best {
		l.best++
	}
}

func (l *losing) choice(seed uint64) Choice {
	n := int64(len(l.lost))
	return Choice{Decisions: n, Mean: Bootstrap(l.lost, seed), Relative: feature.Number(l.sum / l.ideal), Best: Wilson(l.best, n)}
}
