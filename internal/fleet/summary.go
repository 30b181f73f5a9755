package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// SLO is what a request has to keep to be good. 0 asks for nothing.
type SLO struct {
	TTFT time.Duration
	TPOT time.Duration
}

func (s SLO) kept(o *Outcome) bool {
	return o.Status == feature.OK && (s.TTFT == 0 || o.TTFT <= s.TTFT) && (s.TPOT == 0 || o.TPOT <= s.TPOT)
}

// Summary is what a run comes to. Latencies are of requests that succeeded;
// what nothing is known of is NaN.
type Summary struct {
	Requests int            `json:"requests"` // sent in the judged window
	Success  feature.Number `json:"success"`  // share of them

	TTFT Distribution `json:"ttft"`
	TPOT Distribution `json:"tpot"`
	E2E  Distribution `json:"e2e"`

	// PromptTokens and OutputTokens are sums over the successful requests.
	PromptTokens int `json:"prompt_tokens"`
	OutputTokens int `json:"output_tokens"`

	// Window counts what was read and written inside the judged window, by
	// whatever request, per second of it. Cohort counts the successful requests
	// that were sent in it, per second from the first one sent to the last one
	// ended, which is how published load generators count.
	Window Throughput `json:"window"`
	Cohort Throughput `json:"cohort"`

	HitRate     feature.Number `json:"hit_rate"`    // prompt tokens found cached, of those of requests that began
	Preemptions int64          `json:"preemptions"` // of the whole run

	Goodput   feature.Number `json:"goodput"`    // requests that kept the SLO, per second of the cohort
	GoodShare feature.Number `json:"good_share"` // and their share

	// Slowdown is the mean over the classes of their slowdowns, so that no
	// class counts for more because it is asked more often.
	Slowdown feature.Number `json:"slowdown"`
	Classes  []ClassSummary `json:"classes"` // ordered by name

	// Herd is how many times as likely as by chance two requests sent within
	// the same second go to one endpoint: 1 for independent uniform choices,
	// the number of endpoints when all go to one. Affinity raises it too, so it
	// is to be compared between policies on equal traffic.
	Herd          feature.Number   `json:"herd"`
	EndpointShare []feature.Number `json:"endpoint_share"` // of the requests
	MostToMean    feature.Number   `json:"most_to_mean"`   // busiest endpoint's share over the mean share
}

// Distribution is seconds at a few quantiles.
type Distribution struct {
	Mean feature.Seconds `json:"mean"`
	P50  feature.Seconds `json:"p50"`
	P90  feature.Seconds `json:"p90"`
	P99  feature.Seconds `json:"p99"`
}

// Throughput is per second.
type Throughput struct {
	Requests feature.Number `json:"requests"`
	Input    feature.Number `json:"input_tokens"`
	Output   feature.Number `json:"output_tokens"`
}

// ClassSummary is how one kind of traffic fared.
type ClassSummary struct {
	Name     string         `json:"name"`
	Requests int            `json:"requests"`
	Slowdown feature.Number `json:"slowdown"` // mean of E2E over what the request takes alone
	TTFT     Distribution   `json:"ttft"`
	E2E      Distribution   `json:"e2e"`
}

// All is the window of everything after the plan's warm-up.
func (r *Result) All() Window { return Window{From: r.Loaded.From, To: never} }

// Summary judges the requests that were sent inside a window: r.Loaded, r.All
// or a stage of the plan. Requests that a Sink took are not in it.
func (r *Result) Summary(judged Window, slo SLO) Summary {
	var s Summary
	var ttft, tpot, e2e []float64
	byClass := map[string]*class{}
	counts := make([]int, len(r.Engines))
	good, began, cached, succeeded := 0, 0, 0, 0
	first, last := never, time.Duration(0)
	var cohort Throughput
	for i := range r.Requests {
		o := &r.Requests[i]
		if !judged.holds(o.At) {
			continue
		}
		s.Requests++
		if o.Endpoint >= 0 {
			counts[o.Endpoint]++
		}
		first, last = min(first, o.At), max(last, o.At+o.E2E)
		if o.OutputTokens > 0 {
			began += o.PromptTokens
			cached += o.CachedTokens
		}
		if o.Status != feature.OK {
			continue
		}
		succeeded++
		if slo.kept(o) {
			good++
		}
		s.PromptTokens += o.PromptTokens
		s.OutputTokens += o.OutputTokens
		ttft = append(ttft, o.TTFT.Seconds())
		e2e = append(e2e, o.E2E.Seconds())
		if o.OutputTokens > 1 {
			tpot = append(tpot, o.TPOT.Seconds())
		}
		c := byClass[o.Class]
		if c == nil {
			c = &class{}
			byClass[o.Class] = c
		}
		c.add(o)
	}
	s.Success = ratio(float64(succeeded), float64(s.Requests))
	s.TTFT, s.TPOT, s.E2E = distribution(ttft), distribution(tpot), distribution(e2e)
	span := (last - first).Seconds()
	cohort.Requests = ratio(float64(succeeded), span)
	cohort.Input, cohort.Output = ratio(float64(s.PromptTokens), span), ratio(float64(s.OutputTokens), span)
	s.Cohort = cohort
	s.Window = r.flow(Window{judged.From, min(judged.To, max(r.Ended, judged.From))})
	s.HitRate = ratio(float64(cached), float64(began))
	s.Goodput, s.GoodShare = ratio(float64(good), span), ratio(float64(good), float64(s.Requests))
	s.Classes, s.Slowdown = classes(byClass)
	s.Herd = r.herd(judged)
	most := 0.0
	for _, n := range counts {
		share := ratio(float64(n), float64(s.Requests))
		s.EndpointShare = append(s.EndpointShare, share)
		most = max(most, float64(share)*float64(len(counts)))
	}
	s.MostToMean = feature.Number(most)
	for i := range r.Engines {
		s.Preemptions += r.Engines[i].Preemptions
	}
	return s
}

// flow is the throughput inside a window: prompts when their first token came,
// answers as evenly spread between their first token and their last.
func (r *Result) flow(w Window) Throughput {
	var requests, input, output float64
	for i := range r.Requests {
		o := &r.Requests[i]
		if o.OutputTokens == 0 {
			continue
		}
		from, to := o.At+o.TTFT, o.At+o.TTFT+time.Duration(max(0, o.OutputTokens-1))*o.TPOT
		if w.holds(from) {
			input += float64(o.PromptTokens)
			output++
		}
		if o.Status == feature.OK && w.holds(o.At+o.E2E) {
			requests++
		}
		if inside := min(to, w.To) - max(from, w.From); inside > 0 {
			output += float64(o.OutputTokens-1) * float64(inside) / float64(to-from)
		}
	}
	length := w.Length().Seconds()
	return Throughput{ratio(requests, length), ratio(input, length), ratio(output, length)}
}

// herd is Summary's Herd.
func (r *Result) herd(judged Window) feature.Number {
	type second struct{ at, endpoint int }
	var all []second
	for i := range r.Requests {
		if o := &r.Requests[i]; judged.holds(o.At) && o.Endpoint >= 0 {
			all = append(all, second{int(o.At / time.Second), o.Endpoint})
		}
	}
	slices.SortFunc(all, func(a, b second) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.endpoint, b.endpoint)) })
	pairs := func(same func(a, b second) bool) (n float64) {
		for from := 0; from < len(all); {
			to := from + 1
			for to < len(all) && same(all[from], all[to]) {
				to++
			}
			n += float64(to-from) * float64(to-from-1)
			from = to
		}
		return n
	}
	together := pairs(func(a, b second) bool { return a == b })
	return ratio(together*float64(len(r.Engines)), pairs(func(a, b second) bool { return a.at == b.at }))
}

// class gathers one class.
type class struct {
	slowdown, ttft, e2e []float64
}

func (c *class) add(o *Outcome) {
	c.ttft = append(c.ttft, o.TTFT.Seconds())
	c.e2e = append(c.e2e, o.E2E.Seconds())
	c.slowdown = append(c.slowdown, float64(o.E2E)/float64(max(1, o.Alone)))
}

// classes finishes the classes in order of name, and averages over them so
// that each counts alike however many requests it has.
func classes(gathered map[string]*class) (all []ClassSummary, balanced feature.Number) {
	names := make([]string, 0, len(gathered))
	for name := range gathered {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := 0.0
	for _, name := range names {
		c := gathered[name]
		slowdown := distribution(c.slowdown).Mean
		sum += float64(slowdown)
		all = append(all, ClassSummary{
			Name: name, Requests: len(c.e2e), Slowdown: feature.Number(slowdown),
			TTFT: distribution(c.ttft), E2E: distribution(c.e2e),
		})
	}
	return all, ratio(sum, float64(len(names)))
}

// distribution sorts values and describes them; quantiles are interpolated.
func distribution(values []float64) Distribution {
	if len(values) == 0 {
		u := feature.Seconds(feature.Unknown)
		return Distribution{u, u, u, u}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(q float64) feature.Seconds {
		place := q * float64(len(values)-1)
		i := int(place)
		j := min(i+1, len(values)-1)
		return feature.Seconds(values[i] + (values[j]-values[i])*(place-float64(i)))
	}
	return Distribution{feature.Seconds(sum / float64(len(values))), at(0.5), at(0.9), at(0.99)}
}

// ratio is a/b; unknown without a b.
func ratio(a, b float64) feature.Number {
	if b <= 0 || math.IsInf(b, 0) {
		return feature.Number(feature.Unknown)
	}
	return feature.Number(a / b)
}
