package advise

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
)

// matters is a difference in mean end-to-end latency that is worth another policy.
const matters = 0.03

// Advice is what a study comes to.
type Advice struct {
	Requests int      `json:"requests"` // of one run, that count
	Seeds    []uint64 `json:"seeds"`
	Logged   bool     `json:"logged"`          // the class is of logged requests
	Doubt    string   `json:"doubt,omitempty"` // why simulation is not to be believed; see Study

	Class   Class    `json:"class"`
	Moments []Moment `json:"moments"`
	Every   float64  `json:"moment_seconds"` // the length of one

	Results []Result `json:"results"` // in the order of Policies

	// Versus is active-request against token-load, in mean end-to-end latency.
	Versus Change `json:"active_request_over_token_load"`
	// Matched is the matched configuration of the two, and Simulated says that
	// simulation chose it; otherwise the class did.
	Matched   string `json:"matched"`
	Simulated bool   `json:"matched_by_simulation"`

	Recommended string   `json:"recommended"`
	Why         []string `json:"why"` // sentences

	Valve Valve `json:"valve"`
}

// Result is how one policy fared. Latencies are in seconds; a request that failed
// counts as one that took its client's patience.
type Result struct {
	Policy string `json:"policy"`

	E2E     Estimate `json:"e2e_mean_seconds"`
	TTFTP50 Estimate `json:"ttft_p50_seconds"`
	TTFTP90 Estimate `json:"ttft_p90_seconds"`
	TPOTP90 Estimate `json:"tpot_p90_seconds"`
	Failed  Estimate `json:"failed"`   // share of the requests
	Hits    Estimate `json:"hit_rate"` // share of their prompt tokens

	// Changes are against the matched configuration on equal seeds.
	E2EChange     Change `json:"e2e_mean_change"`
	TTFTP90Change Change `json:"ttft_p90_change"`
	TPOTP90Change Change `json:"tpot_p90_change"`

	// Parts are the changes in mean end-to-end latency in each of Parts equal
	// times, by when requests were sent.
	Parts []Change `json:"e2e_mean_change_parts"`
}

// At is the result of a policy.
func (a *Advice) At(name string) *Result {
	for i := range a.Results {
		if a.Results[i].Policy == name {
			return &a.Results[i]
		}
	}
	return nil
}

// Parts is how many equal times changes are reported of, each by itself.
const Parts = 8

// Traffic is cut into moments of a minute, or less where it is short so that there
// are a few, or more where it is long so that there are no more than this: a week's.
const (
	fewMoments  = 30
	mostMoments = 7 * 24 * 60
)

// Advise reads the runs of a study, all of them, in order.
func (s *Study) Advise(runs []Run) (*Advice, error) {
	if len(runs) != s.Runs() {
		return nil, fmt.Errorf("%d runs of a study of %d", len(runs), s.Runs())
	}
	a := &Advice{Seeds: s.Seeds, Valve: s.Valve, Logged: s.Logged != nil, Doubt: s.Doubt}
	usage, warmup := s.Logged, time.Duration(0)
	if usage == nil {
		last := &runs[len(runs)-1]
		usage, warmup = last.usage, last.warmup
		runs = runs[:len(runs)-1]
	}
	use := usage.of(s.Profile, s.Endpoints)
	each := min(max(use.span/fewMoments, time.Second).Round(time.Second), time.Minute)
	each = max(each, (use.span / mostMoments).Round(time.Second))
	a.Moments, a.Every = use.moments(each), each.Seconds()
	var err error
	if a.Class, err = use.class(a.Moments, warmup); err != nil {
		return nil, err
	}
	a.Valve.worth(use)
	if a.Requests = len(runs[0].sent); a.Requests == 0 {
		return nil, fmt.Errorf("no request was sent after a warm-up of %v: there is nothing to compare", runs[0].warmup)
	}
	a.compare(runs)
	a.decide()
	return a, nil
}

// compare fills in what simulation says.
func (a *Advice) compare(runs []Run) {
	whole := span(runs)
	table := make([][]fared, len(Policies)) // by policy and seed
	for i := range runs {
		k := i % len(Policies)
		table[k] = append(table[k], runs[i].between(whole.From, whole.To))
	}
	a.Versus = changeOf(column(table[1], fared.meanE2E), column(table[0], fared.meanE2E))
	a.Matched, a.Simulated = a.Class.Matched, false
	if a.Doubt == "" && a.Versus.Proven() && math.Abs(a.Versus.Mean) > matters {
		a.Simulated = true
		a.Matched = policy.TokenLoad
		if a.Versus.Mean < 0 {
			a.Matched = policy.ActiveRequest
		}
	}
	reference := 0
	if a.Matched == policy.ActiveRequest {
		reference = 1
	}
	part := whole.Length() / Parts
	for k, name := range Policies {
		r := Result{Policy: name}
		var hits []float64
		for i := k; i < len(runs); i += len(Policies) {
			hits = append(hits, runs[i].hits)
		}
		r.Hits = estimate(hits)
		r.E2E, r.TTFTP50 = estimate(column(table[k], fared.meanE2E)), estimate(column(table[k], func(f fared) float64 { return f.ttftP50 }))
		r.TTFTP90, r.TPOTP90 = estimate(column(table[k], fared.p90TTFT)), estimate(column(table[k], fared.p90TPOT))
		r.Failed = estimate(column(table[k], func(f fared) float64 { return f.failed }))
		change := func(of func(fared) float64) Change {
			return changeOf(column(table[k], of), column(table[reference], of))
		}
		r.E2EChange, r.TTFTP90Change, r.TPOTP90Change = change(fared.meanE2E), change(fared.p90TTFT), change(fared.p90TPOT)
		for p := range Parts {
			from := whole.From + time.Duration(p)*part
			var own, other []float64
			for i := k; i < len(runs); i += len(Policies) {
				own = append(own, runs[i].between(from, from+part).e2e)
				other = append(other, runs[i-k+reference].between(from, from+part).e2e)
			}
			r.Parts = append(r.Parts, changeOf(own, other))
		}
		a.Results = append(a.Results, r)
	}
}

func (f fared) meanE2E() float64 { return f.e2e }
func (f fared) p90TTFT() float64 { return f.ttftP90 }
func (f fared) p90TPOT() float64 { return f.tpotP90 }

func column(all []fared, of func(fared) float64) []float64 {
	out := make([]float64, len(all))
	for i, f := range all {
		out[i] = of(f)
	}
	return out
}

// decide applies the rule; see the package comment.
func (a *Advice) decide() {
	predicted := a.Results[2].E2EChange
	say := func(format string, args ...any) { a.Why = append(a.Why, fmt.Sprintf(format, args...)) }
	say("%s.", capital(a.Class.Says))
	other := policy.TokenLoad
	against := a.Results[0].E2EChange
	if a.Matched == policy.TokenLoad {
		other, against = policy.ActiveRequest, a.Results[1].E2EChange
	}
	switch {
	case a.Doubt != "":
		say("%s. So what binds decides alone.", capital(a.Doubt))
	case a.Simulated:
		say("In simulation %s's mean E2E latency is %s against %s's.", other, against.text(), a.Matched)
	default:
		say("Simulation does not prove a difference above 3 %% between the matched configurations (mean E2E latency of %s: %s against %s's), so what binds says which.", other, against.text(), a.Matched)
	}
	a.Recommended = a.Matched
	switch better, worse := predicted.High < -matters, predicted.Low > 0 && predicted.Mean > matters; {
	case a.Doubt != "" && a.Class.Several():
		a.Recommended = policy.Predicted
		say("The traffic is of several kinds, which no matched configuration suits throughout.")
	case a.Doubt != "":
		say("The traffic is of one kind.")
	case a.Class.Several() && worse:
		say("The traffic is of several kinds, but predicted, on the analytic prior alone, is worse: %s.", predicted.text())
	case a.Class.Several():
		a.Recommended = policy.Predicted
		say("The traffic is of several kinds, which no matched configuration suits throughout; predicted's mean E2E latency is %s against %s's.", predicted.text(), a.Matched)
	case better:
		a.Recommended = policy.Predicted
		say("Predicted is better by more than 3 %%: %s.", predicted.text())
	default:
		say("The traffic is of one kind, and predicted is not shown to be better by more than 3 %% (%s).", predicted.text())
	}
}

// capital begins a sentence.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// text is a change in percent.
func (c Change) text() string {
	if math.IsNaN(c.Low) {
		return fmt.Sprintf("%+.1f %%", 100*c.Mean)
	}
	return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*c.Mean, 100*c.Low, 100*c.High)
}

// span is the time in which requests were sent that count, in whatever run.
func span(runs []Run) fleet.Window {
	w := fleet.Window{From: time.Duration(math.MaxInt64)}
	for i := range runs {
		if n := len(runs[i].sent); n > 0 {
			w.From, w.To = min(w.From, runs[i].sent[0].at), max(w.To, runs[i].sent[n-1].at+1)
		}
	}
	return w
}
