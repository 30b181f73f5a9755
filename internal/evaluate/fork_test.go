package evaluate_test

import (
	"testing"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

func alternative(forecast, actual feature.Seconds) evaluate.Alternative {
	return evaluate.Alternative{Forecast: evaluate.Latency{TTFT: forecast, E2E: unknown}, True: evaluate.Latency{TTFT: actual, E2E: 2 * actual}}
}

func TestRegretOfForks(t *testing.T) {
	forks := []evaluate.Fork{
		// The forecast's favourite is the second, which loses 1 s; the policy chose the best.
		{Chosen: 0, Candidates: []evaluate.Alternative{alternative(3, 1), alternative(2, 2), alternative(9, 5)}},
		// Both take the best.
		{Chosen: 1, Candidates: []evaluate.Alternative{alternative(3, 4), alternative(1, 3)}},
		// The policy loses 6 s; the third was not forecast and never ended.
		{Chosen: 0, Candidates: []evaluate.Alternative{alternative(8, 8), alternative(1, 2), alternative(unknown, unknown)}},
		// No alternative: not judged.
		{Chosen: 0, Candidates: []evaluate.Alternative{alternative(1, 2)}},
	}
	all := evaluate.Regrets(forks, 1)
	ttft, e2e := all[0], all[1]
	if ttft.Latency != "ttft" || e2e.Latency != "e2e" {
		t.Fatalf("%+v", all)
	}
	near(t, "policy", ttft.Policy.Mean.Mean, 2, 0)
	near(t, "policy, relative", ttft.Policy.Relative, 6.0/6, 0)
	near(t, "policy, best", ttft.Policy.Best.Share, 2.0/3, 1e-12)
	near(t, "forecast", ttft.Forecast.Mean.Mean, 1.0/3, 1e-12)
	near(t, "forecast, relative", ttft.Forecast.Relative, 1.0/6, 1e-12)
	// 5 pairs, of which the first and second of the first fork stand wrongly.
	near(t, "concordance", ttft.Concordance.Mean, 4.0/5, 1e-12)
	if ttft.Policy.Decisions != 3 || e2e.Policy.Mean.Mean != 4 || e2e.Forecast.Decisions != 0 || e2e.Concordance.Mean == e2e.Concordance.Mean {
		t.Errorf("%+v", all)
	}
}
