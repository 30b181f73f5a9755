package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/loadgen"
)

// Schema is the version of the report's JSON form.
const Schema = 1

// Report is what a demo found. Times are in seconds, errors are fractions,
// unknown is null.
type Report struct {
	Schema                 int             `json:"schema_version"`
	Requests               int             `json:"requests"`
	Failed                 int             `json:"failed"`
	Decisions              int64           `json:"decisions"`
	Outcomes               int64           `json:"outcomes"` // decisions joined with their outcome
	BundlesAccepted        int             `json:"bundles_accepted"`
	Phases                 []Phase         `json:"phases"`
	TTFTMedianAPE          feature.Number  `json:"ttft_median_ape"`
	TTFTMAPE               feature.Number  `json:"ttft_mape"`
	TPOTMedianAPE          feature.Number  `json:"tpot_median_ape"`
	TPOTMAPE               feature.Number  `json:"tpot_mape"`
	TTFTP90Coverage        feature.Number  `json:"ttft_p90_coverage"`
	TPOTP90Coverage        feature.Number  `json:"tpot_p90_coverage"`
	KillToFallbackRequests *int64          `json:"kill_to_fallback_requests"` // null when nothing was killed
	LiveForecastShare      feature.Number  `json:"live_forecast_share"`       // of the decisions in live that forecasts decided
	ChoseOtherwise         int             `json:"chose_otherwise"`           // of those, how many chose another endpoint than the matched configuration
	Replayed               int             `json:"replayed"`                  // complete decisions made again
	HeldOutRows            int             `json:"held_out_rows"`             // of the first accepted bundle's verdict
	HeadsDistinct          []int           `json:"heads_distinct"`            // different forecasts of each of its heads there
	Verdict                json.RawMessage `json:"verdict"`                   // of the first accepted bundle
	Traffic                string          `json:"traffic"`
	Speedup                float64         `json:"speedup"`
	Seed                   uint64          `json:"seed"`
	Claims                 []Claim         `json:"claims"`

	exampleID string // a decision worth looking at
}

// Phase is a stretch of decisions made in one forecast state.
type Phase struct {
	State    string          `json:"state"`
	Reason   string          `json:"reason"`
	Seconds  feature.Seconds `json:"seconds"`
	Requests int64           `json:"requests"`
	TTFTP50  feature.Seconds `json:"ttft_p50"`
	TTFTP90  feature.Seconds `json:"ttft_p90"`
	TPOTP50  feature.Seconds `json:"tpot_p50"`
	E2EMean  feature.Seconds `json:"e2e_mean"`
}

// Claim is one thing the demo promises, and whether it was so.
type Claim struct {
	Claim string `json:"claim"`
	Holds bool   `json:"holds"`
	Saw   string `json:"saw"`
}

// failure names the claims that did not hold.
func (r *Report) failure() error {
	var wrong []string
	for _, c := range r.Claims {
		if !c.Holds {
			wrong = append(wrong, c.Claim+" ("+c.Saw+")")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New("not so: " + strings.Join(wrong, "; "))
}

// collect waits until every row is written and reads what load saw. The router
// is ended for it, unless the demo stays: then its writer is waited for.
func (r *run) collect() (loadgen.Summary, []loadgen.Record, error) {
	var summary loadgen.Summary
	if r.Stay {
		if err := r.written(); err != nil {
			return summary, nil, err
		}
	} else {
		r.say("the router drains")
		r.routerProcess.Stop(40 * time.Second)
		r.trainer.Stop(5 * time.Second)
	}
	data, err := os.ReadFile(r.summary())
	if err == nil {
		err = json.Unmarshal(data, &summary)
	}
	if err != nil {
		return summary, nil, fmt.Errorf("read load's summary: %w", err)
	}
	file, err := os.Open(r.records())
	if err != nil {
		return summary, nil, err
	}
	defer file.Close()
	var records []loadgen.Record
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var rec loadgen.Record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return summary, nil, fmt.Errorf("read load's records: %w", err)
		}
		records = append(records, rec)
	}
	return summary, records, lines.Err()
}

// written waits until every stored decision has its outcome: the writer is a
// fraction of a second behind.
func (r *run) written() error {
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for last := int64(-1); ; {
		counts, err := r.store.Count(ctx, r.began.Add(-time.Minute), time.Now().Add(time.Minute))
		if err != nil {
			return err
		}
		if counts.Decisions == counts.Joined && counts.Decisions == last {
			return nil
		}
		last = counts.Decisions
		select {
		case <-ctx.Done():
			return nil // the claims will say what is missing
		case <-tick.C:
		}
	}
}

// report computes everything from the database and checks the claims.
func (r *run) report(summary loadgen.Summary, records []loadgen.Record) (*Report, error) {
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	from, to := r.began.Add(-time.Minute), time.Now().Add(time.Minute)
	out := &Report{Schema: Schema, Requests: summary.Sent, Failed: summary.Failed, Traffic: r.Source, Speedup: r.Speedup, Seed: r.Seed}
	counts, err := r.store.Count(ctx, from, to)
	if err != nil {
		return nil, err
	}
	out.Decisions, out.Outcomes = counts.Decisions, counts.Joined
	phases, err := r.store.Phases(ctx, from, to)
	if err != nil {
		return nil, err
	}
	for _, p := range phases {
		out.Phases = append(out.Phases, Phase{
			State: p.State, Reason: p.Reason, Seconds: feature.SecondsOf(p.To.Sub(p.From)), Requests: p.Requests,
			TTFTP50: p.TTFTP50, TTFTP90: p.TTFTP90, TPOTP50: p.TPOTP50, E2EMean: p.E2EMean,
		})
	}
	accuracy, err := r.store.Accuracy(ctx, from, to)
	if err != nil {
		return nil, err
	}
	out.TTFTMedianAPE, out.TTFTMAPE, out.TTFTP90Coverage = feature.Number(accuracy.TTFTMedianAPE), feature.Number(accuracy.TTFTMAPE), feature.Number(accuracy.TTFTCoverage)
	out.TPOTMedianAPE, out.TPOTMAPE, out.TPOTP90Coverage = feature.Number(accuracy.TPOTMedianAPE), feature.Number(accuracy.TPOTMAPE), feature.Number(accuracy.TPOTCoverage)
	if !r.killed.IsZero() {
		until := r.restored
		if until.IsZero() {
			until = to
		}
		n, err := r.store.ForecastsAfter(ctx, r.killed, until)
		if err != nil {
			return nil, err
		}
		out.KillToFallbackRequests = &n
	}
	c := &checks{run: r, report: out, records: records}
	if err := c.all(ctx, from, to, phases); err != nil {
		return nil, err
	}
	return out, nil
}

// verdict is the part of a stored verdict the demo reads.
type verdict struct {
	HeldOut   int      `json:"held_out_rows"`
	Reasons   []string `json:"reasons"`
	TTFT      float64  `json:"ttft_median_ape"`
	TPOT      float64  `json:"tpot_median_ape"`
	PriorTTFT float64  `json:"prior_ttft_median_ape"`
	PriorTPOT float64  `json:"prior_tpot_median_ape"`
	Heads     []struct {
		Head     string `json:"head"`
		Distinct int    `json:"distinct"`
	} `json:"heads"`
}

func readVerdict(b *featurestore.Bundle) (verdict, error) {
	var v verdict
	if err := json.Unmarshal(b.Verdict, &v); err != nil {
		return v, fmt.Errorf("read the verdict of bundle %d: %w", b.Version, err)
	}
	return v, nil
}
