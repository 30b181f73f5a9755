package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/advise/report"
	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
)

// advising is what "spillway advise" was asked for.
type advising struct {
	workload, trace string
	load, speed     float64
	duration        time.Duration
	requests        int
	profile         string
	penalty         time.Duration
	seeds           int
	seed            uint64
	rows            wholeRows

	study   advise.Study
	subject report.Subject
	model   *simulate.Model // of what was logged; nil: nothing was
}

func adviseCommand() *cobra.Command {
	var a advising
	given := findings[*advise.Advice]{
		judge: func(cmd *cobra.Command) (*advise.Advice, error) { return a.run(cmd.Context()) },
		table: func(w io.Writer, r **advise.Advice) error { return report.WriteTable(w, a.subject, *r) },
		page:  func(w io.Writer, r **advise.Advice, _ string) error { return report.WritePage(w, a.subject, *r) },
		json: func(r **advise.Advice) any {
			return struct {
				report.Subject
				*advise.Advice
			}{a.subject, *r}
		},
	}
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Say which policy this traffic wants, and where the valve should stand",
		Long: `Say what binds a fleet under this traffic (time for prefill, time for decoding,
places in the batch or room in the KV cache, and how that changes), which of
token-load, active-request and predicted suits it, and where the valve should stand;
and show by simulation, on that very traffic, what each would give.

The traffic is a trace, a synthetic workload, or logged decisions with all their
candidates (--window, --rows). Of these what binds is read as it was, and the engines
that are simulated are fitted to the log; otherwise each seed draws engines that are
only nearly what the profile says, and with --workload other requests too.
docs/advise.md says by what rule is advised.

Workloads: ` + strings.Join(workload.Names(), ", ") + `.`,
		Example: `  spillway advise --trace azure.csv.gz --endpoints 10 --speed 12
  spillway advise --trace mooncake.jsonl.gz --profile h100.json --max-ttft-penalty 3s --report out.html
  spillway advise --workload mixed --load 3
  DATABASE_URL=postgres://... spillway advise --window 24h --llm qwen3-32b
  spillway advise --rows rows.parquet --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			_, err := given.give(cmd)
			return err
		},
	}
	a.rows.register(cmd)
	f := cmd.Flags()
	f.StringVar(&a.trace, "trace", "", "trace file: the Azure CSV or Mooncake JSON lines, compressed by gzip or not")
	f.StringVar(&a.workload, "workload", "", "synthetic workload, instead of a trace")
	f.Float64Var(&a.load, "load", 0, "load of --workload: clients, requests/s or a factor, as it counts them")
	f.Float64Var(&a.speed, "speed", 1, "divide the time between the arrivals of a trace by this")
	f.DurationVar(&a.duration, "duration", 0, "how long sessions of --workload arrive; 0 is its own length")
	f.IntVar(&a.requests, "requests", 20_000, "longer traces are represented by four stretches with so many requests in all, and longer logs by their first ones")
	f.StringVar(&a.profile, "profile", defaultProfile, "engine profile, or a file that calibrate or fit-profile wrote; add -xN to a name to slow it by N")
	f.IntVar(&a.study.Endpoints, "endpoints", 10, "number of engines")
	f.DurationVar(&a.penalty, "max-ttft-penalty", 18*time.Second, "how much more TTFT you permit a request at its warm endpoint than elsewhere: where the valve opens")
	f.IntVar(&a.seeds, "seeds", 0, "number of seeds, each a run of every policy; 0: 5 to 10, the more the fewer requests there are")
	f.Uint64Var(&a.seed, "seed", 1, "the first seed")
	given.register(f)
	return cmd
}

// prepare checks the flags and fills in what follows from them.
func (a *advising) prepare(cmd *cobra.Command) error {
	if err := a.check(cmd.Flags().Changed); err != nil {
		return err
	}
	a.subject.Command = commandLine()
	if err := a.traffic(cmd); err != nil {
		return err
	}
	var err error
	if a.study.Valve, err = advise.NewValve(a.study.Profile, feature.SecondsOf(a.penalty)); err != nil {
		return fmt.Errorf("--max-ttft-penalty: %w", err)
	}
	n := a.seeds
	if n == 0 {
		n = advise.EnoughSeeds(a.study.Plan(a.seed))
	}
	for i := range n {
		a.study.Seeds = append(a.study.Seeds, a.seed+uint64(i))
	}
	if err := a.study.Check(); err != nil || a.model == nil {
		return err
	}
	check, err := a.model.Check(cmd.Context(), a.study.Seeds[:1])
	if err != nil {
		return err
	}
	a.study.Doubt = check.Why()
	return nil
}

// check finds mistakes in the flags alone.
func (a *advising) check(given func(string) bool) error {
	logged := given("window") || given("rows")
	sources := 0
	for _, is := range []bool{a.trace != "", a.workload != "", logged} {
		if is {
			sources++
		}
	}
	switch {
	case sources == 0:
		return fmt.Errorf("--trace FILE, --workload NAME, --window DURATION or --rows FILE is needed; workloads are %s", strings.Join(workload.Names(), ", "))
	case sources > 1:
		return errors.New("--trace, --workload, and --window or --rows exclude each other: one traffic is advised")
	case a.study.Endpoints < 1 || a.study.Endpoints > 100_000:
		return fmt.Errorf("--endpoints: %d is not from 1 to 100000", a.study.Endpoints)
	case a.seeds < 0 || a.seeds > 1000:
		return fmt.Errorf("--seeds: %d is not from 0 to 1000", a.seeds)
	case !(a.speed > 0) || math.IsInf(a.speed, 0):
		return fmt.Errorf("--speed: %g is not above 0", a.speed)
	case a.requests < fewestRequests:
		return fmt.Errorf("--requests: %d is too few to tell anything: want at least %d", a.requests, fewestRequests)
	case a.duration < 0:
		return fmt.Errorf("--duration: %v is negative", a.duration)
	case a.penalty <= 0:
		return fmt.Errorf("--max-ttft-penalty: %v is not above 0", a.penalty)
	case a.workload == "" && (given("load") || given("duration")):
		return errors.New("--load and --duration are of --workload; a trace has --speed")
	case a.trace == "" && given("speed"):
		return errors.New("--speed is of --trace; a workload has --load, and what was logged has its own")
	case a.workload != "" && given("requests"):
		return errors.New("--requests is of --trace, --window and --rows; a workload has --duration")
	case logged && (given("endpoints") || given("profile")):
		return errors.New("--endpoints and --profile are of --trace and --workload; of what was logged both are found in the log")
	case !logged && given("llm"):
		return errors.New("--llm chooses among the decisions of --window or --rows, which are not given")
	case logged:
		return a.rows.check()
	}
	return nil
}

// traffic finds the workload or reads the trace or the log, and finds the engines.
func (a *advising) traffic(cmd *cobra.Command) error {
	if a.trace == "" && a.workload == "" {
		return a.log(cmd)
	}
	var err error
	if a.study.Profile, err = engineProfile(a.profile); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	a.subject.Fleet = fmt.Sprintf("%d endpoints of %s", a.study.Endpoints, a.study.Profile.Name)
	a.study.Engines = advise.Nearly(a.study.Profile, a.study.Endpoints, workload.Slowdown{}, 0)
	if a.workload != "" {
		return a.synthetic()
	}
	items, err := readTrace(cmd.ErrOrStderr(), a.trace)
	if err != nil {
		return err
	}
	if trace.Rounded(items) { // its clock was coarse
		items = trace.Spread(items, rand.New(rand.NewPCG(1, 1)))
	}
	return a.replay(filepath.Base(a.trace), items)
}

const (
	// fewestRequests is from how many on anything can be told of traffic.
	fewestRequests = 100
	// longestTraffic is what is simulated at most: time takes time, and a trace whose
	// clock was wrong is years.
	longestTraffic = 60 * 24 * time.Hour
)

// replay makes items the traffic.
func (a *advising) replay(name string, items []trace.Item) error {
	few := advise.Stretches(items, a.requests)
	length := few[len(few)-1].At.Seconds() / a.speed
	switch {
	case len(items) < fewestRequests:
		return fmt.Errorf("--trace: %s has %d requests, too few to tell anything: want at least %d", name, len(items), fewestRequests)
	case length > longestTraffic.Seconds():
		return fmt.Errorf("--trace: the requests of %s are sent within %.0f days, and at most %.0f are simulated: divide its time with --speed, or look for a time that is wrong",
			name, length/(24*3600), longestTraffic.Hours()/24)
	}
	a.subject.Traffic = fmt.Sprintf("%s, %d requests", name, len(items))
	if len(few) < len(items) {
		a.subject.Traffic = fmt.Sprintf("%s, %d of %d requests in four stretches", name, len(few), len(items))
	}
	if a.speed != 1 {
		a.subject.Traffic += fmt.Sprintf(", %g times as fast", a.speed)
	}
	a.study.Plan = advise.Replay(few, a.speed)
	return nil
}

func (a *advising) synthetic() error {
	spec, err := workload.Named(a.workload)
	if err != nil {
		return fmt.Errorf("--workload: %w", err)
	}
	if a.load == 0 {
		return fmt.Errorf("--load is needed: %s counts %s, such as %g", spec.Name, spec.Unit, middle(spec.Ladder()))
	}
	if err := spec.Check(a.load); err != nil {
		return fmt.Errorf("--load: %w", err)
	}
	if a.duration > 0 {
		if spec.Closed || spec.Duration == 0 {
			return fmt.Errorf("--duration: %s has a length of its own", spec.Name)
		}
		spec.Duration = a.duration
		spec.Warmup = min(spec.Warmup, a.duration/4)
	}
	a.study.Plan = func(seed uint64) workload.Plan { return spec.Sessions(seed, a.load) }
	a.study.Engines = advise.Nearly(a.study.Profile, a.study.Endpoints, spec.Slow, spec.Duration)
	a.subject.Traffic = fmt.Sprintf("%s at %g %s", spec.Name, a.load, spec.Unit)
	return nil
}

func middle(ladder []float64) float64 {
	if len(ladder) == 0 {
		return 1
	}
	return ladder[len(ladder)/2]
}

// run simulates, as much at once as there are processors, and advises. What comes
// out does not depend on how many that are.
func (a *advising) run(ctx context.Context) (*advise.Advice, error) {
	runs := make([]advise.Run, a.study.Runs())
	bar := simulationBar(len(runs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range runs {
		g.Go(func() (err error) {
			if runs[i], err = a.study.Run(ctx, i); err == nil {
				_ = bar.Add(1) // a bar that cannot be drawn is no reason to fail
			}
			return err
		})
	}
	err := g.Wait()
	_ = bar.Finish()
	if err != nil {
		return nil, err
	}
	return a.study.Advise(runs)
}
