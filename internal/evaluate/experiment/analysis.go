package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/design"
)

// Options say which experiment is judged, and how.
type Options struct {
	Name string // of the experiment; "": the only one there is
	SLO  SLO    // of requests that ask for nothing themselves
	// Detect is the relative effect for which it is said how many pairs are
	// wanted; 0: 0.05.
	Detect float64
	// Horizon is that of a split; 0: twice what nine of ten requests take.
	Horizon time.Duration
	// Unfinished judges a switchback before its end.
	Unfinished bool
	// Until is up to when all decisions there are will be added; zero: what is added
	// tells.
	Until time.Time
}

const defaultDetect = 0.05

// Analysis reads the rows of an experiment. What it holds grows with the blocks of
// a switchback, not with its requests; of a split it keeps some 70 bytes a request.
type Analysis struct {
	options Options

	llm     string
	text    string // of the design
	back    *design.Switchback
	split   *design.Split
	others  []string // designs that were not asked for, a few of them
	from    time.Time
	to      time.Time
	latest  time.Time // of any row
	outside int64
	counts  map[LeftOut]int64
	judged  int64
	decided map[decidedBy]int64
	total   int64
	givenUp map[string]int64 // by arm: requests that clients gave up before a first token
	untold  int64            // decisions in the time of a switchback that are not part of it

	blocks blocks
	rows   []row // of a split
}

type decidedBy struct{ arm, policy string }

// New returns an analysis without rows. Errors name what can't be.
func New(o Options) (*Analysis, error) {
	if o.Detect == 0 {
		o.Detect = defaultDetect
	}
	switch {
	case !(o.Detect > 0) || math.IsInf(o.Detect, 0):
		return nil, fmt.Errorf("an effect of %v can't be looked for: want a share above 0, such as 0.05", o.Detect)
	case o.Horizon < 0:
		return nil, fmt.Errorf("a horizon of %v lies in the past", o.Horizon)
	}
	return &Analysis{options: o, counts: map[LeftOut]int64{}, decided: map[decidedBy]int64{}, givenUp: map[string]int64{}}, nil
}

// clockSlack is how far a decision may lie before the one behind which it stands:
// what several routers hand in is not ordered finer.
const clockSlack = time.Second

// Add adds a decision with its last attempt, in order of time; an outcome whose
// Attempt is 0 is none. Decisions that are not part of the experiment are counted
// and left alone. Errors: two experiments in one log, an arm that is not the
// design's at that time, a clock that jumped back.
func (a *Analysis) Add(d *feature.Decision, o *feature.Outcome) error {
	if d.DecidedAt.Before(a.latest.Add(-clockSlack)) {
		return fmt.Errorf("a decision of %s stands behind one of %s: a clock jumped back, or files are not in order of time",
			d.DecidedAt.UTC().Format(time.RFC3339Nano), a.latest.UTC().Format(time.RFC3339Nano))
	}
	if d.DecidedAt.After(a.latest) {
		a.latest = d.DecidedAt
	}
	if part, err := a.part(d.Experiment); err != nil || !part {
		a.outside++
		if a.back != nil {
			if _, during := a.back.At(d.DecidedAt); during {
				a.untold++
			}
		}
		return err
	}
	if a.total == 0 {
		a.llm, a.from = d.LLM, d.DecidedAt
	}
	if d.LLM != a.llm {
		return fmt.Errorf("the experiment has decisions of %q and of %q: judge one LLM at a time", a.llm, d.LLM)
	}
	if d.DecidedAt.After(a.to) {
		a.to = d.DecidedAt
	}
	a.total++
	a.decided[decidedBy{d.Arm, d.Policy}]++
	v, why := values(d, o, a.options.SLO)
	if why == "" && math.IsNaN(v[ofTTFT]) && math.IsNaN(v[ofFailed]) {
		a.givenUp[d.Arm]++
	}
	if a.back != nil {
		return a.addBlock(d, v, why)
	}
	return a.addRow(d, o, v, why)
}

// mostOthers bounds how many designs are remembered to be named.
const mostOthers = 4

// part reports whether decisions of a design are those to judge. The first one is,
// unless a name is asked for.
func (a *Analysis) part(text string) (bool, error) {
	switch {
	case text == "":
		return false, nil
	case text == a.text:
		return true, nil
	case slices.Contains(a.others, text):
		return false, nil
	}
	back, split, err := design.Parse(text)
	if err != nil {
		return false, err
	}
	if wanted := a.options.Name; wanted != "" && nameOf(back) != wanted {
		if len(a.others) < mostOthers {
			a.others = append(a.others, text)
		}
		return false, nil
	}
	switch {
	case a.text == "":
		a.text, a.back, a.split = text, back, split
		return true, nil
	case nameOf(back) == nameOf(a.back):
		return false, fmt.Errorf("%s was changed while it ran, or routers were told different things: there are decisions of %q and of %q; judge a window that holds one of them",
			a.called(), a.text, text)
	}
	return false, fmt.Errorf("there are decisions of %s and of %s: say which one to judge, or judge a window that holds one of them", a.called(), called(back))
}

// CanaryName is what a canary is called when one experiment of several is asked
// for.
const CanaryName = design.CanaryName

func nameOf(s *design.Switchback) string {
	if s == nil {
		return CanaryName
	}
	return s.Name
}

func called(s *design.Switchback) string {
	if s == nil {
		return "a canary"
	}
	return fmt.Sprintf("experiment %q", s.Name)
}

func (a *Analysis) called() string { return called(a.back) }

// leave counts a request that is not judged.
func (a *Analysis) leave(why LeftOut, n int64) { a.counts[why] += n }

// Report judges what was added; seed is that of bootstraps and of randomisation
// tests that are too large to be exact. Errors say why nothing can be said.
func (a *Analysis) Report(seed uint64) (Report, error) {
	if a.text == "" {
		return Report{}, a.none()
	}
	r := Report{
		LLM: a.llm, Design: a.text, Arms: a.arms(), From: a.from.UTC(), To: a.to.UTC(),
		Requests: a.total, Outside: a.outside, LeftOut: []LeftOutOf{}, Decided: a.policies(), Warnings: []string{},
	}
	var err error
	if a.back != nil {
		err = a.judgeBlocks(&r, seed)
	} else {
		err = a.judgeSplit(&r, seed)
	}
	if err != nil {
		return Report{}, err
	}
	r.Judged = a.judged
	for _, why := range leftOuts() {
		if n := a.counts[why]; n > 0 {
			r.LeftOut = append(r.LeftOut, LeftOutOf{why, n})
		}
	}
	if n := a.counts[ClockJump]; n > 0 {
		r.warn("%d requests ended before they were decided on: a clock jumped, and blocks may hold what belongs to others.", n)
	}
	if a.untold > 0 {
		r.warn("%d decisions in its time are no part of it: a router was not told of it, or was told something else, and its requests meet those of both arms.", a.untold)
	}
	if up := [2]int64{a.givenUp[r.Arms[0]], a.givenUp[r.Arms[1]]}; float64(up[0]+up[1]) > mostGivenUp*float64(a.total) {
		r.warn("Clients gave up %s before a first token: they are in no latency, and an arm that makes more of them wait in vain looks faster.", a.shares(r.Arms, up))
	}
	return r, nil
}

// mostGivenUp is the share of requests given up beyond which it is said.
const mostGivenUp = 0.01

// shares are those of the requests of each arm.
func (a *Analysis) shares(arms [2]string, n [2]int64) string {
	var of [2]float64
	for by, all := range a.decided {
		if i := slices.Index(arms[:], by.arm); i >= 0 {
			of[i] += float64(all)
		}
	}
	return fmt.Sprintf("%.1f %% of the requests of %s and %.1f %% of %s", 100*float64(n[0])/of[0], arms[0], 100*float64(n[1])/of[1], arms[1])
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// none is the error of a log without the experiment.
func (a *Analysis) none() error {
	switch {
	case a.latest.IsZero():
		return errors.New("there are no decisions")
	case len(a.others) > 0:
		var names []string
		for _, text := range a.others {
			back, _, _ := design.Parse(text) // it was parsed when it was seen
			names = append(names, nameOf(back))
		}
		slices.Sort(names)
		return fmt.Errorf("no decision is part of experiment %q: those of this window are %q", a.options.Name, slices.Compact(names))
	case a.options.Name != "":
		return fmt.Errorf("no decision is part of experiment %q, or of any other", a.options.Name)
	}
	return fmt.Errorf("none of the %d decisions is part of an experiment: routers make one in mode switchback or canary", a.outside)
}

func (a *Analysis) arms() [2]string {
	if a.back != nil {
		return a.back.Arms
	}
	return a.split.Arms
}

func (a *Analysis) policies() []PolicyCount {
	out := []PolicyCount{}
	for by, n := range a.decided {
		out = append(out, PolicyCount{by.arm, by.policy, n})
	}
	slices.SortFunc(out, func(x, y PolicyCount) int {
		return cmp.Or(cmp.Compare(x.Arm, y.Arm), cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Policy, y.Policy))
	})
	return out
}
