package main

import (
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
)

// The bounds, as changes against the better matched configuration unless they
// say otherwise.
const (
	singlePooled = 0.01  // single regimes together
	singleWorst  = 0.03  // low end of the interval of each
	mixedTTFT    = -0.20 // mixed, and shifting
	unequalE2E   = -0.20
	degradedE2E  = -0.09
	tracesNoMore = 0.0
	priorLow     = 0.0   // low end of the interval of forests against the prior alone
	moreFailures = 0.001 // of the requests: one in a thousand
)

// bars judges all studies.
func bars(studies []*study) []bench.Bar {
	at := func(name string, value, bound float64) bench.Bar {
		return bench.Bar{Name: name, Value: value, Relation: bench.AtMost, Bound: bound}
	}
	matched := (*study).matched
	singles := of(studies, single)
	var out []bench.Bar
	for _, m := range []metric{e2e, ttftP90} {
		out = append(out, at("single_"+identifier(m)+"_pooled", pooled(singles, predicted, matched, m).Mean, singlePooled))
		for _, s := range singles {
			out = append(out, at("single_"+identifier(m)+"_low_end_"+under(s.world.name), pooled([]*study{s}, predicted, matched, m).Low, singleWorst))
		}
	}
	for _, g := range []group{mixed, shifting} {
		out = append(out,
			at(string(g)+"_ttft_p90", pooled(of(studies, g), predicted, matched, ttftP90).Mean, mixedTTFT),
			at(string(g)+"_e2e_mean", pooled(of(studies, g), predicted, matched, e2e).Mean, 0),
		)
	}
	out = append(out,
		at("heterogeneous_e2e_mean", pooled(of(studies, heterogeneous), predicted, matched, e2e).Mean, unequalE2E),
		at("degraded_e2e_mean", pooled(of(studies, degraded), predicted, matched, e2e).Mean, degradedE2E),
	)
	for _, s := range of(studies, replayed) {
		for _, m := range []metric{e2e, ttftP90} {
			out = append(out, at("trace_"+identifier(m)+"_"+under(s.world.name), pooled([]*study{s}, predicted, matched, m).Mean, tracesNoMore))
		}
	}
	for _, s := range studies {
		out = append(out, at("forest_over_prior_low_end_"+under(s.world.name), pooled([]*study{s}, predicted, against(priorAlone), e2e).Low, priorLow))
	}
	own, reference := failed(studies, predicted, matched)
	return append(out, at("failed_share_more_than_matched", own-reference, moreFailures))
}

func identifier(m metric) string { return under(strings.ToLower(m.String())) }

func under(name string) string { return strings.NewReplacer("-", "_", " ", "_").Replace(name) }
