package offpolicy

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

const (
	resamples    = 1000
	mostBlocks   = 100
	fewestBlocks = 4
)

// bootstrap resamples blocks of time (Künsch 1989) and gives target, effect and
// relative effect with their 95 % intervals, as evaluate.Bootstrap does of
// plain means: a block is three times as long as what moves the estimate stays
// alike, and few blocks widen the interval as Student's t does.
func bootstrap(b *bins, m *estimator, seed uint64) [3]evaluate.Interval {
	all := make([]ratio, len(b.all))
	var total ratio
	for i := range b.all {
		all[i] = m.ratio(&b.all[i].sums)
		total.add(&all[i])
	}
	means := total.each()
	blocks := gather(all, &total)
	draws := [3][]float64{}
	for k := range draws {
		draws[k] = make([]float64, 0, resamples)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for range resamples {
		var s ratio
		for range blocks {
			s.add(&blocks[rng.IntN(len(blocks))])
		}
		for k, v := range s.each() {
			if v == v && !math.IsInf(v, 0) {
				draws[k] = append(draws[k], v)
			}
		}
	}
	few := fewness(len(blocks))
	var out [3]evaluate.Interval
	for k := range out {
		slices.Sort(draws[k])
		out[k] = evaluate.Interval{
			Mean: feature.Number(means[k]),
			Low:  feature.Number(means[k] - few*(means[k]-evaluate.Quantile(draws[k], 0.025))),
			High: feature.Number(means[k] + few*(evaluate.Quantile(draws[k], 0.975)-means[k])),
		}
	}
	return out
}

// gather joins neighbouring bins to blocks.
func gather(all []ratio, total *ratio) []ratio {
	// What each bin moves the effect by.
	target, logged := total.target/total.targetOf, total.logged/total.loggedOf
	pull := make([]float64, len(all))
	for i, r := range all {
		pull[i] = (r.target-target*r.targetOf)/total.targetOf - (r.logged-logged*r.loggedOf)/total.loggedOf
	}
	per := int(math.Ceil(3 * evaluate.CorrelationTime(pull)))
	per = max(1, (len(all)+mostBlocks-1)/mostBlocks, min(per, len(all)/fewestBlocks))
	var blocks []ratio
	for from := 0; from < len(all); from += per {
		var b ratio
		for i := range all[from:min(from+per, len(all))] {
			b.add(&all[from+i])
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// fewness is how much wider than the bootstrap's an interval from n blocks is.
func fewness(n int) float64 {
	if n < 2 {
		return 1
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}
	return t.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975) * math.Sqrt(float64(n)/float64(n-1))
}
