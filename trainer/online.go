package trainer

import (
	"math"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// online is what a contender says once a router has corrected it: every row by
// what the held-out rows of the same endpoint, whose outcomes were known when it
// was decided, left of its p50, and its p90 by where the outcomes of like load
// came. An error that an endpoint has in all its requests is gone by that in a
// minute; what is left is what a router decides by.
func online(c contender, judge []sample) contender {
	var out contender
	if c[0] == nil { // there is none
		return out
	}
	for target := range out {
		out[target] = make([]float64, len(judge))
	}
	var router evaluate.Online
	for i := range judge {
		s := &judge[i]
		prior := s.Vector.Prior()
		said := router.Correct(&evaluate.Case{
			At: s.Decided, Endpoint: s.Endpoint, Load: loadOf(&s.Vector), CensoredAt: feature.Seconds(feature.Unknown),
			TTFT: prior.TTFT * feature.Seconds(math.Exp(s.TTFT)), TPOT: prior.TPOT * feature.Seconds(math.Exp(s.TPOT)),
		}, said(c, i, prior), s.Finished)
		for _, x := range []struct {
			p50   bundle.Target
			q     feature.Quantiles
			prior feature.Seconds
		}{{bundle.TTFTP50, said.TTFT, prior.TTFT}, {bundle.TPOTP50, said.TPOT, prior.TPOT}} {
			out[x.p50][i], out[x.p50+1][i] = math.Log(float64(x.q.P50/x.prior)), math.Log(float64(x.q.P90/x.prior))
		}
	}
	return out
}

// said is a contender's forecast of a row.
func said(c contender, i int, prior feature.Prior) feature.Forecast {
	quantiles := func(p50 bundle.Target, prior feature.Seconds) feature.Quantiles {
		return feature.Quantiles{P50: prior * feature.Seconds(math.Exp(c[p50][i])), P90: prior * feature.Seconds(math.Exp(c[p50+1][i]))}
	}
	return feature.Forecast{TTFT: quantiles(bundle.TTFTP50, prior.TTFT), TPOT: quantiles(bundle.TPOTP50, prior.TPOT)}
}
