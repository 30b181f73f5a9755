package evaluate

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Options say what is compared.
type Options struct {
	// Series are the names of the forecasts that are compared: each Case has one
	// of each, in this order.
	Series []string
	// Split says how the cases were chosen: see AsLogged.
	Split string
	// Load names the number that Case.Load is.
	Load string
}

// The splits.
const (
	AsLogged = "logged" // forecasts as they stood beside the decisions
	ByTime   = "time"   // fitted to the earlier rows, judged on the later ones
	AtRandom = "random" // fitted to rows drawn at random: too easy, for rows of one minute are alike
)

// Forecasts gathers cases and reports how good their forecasts were. What it
// holds does not grow with the number of cases. Make it with NewForecasts.
type Forecasts struct {
	options Options
	llm     string
	from    time.Time
	to      time.Time
	rows    int64
	leftOut map[LeftOut]int64
	parts   []*part // a series' TTFT, its TPOT, the next series' TTFT, ...
	loads   map[int32]*bucket
}

// quantity is one of the two that are forecast.
type quantity struct {
	name     string
	forecast func(*feature.Forecast) feature.Quantiles
	actual   func(*Case) feature.Seconds
	censored func(*Case) feature.Seconds
}

var quantities = []quantity{
	{"ttft",
		func(f *feature.Forecast) feature.Quantiles { return f.TTFT },
		func(c *Case) feature.Seconds { return c.TTFT },
		func(c *Case) feature.Seconds { return c.CensoredAt }},
	{"tpot",
		func(f *feature.Forecast) feature.Quantiles { return f.TPOT },
		func(c *Case) feature.Seconds { return c.TPOT },
		func(*Case) feature.Seconds { return feature.Seconds(feature.Unknown) }},
}

// part is what is gathered of one quantity of one series.
type part struct {
	quantity
	series    int
	explored  map[bool]*tally
	loads     map[int32]*tally // by fine bucket of load, gathered to deciles at the end
	endpoints map[string]*tally
	prompts   map[int]*tally
	pairing   pairing
	pairs     shares
	pit       [reliabilityBins]int64
	moments   moments
}

// NewForecasts returns one without cases.
func NewForecasts(options Options) *Forecasts {
	f := &Forecasts{options: options, leftOut: map[LeftOut]int64{}, loads: map[int32]*bucket{}}
	for i := range options.Series {
		for _, q := range quantities {
			f.parts = append(f.parts, &part{
				quantity: q, series: i, explored: map[bool]*tally{}, loads: map[int32]*tally{},
				endpoints: map[string]*tally{}, prompts: map[int]*tally{}, pairing: pairing{},
			})
		}
	}
	return f
}

// Skip counts a row that is no case.
func (f *Forecasts) Skip(why LeftOut) {
	f.rows++
	f.leftOut[why]++
}

// Add adds a case. Cases come in order of time; one that lies before the last
// begins another run, so that runs of a simulator can be judged as one.
func (f *Forecasts) Add(c *Case) {
	f.rows++
	if f.from.IsZero() {
		f.from = c.At
	}
	f.to, f.llm = c.At, c.LLM
	load := bucketOf(c.Load)
	if f.loads[load] == nil {
		f.loads[load] = &bucket{least: c.Load, most: c.Load}
	}
	f.loads[load].add(c.Load)
	for _, p := range f.parts {
		p.add(c, load)
	}
}

// mostEndpoints bounds what is kept of endpoints; those that come after share
// one line.
const (
	mostEndpoints  = 1000
	otherEndpoints = "(others)"
)

func (p *part) add(c *Case, load int32) {
	q := p.forecast(&c.Forecasts[p.series])
	actual, censored := float64(p.actual(c)), float64(p.censored(c))
	if !(q.P50 > 0) || !(actual > 0) && !(censored > float64(q.P90)) {
		return
	}
	endpoint := c.Endpoint
	if p.endpoints[endpoint] == nil && len(p.endpoints) >= mostEndpoints {
		endpoint = otherEndpoints
	}
	tallies := []*tally{
		tallyOf(p.explored, c.Explored), tallyOf(p.loads, load),
		tallyOf(p.endpoints, endpoint), tallyOf(p.prompts, promptBand(c.PromptTokens)),
	}
	if !(actual > 0) {
		for _, t := range tallies {
			t.addCensored()
		}
		return
	}
	pairs := p.pairing.add(&Dispatched{At: c.At, LLM: c.LLM, Endpoint: c.Endpoint, Forecast: float64(q.P50), Actual: actual})
	p.pairs.add(pairs)
	for _, t := range tallies {
		t.add(q, actual)
		t.pairs.add(pairs)
	}
	p.moments.add(c.At, q, actual)
	if at := position(q, actual); at == at {
		p.pit[min(reliabilityBins-1, int(at*reliabilityBins))]++
	}
}

func tallyOf[K comparable](m map[K]*tally, k K) *tally {
	if m[k] == nil {
		m[k] = newTally()
	}
	return m[k]
}

// z90 is the 90 % quantile of the normal distribution.
const z90 = 1.2815515655446004

// position is where in a forecast the actual lies, from 0 to 1: which quantile
// it turned out to be, of a log-normal distribution with this p50 and p90.
func position(q feature.Quantiles, actual float64) float64 {
	if !(q.P90 > q.P50) {
		return math.NaN()
	}
	z := z90 * math.Log(actual/float64(q.P50)) / math.Log(float64(q.P90/q.P50))
	return 0.5 * math.Erfc(-z/math.Sqrt2)
}

// A bucket of load is 4 % wide: fine enough for deciles, coarse enough that
// there are some hundreds at most.
const bucketWidth = 1.04

const (
	bucketZero    = math.MinInt32
	bucketUnknown = math.MaxInt32
)

func bucketOf(load float64) int32 {
	switch {
	case load != load:
		return bucketUnknown
	case load < 1e-6:
		return bucketZero
	}
	return int32(math.Round(math.Log(load) / math.Log(bucketWidth)))
}

// bucket is the cases of about one load.
type bucket struct {
	cases       int64
	least, most float64 // load
}

func (b *bucket) add(load float64) {
	b.cases++
	b.least, b.most = min(b.least, load), max(b.most, load)
}

// promptBands are the least prompt tokens of each band.
var promptBands = []float64{0, 256, 1024, 4096, 16384, 65536}

// promptBand is the band of a prompt, -1 of one of unknown length.
func promptBand(tokens float64) int {
	if tokens != tokens {
		return -1
	}
	band := 0
	for band+1 < len(promptBands) && tokens >= promptBands[band+1] {
		band++
	}
	return band
}

// deciles says which buckets of load form each decile of the cases, from the
// least load on. Fewer than ten where many cases share one load.
func (f *Forecasts) deciles() [][]int32 {
	var all, below int64
	for _, b := range f.loads {
		all += b.cases
	}
	var out [][]int32
	last := -1
	for _, b := range slices.Sorted(maps.Keys(f.loads)) {
		decile := int(10 * (float64(below) + float64(f.loads[b].cases)/2) / float64(all))
		if b == bucketUnknown || decile != last {
			out = append(out, nil)
			last = decile
		}
		out[len(out)-1] = append(out[len(out)-1], b)
		below += f.loads[b].cases
	}
	return out
}
