package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/collector"
	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// judgingExperiment is what "spillway evaluate experiment" was asked for.
type judgingExperiment struct {
	rows    wholeRows
	options experiment.Options
	slo     [2]time.Duration // TTFT and TPOT
	seed    uint64
}

func evaluateExperimentCommand() *cobra.Command {
	j := judgingExperiment{rows: wholeRows{thin: true}}
	a := findings[experiment.Report]{
		judge: j.judge,
		table: report.WriteExperimentTable,
		page:  report.WriteExperimentPage,
		json:  reportedBy[experiment.Report],
	}
	cmd := &cobra.Command{
		Use:   "experiment",
		Short: "What an experiment on live traffic showed: a switchback or a canary",
		Long: `Compare the two arms of an experiment that routers made: in mode switchback by
blocks of time, in pairs, with what the burn-in leaves out; in mode canary by
requests, where the naive difference is shown beside one that counts what each
choice did to the requests after it. Rows say by themselves what was tried.
docs/experiments.md says how to run one, and what the numbers mean.`,
		Example: `  DATABASE_URL=postgres://... spillway evaluate experiment --window 26h
  spillway evaluate experiment --rows rows.parquet --report out.html
  spillway evaluate experiment --rows rows.parquet --experiment spring --slo-ttft 2s
  spillway evaluate experiment --window 6h --experiment canary --horizon 1m --json`,
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
	f.StringVar(&j.options.Name, "experiment", "", "which one, by router.experiment.name, or "+experiment.CanaryName+" (default: the only one)")
	f.DurationVar(&j.slo[0], "slo-ttft", 0, "objective of requests that gave none")
	f.DurationVar(&j.slo[1], "slo-tpot", 0, "objective of requests that gave none")
	f.Float64Var(&j.options.Detect, "detect", 0.05, "relative effect for which it is said how many pairs of blocks are wanted")
	f.DurationVar(&j.options.Horizon, "horizon", 0, "of a canary: for how long after a choice requests are looked at for what it did to them (default: twice what 9 of 10 requests take)")
	f.BoolVar(&j.options.Unfinished, "unfinished", false, "judge a switchback before its end")
	f.Uint64Var(&j.seed, "seed", 1, "seed of bootstraps and randomisation tests")
	a.register(f)
	return cmd
}

// check finds mistakes in the flags alone, and settles the options.
func (j *judgingExperiment) check(cmd *cobra.Command) error {
	for _, x := range []struct {
		flag string
		took time.Duration
	}{{"slo-ttft", j.slo[0]}, {"slo-tpot", j.slo[1]}, {"horizon", j.options.Horizon}} {
		if cmd.Flags().Changed(x.flag) && x.took <= 0 {
			return fmt.Errorf("--%s: %v must be above 0", x.flag, x.took)
		}
	}
	if d := j.options.Detect; !(d > 0 && d <= 10) {
		return fmt.Errorf("--detect: %v is no relative effect such as 0.05 for 5 %%", d)
	}
	j.options.SLO = experiment.SLO{TTFT: feature.SecondsOf(j.slo[0]), TPOT: feature.SecondsOf(j.slo[1])}
	return j.rows.check()
}

// judge reads the rows and compares the arms.
func (j *judgingExperiment) judge(cmd *cobra.Command) (experiment.Report, error) {
	if len(j.rows.files) == 0 {
		j.options.Until = time.Now()
	}
	a, err := experiment.New(j.options)
	if err != nil {
		return experiment.Report{}, err
	}
	defer collector.Often()()
	err = j.rows.each(cmd, func(r *export.Row) error { return a.Add(&r.Decision, &r.Outcome) })
	if err != nil {
		return experiment.Report{}, err
	}
	if j.rows.seen == 0 {
		return experiment.Report{}, j.rows.none()
	}
	return a.Report(j.seed)
}
