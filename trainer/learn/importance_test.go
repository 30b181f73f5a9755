package learn_test

import (
	"math"
	"testing"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// TestImportancesNameWhatTheLabelsComeFrom, which no prior knows: TTFT lies off by
// how old the scrape is, TPOT by how much was sent since.
func TestImportancesNameWhatTheLabelsComeFrom(t *testing.T) {
	odd := func(l feature.Load) (float64, float64) {
		return 0.2 * math.Tanh(20*(float64(l.Scraped.Age)-0.5)), 0.2 * math.Tanh(2*(l.Ledger.SinceScrape-1))
	}
	b := fitted(t, world(t, 31, 1500, steady, odd))
	all, err := learn.Importances(t.Context(), b, world(t, 32, 500, steady, odd), 1)
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range [bundle.Targets]string{bundle.TTFTP50: "scrape_age", bundle.TPOTP50: "dispatched_since_scrape"} {
		if want == "" {
			continue
		}
		list := all[target]
		if len(list) == 0 || len(list) > 10 || list[0].Feature != want || !(list[0].Rise > 0.01) {
			t.Errorf("%s goes by %+v, want %s first", bundle.Target(target), list, want)
			continue
		}
		sum := 0.0
		for i, x := range list {
			sum += x.Gain
			if i > 0 && x.Rise > list[i-1].Rise {
				t.Errorf("%s: %+v stands behind %+v", bundle.Target(target), x, list[i-1])
			}
		}
		if !(list[0].Gain > 0.2 && sum < 1+1e-9) {
			t.Errorf("%s: gains %+v", bundle.Target(target), list)
		}
	}
	left := *b
	left.Heads[bundle.TTFTP50].Damping = 1
	if all, err = learn.Importances(t.Context(), &left, world(t, 32, 100, steady, odd), 1); err != nil || all[bundle.TTFTP50] != nil {
		t.Errorf("a forest that is left out goes by %+v, %v", all[bundle.TTFTP50], err)
	}
}
