package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/collector"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router/policy"
)

// judgingPolicy is what "spillway evaluate policy" was asked for.
type judgingPolicy struct {
	rows     wholeRows
	options  offpolicy.Options
	quantity string
	longest  time.Duration
	slo      [2]time.Duration // TTFT and TPOT
	settings otherSettings
	bundle   int64
	madeFor  string // the LLM of the bundle; empty: any
	seed     uint64
}

func evaluatePolicyCommand() *cobra.Command {
	var j judgingPolicy
	a := findings[offpolicy.Report]{
		judge: j.judge,
		table: report.WritePolicyTable,
		page:  report.WritePolicyPage,
		json:  reportedBy[offpolicy.Report],
	}
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "What another policy, threshold or bundle would have done with the logged requests",
		Long: `Decide logged requests again under another policy, other settings or another
bundle, with the router's own code and the state that was logged, and estimate from
the probabilities of both what latency or SLO attainment would have come: direct
method, IPS, SNIPS, doubly robust and switch-DR, with intervals and with how far the
log can tell. The log must hold all candidates of a decision: in the store, or
exported with --candidates. Only what the log's policy left to chance (exploration,
canary, random policies) tells more than forecasts do.

The estimates are first-order: they see the one request, not what it does to
others. docs/evaluation.md says what each can and can't see.`,
		Example: `  DATABASE_URL=postgres://... spillway evaluate policy --window 24h --policy token-load
  spillway evaluate policy --rows rows.parquet --max-ttft-penalty 5s --report out.html
  spillway evaluate policy --rows rows.parquet --policy predicted --bundle 0 --reward e2e --priced
  spillway evaluate policy --rows rows.parquet --set exploration=0 --set eviction_weight=0 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := j.check(cmd); err != nil {
				return err
			}
			_, err := a.give(cmd)
			return err
		},
	}
	j.rows.register(cmd)
	f := cmd.Flags()
	t := &j.options.Target
	f.StringVar(&t.Policy, "policy", "", "policy to judge: "+strings.Join(policy.Names(), ", ")+" (default: the one that was configured, with what else is changed)")
	f.StringVar(&t.Fallback, "fallback", "", "matched configuration that decides where forecasts may not (default: as logged)")
	j.settings.register(f, "logged")
	f.Int64Var(&j.bundle, "bundle", 0, "forecast anew with this version from the store at DATABASE_URL; 0: with the analytic prior alone (default: forecasts as logged)")
	f.StringVar(&j.quantity, "reward", "ttft", "what requests are judged by: ttft, tpot, e2e (latencies: less is better), or slo (whether they met their objectives)")
	f.BoolVar(&j.options.Priced, "priced", false, "add what the cost of predicted says a request takes from others; with ttft or e2e")
	f.DurationVar(&j.longest, "longest", 0, "what a latency counts at most, and what a request counts that got no answer (default: 60s of ttft, 1s of tpot, 10m of e2e)")
	f.DurationVar(&j.slo[0], "slo-ttft", 0, "objective of requests that gave none, with --reward slo")
	f.DurationVar(&j.slo[1], "slo-tpot", 0, "objective of requests that gave none, with --reward slo")
	f.Uint64Var(&j.seed, "seed", 1, "seed of the bootstrap")
	a.register(f)
	return cmd
}

// check finds mistakes in the flags alone, and settles the options.
func (j *judgingPolicy) check(cmd *cobra.Command) error {
	o := &j.options
	o.Quantity = offpolicy.Quantity(j.quantity)
	given := cmd.Flags().Changed
	if err := offpolicy.CheckQuantity(o.Quantity); err != nil {
		return fmt.Errorf("--reward: %w", err)
	}
	if o.Target.Policy != "" {
		if err := policy.Check(o.Target.Policy); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	if o.Target.Fallback != "" {
		if err := policy.CheckFallback(o.Target.Fallback); err != nil {
			return fmt.Errorf("--fallback: %w", err)
		}
	}
	for _, x := range []struct {
		flag string
		took time.Duration
	}{{"longest", j.longest}, {"slo-ttft", j.slo[0]}, {"slo-tpot", j.slo[1]}} {
		if given(x.flag) && x.took <= 0 {
			return fmt.Errorf("--%s: %v must be above 0", x.flag, x.took)
		}
	}
	switch slo := o.Quantity == offpolicy.Attained; {
	case slo && given("longest"):
		return errors.New("--longest is of latencies, and --reward slo judges whether objectives were met")
	case !slo && (given("slo-ttft") || given("slo-tpot")):
		return errors.New("--slo-ttft and --slo-tpot want --reward slo")
	case o.Priced && o.Quantity != offpolicy.TTFT && o.Quantity != offpolicy.E2E:
		return fmt.Errorf("--priced: what a request takes from others is in seconds of ttft or e2e, not of %s", o.Quantity)
	case j.bundle < 0:
		return fmt.Errorf("--bundle: %d is no version", j.bundle)
	}
	o.Longest, o.SLOTTFT, o.SLOTPOT = feature.SecondsOf(j.longest), feature.SecondsOf(j.slo[0]), feature.SecondsOf(j.slo[1])
	if err := j.rows.check(); err != nil {
		return err
	}
	var err error
	o.Target.Change, err = j.settings.change(given)
	return err
}

// judge reads the rows and estimates.
func (j *judgingPolicy) judge(cmd *cobra.Command) (offpolicy.Report, error) {
	if cmd.Flags().Changed("bundle") {
		if err := j.forecaster(cmd); err != nil {
			return offpolicy.Report{}, fmt.Errorf("--bundle %d: %w", j.bundle, err)
		}
	}
	e, err := offpolicy.NewEvaluation(j.options)
	if err != nil {
		return offpolicy.Report{}, err
	}
	defer collector.Often()()
	err = j.rows.each(cmd, func(r *export.Row) error {
		if j.madeFor != "" && r.Decision.LLM != j.madeFor {
			return fmt.Errorf("--bundle %d is of %s, and the decisions are of %s", j.bundle, j.madeFor, r.Decision.LLM)
		}
		return e.Add(&r.Decision, &r.Outcome)
	})
	if err != nil {
		return offpolicy.Report{}, err
	}
	if j.rows.seen == 0 {
		return offpolicy.Report{}, j.rows.none()
	}
	return e.Report(j.seed)
}

// forecaster readies the bundle that is asked for.
func (j *judgingPolicy) forecaster(cmd *cobra.Command) error {
	if j.bundle == 0 {
		j.options.Target.Forecaster = offpolicy.Prior{}
		return nil
	}
	store, err := askStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	stored, err := store.Bundle(cmd.Context(), j.bundle)
	if err != nil {
		return err
	}
	b, err := bundle.Decode(stored.Bytes)
	if err != nil {
		return err
	}
	e, err := b.EvaluatorWith(predictor.ReadLeaves)
	if err != nil {
		return err
	}
	j.options.Target.Forecaster, j.madeFor = e, b.LLM
	return nil
}
