package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

// Config says what the demo runs.
type Config struct {
	Binary   string        // of spillway
	Dir      string        // for all data; emptied first
	Traffic  []string      // flags of load that say what is sent: a trace or a workload
	Source   string        // the same for people
	Speedup  float64       // of the trace
	Duration time.Duration // for which requests are sent
	Seed     uint64        // of the engines' imperfections and of the prompts
	Stay     bool          // keep everything but the load running afterwards until the context ends

	DatabaseURL string    // of an empty database; empty: a private one in Dir
	Out         io.Writer // for people

	// Report, if not nil, gets the report as soon as it is there: with Stay long
	// before Run returns.
	Report func(*Report) error
}

// The fleet: 4 endpoints of one speed and 2 slower ones.
const (
	endpoints  = 6
	slow       = 2
	slowFactor = 1.6
	model      = "qwen3-32b"
	profile    = "qwen3-32b-h100-tp4-routing"
)

// run is one demo under way.
type run struct {
	Config
	ctx      context.Context
	cluster  *pglocal.Cluster
	store    *featurestore.Store
	env      []string
	router   string // base URL of the front door
	admin    string // host:port of the second listener
	began    time.Time
	restored time.Time // when the predictor was started again
	killed   time.Time // when the kill had returned

	fleet, predictor, trainer, routerProcess, load *child.Process
}

// Run runs the demo and checks its claims. The report is there even when a
// claim failed, which is the error; an interrupted demo has none.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c, ctx: ctx}
	defer r.stop()
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if err := r.startAll(); err != nil {
		return nil, err
	}
	if err := r.watch(); err != nil {
		return nil, err
	}
	r.say("load ended")
	summary, records, err := r.collect()
	if err != nil {
		return nil, err
	}
	report, err := r.report(summary, records)
	if err != nil {
		return nil, err
	}
	if err := r.export(); err != nil {
		return report, err
	}
	if c.Report != nil {
		if err := c.Report(report); err != nil {
			return report, err
		}
	}
	if c.Stay && ctx.Err() == nil {
		r.say("staying: router %s, console http://%s; Ctrl-C ends it", r.router, r.admin)
		fmt.Fprintf(r.Out, "  export DATABASE_URL='%s'\n", strings.TrimPrefix(r.env[0], "DATABASE_URL="))
		<-ctx.Done()
	}
	return report, report.failure()
}

// say prints one line of the timeline.
func (r *run) say(format string, args ...any) {
	at := "  0.0"
	if !r.began.IsZero() {
		at = fmt.Sprintf("%5.1f", time.Since(r.began).Seconds())
	}
	fmt.Fprintf(r.Out, "%s s  %s\n", at, fmt.Sprintf(format, args...))
}

// prepare makes the directory and the database.
func (r *run) prepare() error {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	r.Dir = dir
	if err := emptied(dir); err != nil {
		return err
	}
	var url string
	if url, r.cluster, err = pglocal.Resolve(r.ctx, r.DatabaseURL, filepath.Join(dir, "postgres"), nil); err != nil {
		return err
	}
	r.env = []string{"DATABASE_URL=" + url}
	if r.store, err = featurestore.Open(r.ctx, url, featurestore.Options{}); err != nil {
		return err
	}
	if r.cluster == nil {
		r.say("using the database of DATABASE_URL")
		if err := r.unused(); err != nil {
			return err
		}
	} else {
		r.say("a private Postgres runs in %s", filepath.Join(dir, "postgres"))
	}
	if err := r.store.Migrate(r.ctx); err != nil {
		return err
	}
	_, err = r.store.Maintain(r.ctx, time.Now(), 48*time.Hour, 0)
	return err
}

// unused reports a database that holds decisions: the demo counts rows and
// starts cold, so it wants one for itself.
func (r *run) unused() error {
	status, err := r.store.Status(r.ctx)
	if err != nil {
		return err
	}
	if status.Decisions.Rows > 0 || status.Bundles > 0 {
		return fmt.Errorf("DATABASE_URL: the database holds %d decisions; the demo wants an empty one, or unset DATABASE_URL and it makes its own", status.Decisions.Rows)
	}
	return nil
}

// logFile is the export of every decision and what came of it.
const logFile = "log.parquet"

// mark is the file that says a directory is a demo's.
const mark = "spillway-demo"

// emptied makes an empty directory of dir. It removes only what an earlier
// demo made.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, mark)); err != nil {
			return fmt.Errorf("--dir: %s is not empty and not an earlier demo's; name another directory", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, mark), []byte("The data of a spillway demo. Removed by the next one.\n"), 0o644)
}

// startAll starts the processes, each when what it needs is there.
func (r *run) startAll() error {
	urls, err := r.startFleet()
	if err != nil {
		return err
	}
	ports, err := child.FreePorts(4)
	if err != nil {
		return err
	}
	r.router = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	r.admin = child.Local(ports[1])
	if err := r.writeConfig(urls, ports); err != nil {
		return err
	}
	if r.predictor, err = r.verb("predictor"); err != nil {
		return err
	}
	if r.trainer, err = r.verb("trainer"); err != nil {
		return err
	}
	if r.routerProcess, err = r.verb("router"); err != nil {
		return err
	}
	if err := r.routerProcess.Until(r.ctx, 30*time.Second, r.ready); err != nil {
		return err
	}
	r.say("router %s, console http://%s", r.router, r.admin)
	r.began = time.Now()
	args := append([]string{"load", "--url", r.router, "--model", model, "--out", r.records(), "--json",
		"--speedup", strconv.FormatFloat(r.Speedup, 'g', -1, 64), "--duration", r.Duration.String(), "--seed", strconv.FormatUint(r.Seed, 10)}, r.Traffic...)
	summary, err := os.Create(r.summary())
	if err != nil {
		return err
	}
	defer summary.Close()
	if r.load, err = child.Start(child.Command{Binary: r.Binary, Dir: r.Dir, Name: "load", Out: summary, Args: args}); err != nil {
		return err
	}
	r.say("load: %s at %.3g times its speed for %s", r.Source, r.Speedup, r.Duration)
	return nil
}

func (r *run) records() string { return filepath.Join(r.Dir, "load.jsonl") }
func (r *run) summary() string { return filepath.Join(r.Dir, "load.json") }

// verb starts a configured process.
func (r *run) verb(name string) (*child.Process, error) {
	return child.Start(child.Command{Binary: r.Binary, Dir: r.Dir, Name: name, Env: r.env, Args: []string{name, "--config", filepath.Join(r.Dir, "spillway.yaml")}})
}

// export writes the log that policies are evaluated on.
func (r *run) export() error {
	p, err := child.Start(child.Command{Binary: r.Binary, Dir: r.Dir, Name: "export", Env: r.env,
		Args: []string{"store", "export", "--candidates", "--out", filepath.Join(r.Dir, logFile)}})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-r.ctx.Done():
		p.Stop(time.Second)
		return errInterrupted
	}
	if p.Err() != nil {
		return p.Failure()
	}
	r.say("every decision is in %s", filepath.Join(r.Dir, logFile))
	return nil
}

func (r *run) ready(ctx context.Context) error {
	_, err := child.Tell(ctx, r.admin, "/readyz")
	return err
}

// stop ends what is running, in the order in which nothing is lost.
func (r *run) stop() {
	r.load.Stop(time.Second)
	r.routerProcess.Stop(40 * time.Second)
	r.trainer.Stop(5 * time.Second)
	r.predictor.Stop(5 * time.Second)
	r.fleet.Stop(5 * time.Second)
	if r.store != nil {
		r.store.Close()
	}
	if r.cluster != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 20*time.Second)
		defer cancel()
		if err := r.cluster.Stop(ctx); err != nil {
			fmt.Fprintln(r.Out, "Postgres did not stop in order:", err)
		}
	}
}

var errInterrupted = errors.New("interrupted")
