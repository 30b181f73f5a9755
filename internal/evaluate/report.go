package evaluate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// reliabilityBins is how many steps a reliability curve has.
const reliabilityBins = 20

// A Report is how good the forecasts of one LLM were. The series stand side by
// side on the same rows.
type Report struct {
	LLM     string    `json:"llm"`
	Split   string    `json:"split"`
	Load    string    `json:"load"` // what the deciles are of
	From    time.Time `json:"from"` // of the first case
	To      time.Time `json:"to"`
	Rows    int64     `json:"rows"`   // that were read
	Judged  int64     `json:"judged"` // the cases
	LeftOut []Left    `json:"left_out"`
	Series  []Series  `json:"series"`
}

// A Left is how many rows were left out for one reason.
type Left struct {
	Why  LeftOut `json:"why"`
	Rows int64   `json:"rows"`
}

// A Series is one way to forecast.
type Series struct {
	Name string  `json:"name"`
	TTFT Quality `json:"ttft"`
	TPOT Quality `json:"tpot"`
}

// Quality is how good the forecasts of one quantity were.
type Quality struct {
	All         Scores     `json:"all"`
	Concordance Interval   `json:"concordance"` // of All, with its block-bootstrap interval
	BiasSpread  BiasSpread `json:"bias_spread"`

	Exploited Scores `json:"exploited"` // chosen for their cost
	Explored  Scores `json:"explored"`  // chosen by exploration: what no choice has selected

	ByLoad     []Group `json:"by_load"` // deciles of the load before the decision, the least first
	ByEndpoint []Group `json:"by_endpoint"`
	ByPrompt   []Group `json:"by_prompt"` // bands of prompt tokens

	Reliability []Reliability `json:"reliability"`
	Over        []Moment      `json:"over"`
}

// A Group is some of the rows. Pairs belong to the group of their later row.
type Group struct {
	Name string         `json:"name"`
	From feature.Number `json:"from"` // of its load or prompt tokens; unknown of an endpoint
	To   feature.Number `json:"to"`
	Scores
}

// Reliability is a step of the curve of what came true against what was said:
// the share of rows at or below the claimed quantile. Only 0.5 and 0.9 are
// claims of the forecast; the rest assumes a log-normal distribution through
// both.
type Reliability struct {
	Claimed float64        `json:"claimed"`
	Came    feature.Number `json:"came"`
}

// Report is what the cases so far came to. The same cases in the same order
// give the same report for the same seed, which the bootstrap draws from.
func (f *Forecasts) Report(seed uint64) Report {
	r := Report{LLM: f.llm, Split: f.options.Split, Load: f.options.Load, From: f.from.UTC(), To: f.to.UTC(), Rows: f.rows, Judged: f.rows, LeftOut: []Left{}}
	for _, why := range LeftOuts() {
		if n := f.leftOut[why]; n > 0 {
			r.LeftOut = append(r.LeftOut, Left{why, n})
			r.Judged -= n
		}
	}
	deciles := f.deciles()
	for i, name := range f.options.Series {
		r.Series = append(r.Series, Series{Name: name,
			TTFT: f.parts[2*i].quality(deciles, f.loads, seed), TPOT: f.parts[2*i+1].quality(deciles, f.loads, seed)})
	}
	return r
}

func (p *part) quality(deciles [][]int32, loads map[int32]*bucket, seed uint64) Quality {
	q := Quality{Concordance: blockwise(p.pairs.all, seed).ofShare(), ByLoad: []Group{}, ByEndpoint: []Group{}, ByPrompt: []Group{}}
	all := newTally()
	for _, explored := range []bool{false, true} {
		all.merge(tallyOf(p.explored, explored))
	}
	q.All, q.Exploited, q.Explored = all.scores(), p.explored[false].scores(), p.explored[true].scores()
	for _, buckets := range deciles {
		t := newTally()
		for _, b := range buckets {
			if part := p.loads[b]; part != nil {
				t.merge(part)
			}
		}
		if t.judged+t.rows > 0 {
			from, to := loads[buckets[0]].least, loads[buckets[len(buckets)-1]].most
			q.ByLoad = append(q.ByLoad, group(rangeName(from, to), from, to, t))
		}
	}
	var endpoints []*tally
	for _, name := range slices.Sorted(maps.Keys(p.endpoints)) {
		t := p.endpoints[name]
		q.ByEndpoint = append(q.ByEndpoint, group(name, feature.Unknown, feature.Unknown, t))
		if name != otherEndpoints {
			endpoints = append(endpoints, t)
		}
	}
	q.BiasSpread = spreadOf(endpoints)
	for _, band := range slices.SortedFunc(maps.Keys(p.prompts), func(a, b int) int { return cmp.Compare(uint(a), uint(b)) }) {
		from, to, name := feature.Unknown, feature.Unknown, "unknown"
		switch {
		case band < 0:
		case band+1 < len(promptBands):
			from, to = promptBands[band], promptBands[band+1]-1
			name = rangeName(from, to)
		default:
			from = promptBands[band]
			name = amount(from) + " and more"
		}
		q.ByPrompt = append(q.ByPrompt, group(name, from, to, p.prompts[band]))
	}
	q.Reliability, q.Over = p.reliability(), p.moments.list()
	return q
}

func group(name string, from, to float64, t *tally) Group {
	return Group{Name: name, From: feature.Number(from), To: feature.Number(to), Scores: t.scores()}
}

// reliability is empty where there are no forecast intervals.
func (p *part) reliability() []Reliability {
	var all, below int64
	for _, n := range p.pit {
		all += n
	}
	out := []Reliability{}
	if all == 0 {
		return out
	}
	for i, n := range p.pit {
		below += n
		out = append(out, Reliability{Claimed: float64(i+1) / reliabilityBins, Came: feature.Number(float64(below) / float64(all))})
	}
	return out
}

func rangeName(from, to float64) string {
	switch a, b := amount(from), amount(to); {
	case from != from:
		return "unknown"
	case a == b:
		return a
	default:
		return fmt.Sprintf("%s to %s", a, b)
	}
}

// amount writes a load or a number of tokens with three digits at least.
func amount(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
