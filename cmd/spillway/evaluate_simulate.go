package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate/report"
	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router/policy"
)

// simulating is what "spillway evaluate simulate" was asked for.
type simulating struct {
	rows     wholeRows
	policies []string
	fallback string
	settings otherSettings
	change   func(*policy.Settings)
	bundle   int64
	most     int
	seeds    int
	seed     uint64
	anyway   bool
}

func evaluateSimulateCommand() *cobra.Command {
	var j simulating
	a := findings[simulate.Report]{
		judge: j.judge,
		table: report.WriteSimulationTable,
		page:  report.WriteSimulationPage,
		json:  reportedBy[simulate.Report],
	}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "What another policy would have done to the whole fleet, by replaying the log",
		Long: `Fit simulated engines to the logged outcomes, replay the log's traffic under the
policy that wrote it, and say how far that comes out as the log does. If it does
(within 15 % at p50 and 25 % at p90 of TTFT, TPOT and E2E), replay the same traffic
under other policies or settings, and show the difference with intervals.

Unlike "evaluate policy" it sees what decisions do to later requests. The log must
hold all candidates of a decision: in the store, or exported with --candidates.
docs/evaluation.md says what it can and can't see.`,
		Example: `  DATABASE_URL=postgres://... spillway evaluate simulate --window 24h --policy token-load,active-request
  spillway evaluate simulate --rows rows.parquet --policy predicted --set eviction_weight=0 --report out.html
  spillway evaluate simulate --rows rows.parquet --max-ttft-penalty 5s --seeds 10 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := j.check(cmd); err != nil {
				return err
			}
			r, err := a.give(cmd)
			if err == nil && !r.Check.Trusted && !j.anyway {
				err = errors.New("the check failed, by the replay of the logged policy: --anyway shows others regardless")
			}
			return err
		},
	}
	j.rows.register(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&j.policies, "policy", nil, "policies to try, separated by commas: "+strings.Join(policy.Names(), ", ")+" (default: the one that was configured, with what else is changed)")
	f.StringVar(&j.fallback, "fallback", "", "matched configuration that decides where forecasts may not, or auto (default: as configured)")
	j.settings.register(f, "configured")
	f.Int64Var(&j.bundle, "bundle", 0, "version in the store at DATABASE_URL that policies ask for forecasts, also the one that is replayed; 0: the analytic prior alone")
	f.IntVar(&j.most, "most", 200_000, "replay at most so many requests, the first ones")
	f.IntVar(&j.seeds, "seeds", 5, "runs of each policy")
	f.Uint64Var(&j.seed, "seed", 1, "first seed: of ties, exploration, the engines' noise, and which fit they have")
	f.BoolVar(&j.anyway, "anyway", false, "try other policies even if the replay of the logged one is off by more than it may be")
	a.register(f)
	return cmd
}

// mostSeeds bounds how often a setting is replayed.
const mostSeeds = 1000

// check finds mistakes in the flags alone.
func (j *simulating) check(cmd *cobra.Command) error {
	for _, name := range j.policies {
		if err := policy.Check(name); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	if err := (&simulate.Setting{Fallback: j.fallback}).Check(); err != nil {
		return fmt.Errorf("--fallback: %w", err)
	}
	switch {
	case j.seeds < 2:
		return fmt.Errorf("--seeds %d: an interval wants at least 2", j.seeds)
	case j.seeds > mostSeeds:
		return fmt.Errorf("--seeds %d: want at most %d", j.seeds, mostSeeds)
	case j.bundle < 0:
		return fmt.Errorf("--bundle: %d is no version", j.bundle)
	case j.most < 1:
		return fmt.Errorf("--most %d: want at least 1", j.most)
	}
	if err := j.rows.check(); err != nil {
		return err
	}
	var err error
	j.change, err = j.settings.change(cmd.Flags().Changed)
	return err
}

// tries are the settings that were asked for.
func (j *simulating) tries() (all []simulate.Try) {
	changed := simulate.Setting{Fallback: j.fallback, Change: j.change}
	with := strings.Join(j.settings.set, ", ")
	if j.fallback != "" {
		with = strings.TrimPrefix(with+", fallback "+j.fallback, ", ")
	}
	for _, name := range j.policies {
		s := changed
		s.Policy = name
		if with != "" {
			name += ", " + with
		}
		all = append(all, simulate.Try{Name: name, Setting: s})
	}
	if len(j.policies) == 0 && with != "" {
		all = append(all, simulate.Try{Name: with, Setting: changed})
	}
	return all
}

// judge reads the rows, fits and replays.
func (j *simulating) judge(cmd *cobra.Command) (simulate.Report, error) {
	options := simulate.Options{Most: j.most, Seed: j.seed}
	madeFor := ""
	if j.bundle > 0 {
		var err error
		if options.Forecaster, madeFor, err = j.forecaster(cmd); err != nil {
			return simulate.Report{}, fmt.Errorf("--bundle %d: %w", j.bundle, err)
		}
	}
	m, err := simulate.Fit(func(yield func(simulate.Logged, error) bool) {
		stopped := errors.New("enough")
		err := j.rows.each(cmd, func(r *export.Row) error {
			if madeFor != "" && r.Decision.LLM != madeFor {
				return fmt.Errorf("--bundle %d is of %s, and the decisions are of %s", j.bundle, madeFor, r.Decision.LLM)
			}
			if !yield(simulate.Logged{Decision: r.Decision, Outcome: r.Outcome}, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(simulate.Logged{}, err)
		}
	}, options)
	if errors.Is(err, simulate.ErrNoRows) {
		return simulate.Report{}, j.rows.none()
	}
	if err != nil {
		return simulate.Report{}, err
	}
	seeds := make([]uint64, j.seeds)
	for i := range seeds {
		seeds[i] = j.seed + uint64(i)
	}
	tries := j.tries()
	bar := runsBar(len(seeds) * (len(tries) + 1))
	r, err := m.Report(cmd.Context(), tries, seeds, j.anyway, func(ctx context.Context, s simulate.Setting) ([]simulate.Result, error) {
		return sideBySide(ctx, m, s, seeds, bar)
	})
	if bar != nil {
		err = errors.Join(err, bar.Clear())
	}
	return r, err
}

// sideBySide runs as many seeds at once as there are processors.
func sideBySide(ctx context.Context, m *simulate.Model, s simulate.Setting, seeds []uint64, bar *progressbar.ProgressBar) ([]simulate.Result, error) {
	results := make([]simulate.Result, len(seeds))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range seeds {
		g.Go(func() error {
			one, err := m.Run(ctx, s, seeds[i:i+1])
			if err != nil {
				return err
			}
			results[i] = one[0]
			if bar != nil {
				_ = bar.Add(1) // a bar that cannot be drawn is no reason to fail
			}
			return nil
		})
	}
	return results, g.Wait()
}

// runsBar counts runs on standard error if a person may be looking at it.
func runsBar(runs int) *progressbar.ProgressBar {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("replays"), progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetSpinnerChangeInterval(0))
}

// forecaster is the bundle that is asked for, and the LLM that it is of.
func (j *simulating) forecaster(cmd *cobra.Command) (simulate.Forecaster, string, error) {
	store, err := askStore(cmd)
	if err != nil {
		return nil, "", err
	}
	defer store.Close()
	stored, err := store.Bundle(cmd.Context(), j.bundle)
	if err != nil {
		return nil, "", err
	}
	b, err := bundle.Decode(stored.Bytes)
	if err != nil {
		return nil, "", err
	}
	e, err := b.EvaluatorWith(predictor.ReadLeaves)
	if err != nil {
		return nil, "", err
	}
	return e, b.LLM, nil
}
