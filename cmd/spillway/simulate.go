package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/loadgen"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/simreport"
	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// defaultArms are the policies that are compared unless others are asked for.
var defaultArms = []string{policy.RoundRobin, policy.WeightedBlend, policy.TokenLoad, policy.ActiveRequest, policy.CombinedLoad, policy.Predicted}

// simulation is what "spillway simulate" was asked for.
type simulation struct {
	workload, trace string
	own             ownRows
	spec            workload.Spec
	profile         physics.Profile
	endpoints       int
	arms            []arm
	loads           []float64
	seeds           []uint64
	duration        time.Duration
	slo             fleet.SLO
	plan            func(seed uint64, load float64) workload.Plan
	change          func(*policy.Settings) // nil: none
	rows            *decisionRows          // nil: nobody wants them
}

// arm is one way to route: a policy, and what it is asked about.
type arm struct {
	name        string
	policy      string
	connections fleet.Connections
}

func simulateCommand() *cobra.Command {
	var s simulation
	var profile, loads, csvFile, reportFile, rowsFile string
	var policies, set []string
	var seeds int
	var base uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Compare policies on a simulated fleet, in virtual time",
		Long: `Run a workload, a trace or the own traffic of --window through simulated engines
under several policies, with the router's own code in virtual time, and compare
them: the same requests under every policy, mean and 95 % interval over seeds.
Equal flags give equal output, but for --window, which ends now.

Workloads: ` + strings.Join(workload.Names(), ", ") + `.
Of heterogeneous half of the endpoints are 2.5 times slower; of degraded one
becomes 3 times slower halfway, which the router is not told.

Policies: ` + strings.Join(policy.Names(), ", ") + `.
A policy@client is asked once for each client's connection, a policy@session once
for each conversation, as a layer 4 balancer is. "predicted" forecasts from the
analytic prior here, without forests.

--rows writes the log that a router before this fleet would have kept, for
"spillway evaluate", "spillway store import" and the notebooks.

Loads are clients, requests/s or a factor, as the workload counts them; "default"
is its ladder. Of a trace and of own traffic they divide the time between arrivals.`,
		Example: `  spillway simulate --workload mixed --policies token-load,active-request,predicted --load 6,12
  spillway simulate --workload code-generation --policies random@client,token-load --report out.html
  spillway simulate --trace mooncake.jsonl.gz --endpoints 8 --load 1,2,4 --seeds 5 --csv out.csv
  spillway simulate --workload mixed --policies predicted --load 6 --seeds 1 --set exploration=0.05 --rows rows.parquet
  DATABASE_URL=postgres://... spillway simulate --window 1h --llm qwen3-32b --policies token-load,predicted`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.prepare(cmd, profile, loads, policies, seeds, base); err != nil {
				return err
			}
			var err error
			if s.change, err = changeOfSettings(set); err != nil {
				return err
			}
			if s.rows, err = s.rowsTo(rowsFile); err != nil {
				return fmt.Errorf("--rows: %w", err)
			}
			table, err := create(csvFile)
			if err != nil {
				return s.rows.end(fmt.Errorf("--csv: %w", err))
			}
			page, err := create(reportFile)
			if err != nil {
				return s.rows.end(fmt.Errorf("--report: %w", err))
			}
			results, err := s.run(cmd.Context())
			if err = s.rows.end(err); err != nil {
				return err
			}
			results.Command = commandLine()
			if err := fill(table, results.WriteCSV); err != nil {
				return fmt.Errorf("--csv: %w", err)
			}
			if err := fill(page, results.WriteHTML); err != nil {
				return fmt.Errorf("--report: %w", err)
			}
			if asJSON {
				return results.WriteJSON(cmd.OutOrStdout())
			}
			return results.WriteTable(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.workload, "workload", "", "synthetic workload")
	f.StringVar(&s.trace, "trace", "", "trace file to replay, instead of a workload")
	s.own.register(cmd, windowUse)
	f.StringVar(&profile, "profile", defaultProfile, "engine profile, or a file that fit-profile wrote; add -xN to a name to slow it by N")
	f.IntVar(&s.endpoints, "endpoints", 10, "number of engines")
	f.StringSliceVar(&policies, "policies", defaultArms, "policies to compare; the others are compared with the first")
	f.StringVar(&loads, "load", "default", `loads, as "1,2,4", or "default"`)
	f.IntVar(&seeds, "seeds", 3, "number of seeds; each is a run of every policy at every load")
	f.Uint64Var(&base, "seed", 1, "the first seed")
	f.DurationVar(&s.duration, "duration", 0, "how long sessions arrive in an open loop; 0 is the workload's own")
	f.DurationVar(&s.slo.TTFT, "slo-ttft", 0, "longest TTFT of a good request; 0 asks for none")
	f.DurationVar(&s.slo.TPOT, "slo-tpot", 0, "longest TPOT of a good request; 0 asks for none")
	f.BoolVar(&asJSON, "json", false, "print JSON, with every run, instead of the table")
	f.StringVar(&csvFile, "csv", "", "write the table to this file as CSV")
	f.StringVar(&reportFile, "report", "", "write a page with plots to this file")
	f.StringVar(&rowsFile, "rows", "", "write the decisions of a single run to this file, Parquet or CSV, as \"store export --candidates\" does")
	f.StringArrayVar(&set, "set", nil, setUse)
	return cmd
}

// commandLine is how this process was called, to be pasted into a shell.
func commandLine() string {
	words := slices.Clone(os.Args)
	words[0] = "spillway"
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`*?[](){}<>|&;#~") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// create opens a file to be filled later, so that a name that cannot be written is
// told before the simulations and not after them. Without a name it is nil.
func create(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	return os.Create(name)
}

func fill(file *os.File, write func(io.Writer) error) error {
	if file == nil {
		return nil
	}
	return errors.Join(write(file), file.Close())
}

// prepare checks the flags and fills in what follows from them.
func (s *simulation) prepare(cmd *cobra.Command, profile, loads string, policies []string, seeds int, base uint64) error {
	var err error
	if s.profile, err = engineProfile(profile); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	switch {
	case s.endpoints < 1 || s.endpoints > 100_000:
		return fmt.Errorf("--endpoints: %d is not from 1 to 100000", s.endpoints)
	case seeds < 1 || seeds > 10_000:
		return fmt.Errorf("--seeds: %d is not from 1 to 10000", seeds)
	case s.duration < 0:
		return fmt.Errorf("--duration: %v is negative", s.duration)
	case s.slo.TTFT < 0 || s.slo.TPOT < 0:
		return errors.New("--slo-ttft and --slo-tpot must not be negative")
	}
	for i := range seeds {
		s.seeds = append(s.seeds, base+uint64(i))
	}
	for _, name := range policies {
		a, err := newArm(name)
		if err != nil {
			return fmt.Errorf("--policies: %w", err)
		}
		if slices.ContainsFunc(s.arms, func(b arm) bool { return b.name == a.name }) {
			return fmt.Errorf("--policies: %s stands there twice", a.name)
		}
		s.arms = append(s.arms, a)
	}
	if len(s.arms) == 0 {
		return errors.New("--policies: want at least one")
	}
	if err := s.traffic(cmd); err != nil {
		return err
	}
	return s.ladder(loads)
}

func newArm(name string) (arm, error) {
	a := arm{name: name}
	chosen, what, _ := strings.Cut(name, "@")
	a.policy = chosen
	switch what {
	case "", "request":
	case "session":
		a.connections = fleet.PerSession
	case "client":
		a.connections = fleet.PerClient
	default:
		return a, fmt.Errorf("%q ends in @%s: want @request, @session or @client", name, what)
	}
	return a, policy.Check(a.policy)
}

// traffic finds the workload, or reads the trace or the store.
func (s *simulation) traffic(cmd *cobra.Command) error {
	if err := oneOf(s.trace, s.workload, &s.own, workload.Names()); err != nil {
		return err
	}
	switch {
	case s.trace != "":
		items, err := readTrace(cmd.ErrOrStderr(), s.trace)
		return s.replay(s.trace, items, err)
	case s.own.window > 0:
		items, err := s.own.items(cmd)
		return s.replay("own traffic of "+s.own.llm, items, err)
	}
	var err error
	if s.spec, err = workload.Named(s.workload); err != nil {
		return fmt.Errorf("--workload: %w", err)
	}
	if s.duration > 0 {
		if s.spec.Closed || s.spec.Duration == 0 {
			return fmt.Errorf("--duration: %s has a length of its own", s.workload)
		}
		s.spec.Duration = s.duration
		s.spec.Warmup = min(s.spec.Warmup, s.duration/4)
	}
	s.plan = s.spec.Sessions
	return nil
}

// replay simulates the items, which were read with err.
func (s *simulation) replay(name string, items []trace.Item, err error) error {
	s.spec = workload.Spec{Name: name, Unit: "x speed"}
	s.plan = func(_ uint64, speedup float64) workload.Plan { return workload.FromTrace(items, speedup) }
	return err
}

// ladder reads the loads.
func (s *simulation) ladder(loads string) error {
	if loads == "default" {
		if s.loads = s.spec.Ladder(); s.loads == nil {
			s.loads = []float64{1}
		}
		return nil
	}
	for word := range strings.SplitSeq(loads, ",") {
		load, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil {
			return fmt.Errorf(`--load: %q is no number: want loads as "1,2,4", or "default"`, word)
		}
		if err := s.spec.Check(load); err != nil {
			return fmt.Errorf("--load: %w", err)
		}
		if slices.Contains(s.loads, load) {
			return fmt.Errorf("--load: %g stands there twice", load)
		}
		s.loads = append(s.loads, load)
	}
	return nil
}

// run runs every policy at every load with every seed, as many at once as there
// are processors. What comes out does not depend on how many that are.
func (s *simulation) run(ctx context.Context) (simreport.Results, error) {
	results := simreport.Results{
		Workload: s.spec.Name, Fleet: s.describe(), Unit: s.spec.Unit, Loads: s.loads, Seeds: s.seeds,
		Runs: make([]simreport.Run, len(s.arms)*len(s.loads)*len(s.seeds)),
	}
	for _, a := range s.arms {
		results.Arms = append(results.Arms, a.name)
	}
	bar := simulationBar(len(results.Runs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	next := 0
	for _, seed := range s.seeds {
		for _, load := range s.loads {
			for _, a := range s.arms {
				run := &results.Runs[next]
				next++
				g.Go(func() error {
					var err error
					if *run, err = s.one(ctx, a, load, seed); err != nil {
						return fmt.Errorf("%s at %g %s with seed %d: %w", a.name, load, s.spec.Unit, seed, err)
					}
					_ = bar.Add(1) // a bar that cannot be drawn is no reason to fail
					return nil
				})
			}
		}
	}
	err := g.Wait()
	_ = bar.Finish()
	return results, err
}

func simulationBar(runs int) *progressbar.ProgressBar {
	w := loadgen.Terminal()
	if w == nil {
		w = io.Discard
	}
	return progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("simulations"),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // it moves when runs end, no goroutine needed
	)
}

// one runs one simulation.
func (s *simulation) one(ctx context.Context, a arm, load float64, seed uint64) (simreport.Run, error) {
	plan := s.plan(seed, load)
	config := fleet.WorldConfig{
		Engines: s.fleet(plan),
		Router:  fleet.RouterConfig{Policy: a.policy, Settings: policy.Defaults(), Connections: a.connections},
		Plan:    plan,
		Seed:    seed,
	}
	if s.change != nil {
		s.change(&config.Router.Settings)
	}
	if s.rows != nil {
		config.Decisions = s.rows.add
	}
	if policy.Forecasting(a.policy) {
		config.Router.Forecaster = fleet.PriorForecaster{}
	}
	run := simreport.Run{Arm: a.name, Load: load, Seed: seed}
	if seed == s.seeds[0] {
		run.Series = &simreport.Series{Every: time.Second}
		config.ObserveEvery = run.Series.Every
		config.Observer = func(sample *fleet.Sample) {
			now := make([]float64, len(sample.Endpoints))
			for i := range sample.Endpoints {
				now[i] = float64(sample.Endpoints[i].InFlight)
			}
			run.Series.InFlight = append(run.Series.InFlight, now)
		}
	}
	result, err := fleet.Simulate(ctx, config)
	if err != nil {
		return run, err
	}
	judged := result.All()
	if len(plan.Stages) == 1 {
		judged = fleet.Window{From: plan.Stages[0].From, To: plan.Stages[0].To}
	}
	run.Summary = result.Summary(judged, s.slo)
	run.Judged = min(judged.To, result.Ended) - judged.From
	return run, nil
}

// fleet is the engines that the workload wants.
func (s *simulation) fleet(plan workload.Plan) []fleet.EngineSpec {
	engines := make([]fleet.EngineSpec, s.endpoints)
	slow := s.spec.Slow
	for i := range engines {
		engines[i].Profile = s.profile
		switch {
		case i < s.endpoints-slow.Endpoints(s.endpoints):
		case slow.From == 0: // a class of its own, which the router knows
			engines[i].Profile = s.profile.Slowed(slow.Factor)
		default:
			length := plan.Stages[len(plan.Stages)-1].To
			engines[i].SlowFrom, engines[i].SlowFactor = time.Duration(slow.From*float64(length)), slow.Factor
		}
	}
	return engines
}

// describe is the fleet in a sentence.
func (s *simulation) describe() string {
	text := fmt.Sprintf("%d endpoints of %s", s.endpoints, s.profile.Name)
	switch slow := s.spec.Slow; {
	case slow.Endpoints(s.endpoints) == 0:
	case slow.From == 0:
		text += fmt.Sprintf(", %d of them %g times slower", slow.Endpoints(s.endpoints), slow.Factor)
	default:
		text += fmt.Sprintf(", %d of them %g times slower after %g %% of the run", slow.Endpoints(s.endpoints), slow.Factor, 100*slow.From)
	}
	return text
}
