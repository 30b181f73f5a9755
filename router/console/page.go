package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

// How much of the past the page lists.
const (
	listedDecisions = 25
	listedMinutes   = 15
)

// sections are the parts of the page that follow as events, each a template
// and the id of its element.
var sections = []string{"summary", "fleet", "peers", "minutes", "decisions", "scatter", "changes"}

// view is what the page shows.
type view struct {
	route.Status
	Now       time.Time
	Able      int    // endpoints that are healthy and not draining
	Shown     string // the LLM whose history is shown
	CanDrill  bool
	Minutes   []minute
	Decisions []decided
	Plots     []plot
	Changes   []route.Transition // newest first
	Base      string             // from the page to the root of the console
}

// minute is what happened to the shown LLM's requests within one.
type minute struct {
	Began                                       time.Time
	Decisions, Forecasts, Spilled, Shed, Failed uint32
	TTFT, TPOT                                  route.Compared
}

// decided is one line of the latest decisions.
type decided struct {
	*feature.Decision
	Outcome  *feature.Outcome // the last one; nil: it has not ended
	Forecast feature.Seconds  // TTFT at the chosen endpoint, p50
}

func (s *Console) look(llm string, now time.Time) view {
	status := s.config.Status()
	v := view{Status: status, Now: now, Shown: shown(status.LLMs, llm), CanDrill: s.config.Drill != nil, Changes: slices.Clone(status.Changes)}
	slices.SortStableFunc(v.Endpoints, func(a, b route.EndpointStatus) int { return cmp.Compare(trouble(&b), trouble(&a)) })
	for _, e := range status.Endpoints {
		if e.Healthy && !e.Draining {
			v.Able++
		}
	}
	slices.Reverse(v.Changes)
	v.Minutes = minutes(s.config.History(v.Shown), now)
	latest := s.config.Recent.latest(listedDecisions)
	for i := range latest {
		v.Decisions = append(v.Decisions, line(&latest[i]))
	}
	ttft, tpot := make([]pair, 0, len(status.Recent)), make([]pair, 0, len(status.Recent))
	for _, r := range status.Recent {
		ttft = append(ttft, pair{float64(r.ForecastTTFT), float64(r.ActualTTFT)})
		tpot = append(tpot, pair{float64(r.ForecastTPOT), float64(r.ActualTPOT)})
	}
	v.Plots = []plot{scatter("TTFT", ttft), scatter("TPOT", tpot)}
	return v
}

// trouble orders endpoints: those that someone may have to look after stand
// first.
func trouble(e *route.EndpointStatus) int {
	switch {
	case !e.Healthy:
		return 3
	case e.Draining:
		return 1
	case e.Standing != "" && e.Standing != "good":
		return 2
	}
	return 0
}

// shown is the LLM to show: the one asked for, else the busiest.
func shown(llms []route.LLMStatus, asked string) string {
	if len(llms) == 0 {
		return asked
	}
	busiest := slices.MaxFunc(llms, func(a, b route.LLMStatus) int { return cmp.Compare(a.Decisions, b.Decisions) }).LLM
	for _, l := range llms {
		if l.LLM == asked {
			return asked
		}
	}
	return busiest
}

// minutes merges periods into the last minutes, newest first, leaving out those
// before the first that something happened in.
func minutes(periods []route.Period, now time.Time) []minute {
	var out []minute
	for i := len(periods) - 1; i >= 0; i-- {
		p := &periods[i]
		began := p.Began.Truncate(time.Minute)
		if now.Sub(began) > listedMinutes*time.Minute {
			break
		}
		if len(out) == 0 || !out[len(out)-1].Began.Equal(began) {
			out = append(out, minute{Began: began})
		}
		m := &out[len(out)-1]
		m.Decisions += p.Decisions
		m.Forecasts += p.Forecasts
		m.Spilled += p.Spilled
		m.Shed += p.Shed
		m.Failed += p.Failed
		m.TTFT.Merge(&p.TTFT)
		m.TPOT.Merge(&p.TPOT)
	}
	return out
}

func line(k *kept) decided {
	d := decided{Decision: &k.decision, Forecast: feature.Seconds(feature.Unknown)}
	if k.ended > 0 {
		d.Outcome = &k.outcomes[k.ended-1]
	}
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Endpoint == d.Chosen {
			d.Forecast = c.Corrected.TTFT.P50
		}
	}
	return d
}
