package offpolicy

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// A Report is what a target would have come to.
type Report struct {
	LLM      string    `json:"llm"`
	Target   string    `json:"target"` // in words
	Quantity Quantity  `json:"quantity"`
	Unit     string    `json:"unit"` // "s", or "" of a share
	Longest  float64   `json:"longest"`
	Priced   bool      `json:"priced"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`

	Decisions     int64  `json:"decisions"` // that were read
	Judged        int64  `json:"judged"`
	Deterministic int64  `json:"deterministic"` // of those judged: for the direct method alone
	LeftOut       []Left `json:"left_out"`
	Failed        int64  `json:"failed"` // of those judged, that count as the longest latency or as a miss
	Cut           int64  `json:"cut"`    // that took longer than the longest
	TurnedAway    int64  `json:"turned_away"`

	LoggedBy []Decided `json:"logged_by"`    // by which policies the decisions were made
	TargetBy []Decided `json:"target_by"`    // and are made again
	Lacking  int64     `json:"lacking"`      // decisions that tell nothing of what the target reads
	Unlike   int64     `json:"unlike"`       // decisions that this build would not have made as they were
	Sheds    float64   `json:"target_sheds"` // share of the requests that the target turns away

	Logged    evaluate.Interval `json:"logged"` // mean of what came
	Estimates []Estimate        `json:"estimates"`
	Switch    feature.Number    `json:"switch_threshold"` // null: none
	Overlap   Overlap           `json:"overlap"`
	Sequence  *Sequence         `json:"sequence"` // null where there is none
	Aborted   *Aborts           `json:"aborted"`  // null where there were none
	Warnings  []string          `json:"warnings"`
}

// A Left is how many decisions were left out for one reason.
type Left struct {
	Why       LeftOut `json:"why"`
	Decisions int64   `json:"decisions"`
}

// A Decided is how many decisions a policy made.
type Decided struct {
	Policy    string `json:"policy"`
	Decisions int64  `json:"decisions"`
}

// A Sequence is a confidence sequence of the effect: see Estimators.Sequence.
type Sequence struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Aborts is what DR says if all requests that were given up before what is
// judged was seen had come to the least, or to the most, that they can have.
type Aborts struct {
	Requests int64             `json:"requests"`
	Least    evaluate.Interval `json:"effect_at_least"`
	Most     evaluate.Interval `json:"effect_at_most"`
}

// fewEffective is below how many effective samples an interval says little.
const fewEffective = 100

// Report is what the decisions so far came to. The same decisions in the same
// order give the same report for the same seed, which the bootstrap draws from.
//
// Errors, each a sentence for users: nothing to judge; a policy that reads what
// no decision tells.
func (e *Evaluation) Report(seed uint64) (Report, error) {
	all, certain := e.main.Samples()
	r := Report{
		LLM: e.llm, Target: e.words(), Quantity: e.measure.quantity, Unit: e.measure.quantity.unit(), Longest: e.measure.longest,
		Priced: e.options.Priced, From: e.from.UTC(), To: e.to.UTC(),
		Decisions: e.decisions, Judged: all, Deterministic: certain, LeftOut: e.left(),
		Failed: e.failed, Cut: e.cut, TurnedAway: e.idle,
		LoggedBy: decided(e.loggedBy), TargetBy: decided(e.targetBy), Lacking: e.lacking, Unlike: e.unlike,
		Warnings: []string{},
	}
	switch {
	case e.decisions == 0:
		return r, errors.New("there are no decisions")
	case e.judged > 0 && e.lacking == e.judged:
		return r, errLacks(e.lackingPolicy, e.judged)
	case all == 0:
		return r, e.nothing(r.LeftOut)
	case 100*e.leftOut[ClockJump] > e.decisions:
		return r, fmt.Errorf("%d of %d decisions ended before they were made: a clock jumped; judge a window without that", e.leftOut[ClockJump], e.decisions)
	}
	r.Sheds = e.shed / float64(e.judged)
	r.Logged, r.Estimates, r.Overlap = e.main.Logged(seed), e.main.Estimates(seed), e.main.Overlap()
	r.Switch = feature.Number(e.main.Switch())
	if low, high, ok := e.main.Sequence(); ok {
		r.Sequence = &Sequence{low, high}
	}
	if n := e.leftOut[Aborted]; n > 0 {
		r.Aborted = &Aborts{n, effectOf(DR, e.least.Estimates(seed)), effectOf(DR, e.most.Estimates(seed))}
	}
	r.Warnings = e.warnings(&r)
	return r, nil
}

func effectOf(name string, all []Estimate) evaluate.Interval {
	i := slices.IndexFunc(all, func(x Estimate) bool { return x.Name == name })
	return all[i].Effect
}

func (e *Evaluation) left() []Left {
	out := []Left{}
	for _, why := range LeftOuts() {
		if n := e.leftOut[why]; n > 0 {
			out = append(out, Left{why, n})
		}
	}
	return out
}

func decided(by map[string]int64) []Decided {
	out := []Decided{}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, Decided{name, by[name]})
	}
	return out
}

// nothing is the error of decisions of which none can be judged: what most of
// them lack.
func (e *Evaluation) nothing(left []Left) error {
	most := slices.MaxFunc(left, func(a, b Left) int { return int(a.Decisions - b.Decisions) })
	advice := ""
	switch most.Why {
	case Incomplete:
		advice = `: export with "spillway store export --candidates", and let the router keep all candidates (router.complete_up_to, router.complete_share)`
	case NoChance:
		advice = ": without propensities nothing tells one policy's choices from another's"
	case NoAim:
		advice = ": give one with --slo-ttft or --slo-tpot"
	}
	return fmt.Errorf("none of the %d decisions can be judged; %d of them: %s%s", e.decisions, most.Decisions, most.Why, advice)
}

// warnings are what a reader must know before believing any of it.
func (e *Evaluation) warnings(r *Report) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	chance := r.Judged - r.Deterministic
	switch {
	case chance == 0:
		say("The log's policy left nothing to chance: only the direct method says anything, and it repeats the forecasts.")
	case r.Overlap.Effective < fewEffective:
		say("%.0f effective samples of %d: too few for IPS, SNIPS and DR; their intervals are too short.", r.Overlap.Effective, chance)
	}
	if r.Overlap.Missing > mostMissing {
		say("Of %.1f %% of what the target does the log has no example: DR and switch-DR take the forecast's word for it.", 100*r.Overlap.Missing)
	}
	if r.Lacking > 0 {
		signal, _ := needs(e.lackingPolicy)
		say("%d of %d decisions tell nothing of %s, which %s needs: there the target decides as it would without.", r.Lacking, e.judged, signal, e.lackingPolicy)
	}
	if 100*r.Unlike > e.judged {
		say("%d of %d decisions come out otherwise when this build makes them again as they were: the log is of another build, or broken.", r.Unlike, e.judged)
	}
	if left := r.Decisions - r.Judged; 10*left > r.Decisions {
		say("%d of %d decisions are left out; what is judged may not be like them.", left, r.Decisions)
	}
	return append([]string{}, out...)
}

// words is the target in words.
func (e *Evaluation) words() string {
	t := &e.options.Target
	var parts []string
	if t.Policy != "" {
		parts = append(parts, t.Policy)
	} else {
		parts = append(parts, "the configured policy")
	}
	if t.Fallback != "" {
		parts = append(parts, "fallback "+t.Fallback)
	}
	switch t.Forecaster.(type) {
	case nil:
	case Prior:
		parts = append(parts, "forecasts of the prior alone")
	default:
		parts = append(parts, "forecasts made anew")
	}
	return strings.Join(append(parts, e.change.words()...), ", ")
}

// words lists what is changed, as the last decision had it before.
func (c *settingsChange) words() []string {
	var out []string
	before, after := named(&c.before), named(&c.after)
	for i := range before {
		if before[i].value != after[i].value {
			out = append(out, fmt.Sprintf("%s %v instead of %v", before[i].name, after[i].value, before[i].value))
		}
	}
	return out
}

type setting struct {
	name  string
	value float64
}

// named lists settings by the names that the configuration has for them.
func named(s *policy.Settings) []setting {
	v := reflect.ValueOf(s).Elem()
	out := make([]setting, v.NumField())
	for i := range out {
		out[i] = setting{v.Type().Field(i).Tag.Get("json"), v.Field(i).Float()}
	}
	return out
}
