package demo

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/loadgen"
	"github.com/spillway-llm/spillway/router/policy"
)

// checks goes through the claims.
type checks struct {
	*run
	report  *Report
	records []loadgen.Record
	decided map[string]time.Time // when each stored decision was made, by id
}

func (c *checks) claim(holds bool, claim, format string, args ...any) {
	c.report.Claims = append(c.report.Claims, Claim{Claim: claim, Holds: holds, Saw: fmt.Sprintf(format, args...)})
}

func (c *checks) all(ctx context.Context, from, to time.Time, phases []featurestore.Phase) error {
	rep := c.report
	c.claim(rep.Failed == 0 && rep.Requests > 0, "no request failed", "%d of %d failed", rep.Failed, rep.Requests)
	c.claim(rep.Decisions == int64(rep.Requests), "every request has a decision stored", "%d requests, %d decisions", rep.Requests, rep.Decisions)
	c.claim(rep.Outcomes == rep.Decisions, "every decision is joined with its outcome", "%d of %d", rep.Outcomes, rep.Decisions)
	if err := c.decisions(ctx, from, to); err != nil {
		return err
	}
	c.agreement(phases)
	if err := c.bundles(ctx); err != nil {
		return err
	}
	var states []string
	for _, p := range phases {
		states = append(states, p.State)
	}
	want := []string{"cold", "live", "down", "live"}
	c.claim(inOrder(states, want), "the decisions went cold, live, down, live", "%s", strings.Join(states, ", "))
	if rep.KillToFallbackRequests == nil {
		c.claim(false, "the predictor was killed while live", "forecasts never decided for %s before %.0f %% of the run", liveLeast, 100*killUntil)
	} else {
		c.claim(*rep.KillToFallbackRequests == 0, "no decision after the kill used a forecast", "%d did", *rep.KillToFallbackRequests)
	}
	return nil
}

// inOrder reports whether want stands in got in that order.
func inOrder(got, want []string) bool {
	for _, s := range got {
		if len(want) > 0 && s == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// decisions makes every complete decision again, compares the ids with those
// load received, and looks at what forecasts decided.
func (c *checks) decisions(ctx context.Context, from, to time.Time) error {
	stored := map[string]bool{}
	c.decided = map[string]time.Time{}
	forecasts := map[string]feature.Forecast{} // that decided
	var differs, first, afterKill string
	live, forecast := 0, 0
	var choice policy.Choice
	for d, err := range c.store.Decisions(ctx, from, to, false) {
		if err != nil {
			return err
		}
		stored[d.ID.String()] = true
		c.decided[d.ID.String()] = d.DecidedAt
		if d.State == "live" {
			live++
			if d.Policy == policy.Predicted && d.Bundle > 0 {
				forecast++
			}
		}
		if d.Policy == policy.Predicted {
			for _, e := range d.Candidates {
				if e.Endpoint == d.Chosen {
					forecasts[d.ID.String()] = e.Corrected
				}
			}
		}
		if afterKill == "" && !c.killed.IsZero() && d.DecidedAt.After(c.killed) {
			afterKill = d.Policy
			first = d.Reason
		}
		if !d.Complete {
			continue
		}
		in, err := policy.Replay(&d)
		if err == nil {
			err = policy.Decide(in, &choice)
		}
		if err != nil {
			return err
		}
		c.report.Replayed++
		if err := policy.Same(&d, in, &choice); err != nil && differs == "" {
			differs = d.ID.String() + ": " + err.Error()
		}
		if d.Policy == policy.Predicted {
			in.Forecasts = false
			if err := policy.Decide(in, &choice); err != nil {
				return err
			}
			if chosen := slices.IndexFunc(in.Candidates, func(e policy.Candidate) bool { return e.Endpoint == d.Chosen }); choice.Probabilities[chosen] == 0 {
				c.report.ChoseOtherwise++
				c.report.exampleID = d.ID.String()
			}
		}
	}
	c.claim(differs == "" && c.report.Replayed > 0, "deciding again from each stored row gives the stored choice and probabilities", "%d made again%s", c.report.Replayed, suffix(differs))
	missing := 0
	seen := map[string]bool{}
	for _, rec := range c.records {
		if !stored[rec.Decision] || seen[rec.Decision] {
			missing++
		}
		seen[rec.Decision] = true
	}
	c.claim(missing == 0 && len(stored) == len(c.records), "load and database name the same decisions", "%d by load, %d stored, %d not matched", len(c.records), len(stored), missing)
	share := math.NaN()
	if live > 0 {
		share = float64(forecast) / float64(live)
	}
	c.report.LiveForecastShare = feature.Number(share)
	c.claim(share >= 0.9, "in live at least 90 % of decisions carry a forecast", "%.1f %% of %d", 100*share, live)
	c.claim(c.report.ChoseOtherwise > 0, "some of them chose otherwise than the matched configuration", "%d of %d", c.report.ChoseOtherwise, forecast)
	c.accuracy(forecasts)
	if !c.killed.IsZero() {
		c.claim(afterKill != "" && afterKill != policy.Predicted, "the first decision after the kill was made by the matched configuration", "%s: %s", afterKill, first)
	}
	return nil
}

func suffix(s string) string {
	if s == "" {
		return ""
	}
	return "; " + s
}

// errorTolerance is by how much a median relative error may differ between the
// router's measurements and the client's: a hop of 1 or 2 ms on a TTFT of 50.
const errorTolerance = 0.04

// accuracy compares the median errors as the database has them with the same
// from the stored forecasts and load's own measurements.
func (c *checks) accuracy(forecasts map[string]feature.Forecast) {
	var ttft, tpot []float64
	for _, rec := range c.records {
		f, ok := forecasts[rec.Decision]
		if !ok || rec.Status != loadgen.OK {
			continue
		}
		if actual := float64(rec.TTFT); actual > 0 {
			ttft = append(ttft, math.Abs(float64(f.TTFT.P50)-actual)/actual)
		}
		if actual := float64(rec.TPOT); actual > 0 {
			tpot = append(tpot, math.Abs(float64(f.TPOT.P50)-actual)/actual)
		}
	}
	agree := func(a, b float64) bool { return math.Abs(a-b) <= errorTolerance || math.IsNaN(a) && math.IsNaN(b) }
	byLoadTTFT, byLoadTPOT := quantile(ttft, 0.5), quantile(tpot, 0.5)
	c.claim(agree(byLoadTTFT, float64(c.report.TTFTMedianAPE)) && agree(byLoadTPOT, float64(c.report.TPOTMedianAPE)),
		"forecast errors by load's own measurements agree", "median APE of TTFT %.1f %%, TPOT %.1f %%", 100*byLoadTTFT, 100*byLoadTPOT)
}

// known appends a measurement that was made.
func known(values []float64, m loadgen.Measure) []float64 {
	if v := float64(m); v == v {
		return append(values, v)
	}
	return values
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// quantile is interpolated, as percentile_cont of SQL is: in a tail of few
// requests neighbours lie far apart.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	at := q * float64(len(values)-1)
	below := int(at)
	above := min(below+1, len(values)-1)
	return values[below] + (at-float64(below))*(values[above]-values[below])
}

// tolerance is by how much the router's and the client's measurements of the
// same requests may differ: they are two processes on a busy machine, and a
// tail shows every stall of either.
type tolerance struct{ seconds, share float64 }

var (
	middle = tolerance{0.015, 0.05}
	tail   = tolerance{0.050, 0.10}
)

func (t tolerance) agree(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= t.seconds+t.share*math.Max(a, b)
}

// agreement compares the phases as the database has them with the same from
// load's own records.
func (c *checks) agreement(phases []featurestore.Phase) {
	assigned := map[int][]loadgen.Record{}
	for _, rec := range c.records {
		at, ok := c.decided[rec.Decision]
		if !ok {
			continue
		}
		for i := len(phases) - 1; i >= 0; i-- {
			if !at.Before(phases[i].From) || i == 0 {
				assigned[i] = append(assigned[i], rec)
				break
			}
		}
	}
	worst := ""
	for i, p := range phases {
		var ttft, tpot, e2e []float64
		for _, rec := range assigned[i] {
			if rec.Status == loadgen.OK {
				ttft, tpot, e2e = known(ttft, rec.TTFT), known(tpot, rec.TPOT), known(e2e, rec.E2E)
			}
		}
		for _, x := range []struct {
			name      string
			mine, its float64
			allowed   tolerance
		}{
			{"ttft_p50", float64(p.TTFTP50), quantile(ttft, 0.5), middle},
			{"ttft_p90", float64(p.TTFTP90), quantile(ttft, 0.9), tail},
			{"tpot_p50", float64(p.TPOTP50), quantile(tpot, 0.5), middle},
			{"e2e_mean", float64(p.E2EMean), mean(e2e), middle},
		} {
			if p.Requests >= 20 && !x.allowed.agree(x.mine, x.its) {
				worst = fmt.Sprintf("%s of phase %d (%s): database %.4f s, load %.4f s", x.name, i+1, p.State, x.mine, x.its)
			}
		}
	}
	saw := "within 15 ms + 5 % in every phase, p90 within 50 ms + 10 %"
	if worst != "" {
		saw = worst
	}
	c.claim(worst == "", "latencies in the database agree with load's own", "%s", saw)
}

// bundles looks at the verdicts.
func (c *checks) bundles(ctx context.Context) error {
	bundles, err := c.store.Bundles(ctx, model, 1000)
	if err != nil {
		return err
	}
	for i := len(bundles) - 1; i >= 0; i-- { // oldest first
		b := &bundles[i]
		if !b.Accepted {
			continue
		}
		c.report.BundlesAccepted++
		if c.report.BundlesAccepted > 1 {
			continue
		}
		v, err := readVerdict(b)
		if err != nil {
			return err
		}
		c.report.Verdict, c.report.HeldOutRows = b.Verdict, v.HeldOut
		for _, h := range v.Heads {
			c.report.HeadsDistinct = append(c.report.HeadsDistinct, h.Distinct)
		}
	}
	c.claim(c.report.BundlesAccepted > 0, "the gate accepted a bundle", "%d accepted of %d", c.report.BundlesAccepted, len(bundles))
	c.claim(c.report.HeldOutRows >= 100, "it was judged on at least 100 later rows", "%d", c.report.HeldOutRows)
	least := math.MaxInt
	for _, n := range c.report.HeadsDistinct {
		least = min(least, n)
	}
	c.claim(len(c.report.HeadsDistinct) == 4 && least > 1, "every head of it tells requests apart", "different forecasts by head: %v", c.report.HeadsDistinct)
	return nil
}
