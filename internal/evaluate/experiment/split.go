package experiment

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// row is one request of a split.
type row struct {
	at             time.Duration // since the first one
	arm            int8          // -1: no coin was tossed
	values         [ofRequest]float64
	prompt, output float64 // tokens; NaN where not known
}

// addRow keeps a request. One that is not judged still counts among those whose
// choice did something to others.
func (a *Analysis) addRow(d *feature.Decision, o *feature.Outcome, v [ofRequest]float64, why LeftOut) error {
	r := row{at: d.DecidedAt.Sub(a.from), arm: -1, values: v, prompt: d.PromptTokens, output: o.OutputTokens}
	if o.Attempt == 0 {
		r.output = feature.Unknown
	}
	if d.Arm != "" {
		arm := slices.Index(a.split.Arms[:], d.Arm)
		if arm < 0 {
			return fmt.Errorf("a decision of %s was made by arm %q, and those of the design are %q", d.DecidedAt.UTC().Format(time.RFC3339Nano), d.Arm, a.split.Arms)
		}
		r.arm = int8(arm)
	}
	if why != "" {
		a.leave(why, 1)
	} else {
		a.judged++
	}
	a.rows = append(a.rows, r)
	return nil
}

// LeastSplit is how many requests each arm of a split needs to be judged.
const LeastSplit = 50

// slow is the share of requests that the default horizon holds twice over.
const slow = 0.9

// longestShare bounds the default horizon, as a share of the log: an interval needs
// many of them.
const longestShare = 1.0 / 50

// judgeSplit compares the arms of a split.
func (a *Analysis) judgeSplit(r *Report, seed uint64) error {
	slices.SortStableFunc(a.rows, func(x, y row) int { return int(x.at - y.at) })
	out := &Split{Share: a.split.Share, Effects: []SplitEffect{}, Curves: []Curve{}}
	r.Split = out
	for i := range a.rows {
		if arm := a.rows[i].arm; arm >= 0 {
			out.Requests[arm]++
		} else {
			out.Untossed++
		}
	}
	for arm, n := range out.Requests {
		if n < LeastSplit {
			return fmt.Errorf("%s gave arm %q %d of %d requests, and fewer than %d tell nothing: judge a longer window, or take a greater share",
				a.called(), a.split.Arms[arm], n, len(a.rows), LeastSplit)
		}
	}
	horizon := a.options.Horizon
	if horizon == 0 {
		horizon = a.horizon()
	}
	out.Horizon = feature.SecondsOf(horizon)

	c := newChoices(a.rows)
	now := c.within(horizon)
	traffic := a.traffic(horizon)
	for _, x := range []struct {
		quantity Quantity
		of       int
		curve    bool
	}{{TTFT, ofTTFT, true}, {TPOT, ofTPOT, false}, {E2E, ofE2E, true}, {Attained, ofAttained, false}, {Failed, ofFailed, false}} {
		y := column(a.rows, func(r *row) float64 { return r.values[x.of] })
		e := SplitEffect{Quantity: x.quantity, Unit: x.quantity.Unit()}
		var pulls []float64
		pulls, e.Arms[0], e.Arms[1] = c.naive(y)
		e.Naive = evaluate.Bootstrap(pulls, seed)
		e.DQ = evaluate.Bootstrap(now.pulls(traffic.residuals(y)), seed)
		e.NaiveRelative, e.DQRelative = against(e.Naive, e.Arms[0]), against(e.DQ, e.Arms[0])
		out.Effects = append(out.Effects, e)
		if x.curve {
			out.Curves = append(out.Curves, curve(c, x.quantity, traffic.residuals(y), horizon, seed))
		}
	}
	pulls, _, _ := c.naive(column(a.rows, func(r *row) float64 { return r.prompt }))
	out.Prompt = evaluate.Bootstrap(pulls, seed)
	a.warnOfSplit(r)
	return nil
}

// column is one number of every request, in order of time.
func column(rows []row, of func(*row) float64) []float64 {
	out := make([]float64, len(rows))
	for i := range rows {
		out[i] = of(&rows[i])
	}
	return out
}

// horizon is twice what nine of ten requests take.
func (a *Analysis) horizon() time.Duration {
	e2e := slices.DeleteFunc(column(a.rows, func(r *row) float64 { return r.values[ofE2E] }), math.IsNaN)
	slices.Sort(e2e)
	longest := time.Duration(longestShare * float64(a.rows[len(a.rows)-1].at))
	if len(e2e) == 0 {
		return longest
	}
	return min(longest, time.Duration(2*evaluate.Quantile(e2e, slow)*float64(time.Second)))
}

// curve is the difference in Q at several horizons, the naive difference's first.
func curve(c *choices, q Quantity, costs []float64, horizon time.Duration, seed uint64) Curve {
	out := Curve{Quantity: q}
	for _, h := range []time.Duration{0, horizon / 8, horizon / 4, horizon / 2, horizon, 2 * horizon} {
		out.Points = append(out.Points, CurvePoint{
			Horizon: feature.SecondsOf(h),
			DQ:      evaluate.Bootstrap(c.within(h).pulls(costs), seed),
		})
	}
	return out
}

// against is an interval relative to a mean.
func against(i evaluate.Interval, base feature.Number) evaluate.Interval {
	if !(base > 0) {
		return unknownInterval
	}
	return evaluate.Interval{Mean: i.Mean / base, Low: i.Low / base, High: i.High / base}
}

func excludesZero(i evaluate.Interval) bool { return i.Low > 0 || i.High < 0 }

// warnOfSplit says what makes the numbers doubtful.
func (a *Analysis) warnOfSplit(r *Report) {
	s := r.Split
	tossed := float64(s.Requests[0] + s.Requests[1])
	if share := float64(s.Requests[1]) / tossed; math.Abs(share-s.Share) > 4*math.Sqrt(s.Share*(1-s.Share)/tossed) {
		r.warn("The second arm has %.2f %% of the requests and by design %.2f %%: rows are missing, or more of one arm than of the other.", 100*share, 100*s.Share)
	}
	if excludesZero(s.Prompt) {
		r.warn("Prompts of one arm are longer than the other's, as a fair coin does in 1 of 20 experiments.")
	}
	if float64(s.Untossed) > 0.1*float64(len(a.rows)) {
		r.warn("For %d of %d requests no coin was tossed, because forecasts could not have decided.", s.Untossed, len(a.rows))
	}
	for _, c := range s.Curves {
		n := len(c.Points)
		if at, twice := c.Points[n-2].DQ, c.Points[n-1].DQ; excludesZero(twice) && (twice.Mean > at.High || twice.Mean < at.Low) {
			r.warn("The difference in Q of %s still grows at twice the horizon: give a longer one.", c.Quantity)
		}
	}
}
