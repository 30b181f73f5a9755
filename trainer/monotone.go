package trainer

import (
	"math"
	"math/rand/v2"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

const (
	monotonePairs = 4000
	monotoneSlack = 1e-6 // relative, of what float32 rounds in a prior
)

// bumped are the columns that the check moves: what a forecast has a sign
// for, but for the prior, which follows from them.
var bumped = func() (columns []int) {
	for i, f := range feature.Table() {
		if f.Sign != feature.None && f.Source != feature.FromPrior && i != feature.ColumnUncachedTokens {
			columns = append(columns, i)
		}
	}
	return columns
}()

// falls counts how often the final forecast moves against a feature's sign, of
// pairs that differ in that feature alone: held-out rows and the same with
// more of it, by a little or far beyond what was seen, the prior computed
// anew. Any of the four quantiles counts. Left out are pairs of which the prior
// itself moves so: where one number of a load grows alone, as no load does, it
// may say less of others, and the candidate only follows.
func falls(e *bundle.Evaluator, coefficients map[string]physics.Coefficients, judge []sample, seed uint64) (pairs, falling int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	vectors := make([]feature.Vector, 0, 2*monotonePairs)
	var signs []feature.Sign
	table := feature.Table()
	for range monotonePairs {
		s := &judge[rng.IntN(len(judge))]
		c, ok := coefficients[s.Class]
		column := bumped[rng.IntN(len(bumped))]
		if !ok || s.Vector[column] != s.Vector[column] {
			continue
		}
		request, load := taken(&s.Vector)
		low := made(request, load, c)
		more := s.Vector
		more[column] = bump(rng, more[column], table[column])
		if column == feature.ColumnCachedTokens {
			more[column] = min(more[column], more[feature.ColumnPromptTokens])
		}
		request, load = taken(&more)
		high := made(request, load, c)
		if !bundle.Valid(&low) || !bundle.Valid(&high) || against(table[column].Sign, low.Prior().TTFT, high.Prior().TTFT) ||
			against(table[column].Sign, low.Prior().TPOT, high.Prior().TPOT) {
			continue
		}
		vectors, signs = append(vectors, low, high), append(signs, table[column].Sign)
	}
	out := make([]feature.Forecast, len(vectors))
	e.Evaluate(vectors, out)
	for i, sign := range signs {
		if moves(out[2*i], out[2*i+1], sign) {
			falling++
		}
	}
	return len(signs), falling
}

// bump is more of a feature: half of the time within about twice its value,
// half of the time far beyond.
func bump(rng *rand.Rand, x float32, f feature.Feature) float32 {
	far := 1.0
	if rng.IntN(2) == 0 {
		far = 10
	}
	return float32(min(f.Max, float64(x)*(1+far*rng.Float64())+far*rng.Float64()*math.Min(1, f.Max)))
}

// moves reports whether a forecast moves against the sign from a to b.
func moves(a, b feature.Forecast, sign feature.Sign) bool {
	return against(sign, a.TTFT.P50, b.TTFT.P50) || against(sign, a.TTFT.P90, b.TTFT.P90) ||
		against(sign, a.TPOT.P50, b.TPOT.P50) || against(sign, a.TPOT.P90, b.TPOT.P90)
}

// against reports whether the way from a to b is against the sign.
func against(sign feature.Sign, a, b feature.Seconds) bool {
	return float64(sign)*float64(b-a) < -monotoneSlack*float64(a)
}

// made is the vector of a request and a load, with the prior that follows.
func made(request feature.Request, load feature.Load, c physics.Coefficients) feature.Vector {
	return feature.Of(request, load, physics.Estimate(c, request, load))
}

// taken reads a request and a load back out of a vector.
func taken(v *feature.Vector) (r feature.Request, l feature.Load) {
	for i, put := range putters {
		if put != nil {
			put(&r, &l, float64(v[i]))
		}
	}
	return r, l
}

// putters put a column of a vector where feature.Of took it from.
var putters = func() (all [feature.Width]func(*feature.Request, *feature.Load, float64)) {
	for name, put := range map[string]func(*feature.Request, *feature.Load, float64){
		"prompt_tokens":                  func(r *feature.Request, _ *feature.Load, x float64) { r.PromptTokens = x },
		"cached_tokens":                  func(r *feature.Request, _ *feature.Load, x float64) { r.CachedTokens = x },
		"expected_output_tokens":         func(r *feature.Request, _ *feature.Load, x float64) { r.ExpectedOutputTokens = x },
		"max_output_tokens":              func(r *feature.Request, _ *feature.Load, x float64) { r.MaxOutputTokens = x },
		"completions":                    func(r *feature.Request, _ *feature.Load, x float64) { r.Completions = x },
		"waiting":                        func(_ *feature.Request, l *feature.Load, x float64) { l.Scraped.Waiting = x },
		"running":                        func(_ *feature.Request, l *feature.Load, x float64) { l.Scraped.Running = x },
		"kv_used":                        func(_ *feature.Request, l *feature.Load, x float64) { l.Scraped.KVUsed = x },
		"scrape_age":                     func(_ *feature.Request, l *feature.Load, x float64) { l.Scraped.Age = feature.Seconds(x) },
		"inflight_requests":              func(_ *feature.Request, l *feature.Load, x float64) { l.Ledger.Requests = x },
		"inflight_prefill_tokens":        func(_ *feature.Request, l *feature.Load, x float64) { l.Ledger.PrefillTokens = x },
		"inflight_decoding":              func(_ *feature.Request, l *feature.Load, x float64) { l.Ledger.Decoding = x },
		"inflight_context_tokens":        func(_ *feature.Request, l *feature.Load, x float64) { l.Ledger.ContextTokens = x },
		"dispatched_since_scrape":        func(_ *feature.Request, l *feature.Load, x float64) { l.Ledger.SinceScrape = x },
		"dispatched_tokens_since_scrape": func(_ *feature.Request, l *feature.Load, x float64) { l.Ledger.SinceScrapeTok = x },
		"peak_prefill_throughput":        func(_ *feature.Request, l *feature.Load, x float64) { l.Profile.PeakPrefillThroughput = x },
		"max_batched_tokens":             func(_ *feature.Request, l *feature.Load, x float64) { l.Profile.MaxBatchedTokens = x },
		"max_num_seqs":                   func(_ *feature.Request, l *feature.Load, x float64) { l.Profile.MaxNumSeqs = x },
		"kv_capacity_tokens":             func(_ *feature.Request, l *feature.Load, x float64) { l.Profile.KVCapacityTokens = x },
		"speed_factor":                   func(_ *feature.Request, l *feature.Load, x float64) { l.Profile.SpeedFactor = x },
	} {
		all[feature.Index(name)] = put
	}
	return all
}()
