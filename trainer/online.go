package trainer

import (
	"cmp"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// online is what a contender says once a router has corrected it: every row by
// what the held-out rows of the same endpoint, whose outcomes were known when it
// was decided, left of its p50, and its p90 by where the outcomes of like load
// came. An error that an endpoint has in all its requests is gone by that in a
// minute; what endpoints are put in order by, and how many outcomes a p90
// covers, is what remains.
func online(c contender, judge []sample) contender {
	var out contender
	for target := range out {
		out[target] = slices.Clone(c[target])
	}
	byEnd := make([]int, len(judge))
	for i := range byEnd {
		byEnd[i] = i
	}
	slices.SortStableFunc(byEnd, func(a, b int) int { return cmp.Compare(judge[a].Finished.UnixNano(), judge[b].Finished.UnixNano()) })
	offsets := map[string]*correction.Offset{}
	of := func(i int) *correction.Offset {
		o := offsets[judge[i].Endpoint]
		if o == nil {
			o = &correction.Offset{}
			offsets[judge[i].Endpoint] = o
		}
		return o
	}
	var p90s correction.Coverage
	corrected := make([]feature.Forecast, len(judge))
	known := 0
	for i := range judge {
		for known < len(byEnd) && judge[byEnd[known]].Finished.Before(judge[i].Decided) {
			k := byEnd[known]
			prior := judge[k].Vector.Prior()
			plain, ttft, tpot := said(c, k, prior), prior.TTFT*feature.Seconds(math.Exp(judge[k].TTFT)), prior.TPOT*feature.Seconds(math.Exp(judge[k].TPOT))
			of(k).Observe(plain, ttft, tpot)
			p90s.Observe(&correction.Said{Plain: plain, Corrected: corrected[k], Load: loadOf(&judge[k].Vector)}, ttft, tpot)
			known++
		}
		prior := judge[i].Vector.Prior()
		plain := said(c, i, prior)
		by := correction.Correct(of(i), &p90s, plain, loadOf(&judge[i].Vector))
		out[bundle.TTFTP50][i] += by.TTFT.P50
		out[bundle.TTFTP90][i] = max(out[bundle.TTFTP90][i]+by.TTFT.P90, out[bundle.TTFTP50][i])
		out[bundle.TPOTP50][i] += by.TPOT.P50
		out[bundle.TPOTP90][i] = max(out[bundle.TPOTP90][i]+by.TPOT.P90, out[bundle.TPOTP50][i])
		corrected[i] = said(out, i, prior)
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
