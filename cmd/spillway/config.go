package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
	"github.com/spillway-llm/spillway/router/share"
	"github.com/spillway-llm/spillway/trainer"
)

// Config is the configuration file: one for all processes, each reads its own
// part. Every key may be left out. Secrets come from the environment alone:
// DATABASE_URL, LISTEN_DATABASE_URL.
type Config struct {
	Log       LogConfig         `yaml:"log"`       // what is logged
	Profile   string            `yaml:"profile"`   // engine profile of classes that classes does not list and the store has no calibration of: a name, with -xN behind it N times slower, or a file that calibrate or fit-profile wrote
	Classes   map[string]string `yaml:"classes"`   // engine profile of each endpoint class, named likewise
	Store     StoreConfig       `yaml:"store"`     // where rows are kept
	Access    AccessConfig      `yaml:"access"`    // who may use admin listeners and predictors
	Tracing   TracingConfig     `yaml:"tracing"`   // OpenTelemetry spans of requests
	Router    RouterConfig      `yaml:"router"`    // the router
	Predictor PredictorConfig   `yaml:"predictor"` // the predictor; the word in-process instead of keys is short for in_process and the defaults
	Trainer   TrainerConfig     `yaml:"trainer"`   // the trainer
}

// LogConfig says what is logged, to standard error.
type LogConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// StoreConfig says where rows are kept.
type StoreConfig struct {
	DataDir    string        `yaml:"data_dir"`    // of the private Postgres that "store serve" runs
	SpoolDir   string        `yaml:"spool_dir"`   // where rows wait while the database is away; each router needs its own, but for one that takes over (router.handover)
	SpoolBytes int64         `yaml:"spool_bytes"` // most bytes of them, at least 1048576; the oldest go first
	Retention  time.Duration `yaml:"retention"`   // rows older than this are dropped, by day; at least 24h, and trainer.window
	Ahead      time.Duration `yaml:"ahead"`       // how far ahead day partitions are made
}

// RouterConfig configures the router.
type RouterConfig struct {
	Name          string           `yaml:"name"`          // of this instance in every row; the host name by default
	Listen        string           `yaml:"listen"`        // host:port of the OpenAI-compatible front door
	Admin         string           `yaml:"admin"`         // host:port of metrics, health, pprof and the console; keep it inside; empty: none
	ConsoleDrill  bool             `yaml:"console_drill"` // whether the console has a button that lets the fallback decide for a minute
	ExtProc       ExtProcConfig    `yaml:",inline"`
	Share         ShareConfig      `yaml:",inline"`
	Mode          string           `yaml:"mode"`               // live; shadow: forecasts are recorded and the fallback decides; canary: forecasts decide a share; switchback: two arms decide in turn
	Canary        float64          `yaml:"canary"`             // in mode canary: share of the requests that forecasts decide, above 0 and below 1
	Experiment    ExperimentConfig `yaml:"experiment"`         // what mode switchback tries
	Policy        string           `yaml:"policy"`             // which policy decides: predicted, predictor-blend, token-load, active-request, combined-load, weighted-blend, round-robin, random, least-request or power-of-two
	Fallback      string           `yaml:"fallback"`           // what decides while forecasts may not: token-load, active-request, combined-load, or auto, which follows prefill utilisation
	Settings      policy.Settings  `yaml:"settings"`           // constants of the policies
	Forecast      ForecastConfig   `yaml:"forecast"`           // asking the predictor
	Scrape        ScrapeConfig     `yaml:"scrape"`             // asking endpoints for their metrics
	Endpoints     []pool.Endpoint  `yaml:"endpoints"`          // the engines; a router needs these, endpoints_file or discovery
	EndpointsFile string           `yaml:"endpoints_file"`     // a file with the same list, watched
	Discovery     DiscoveryConfig  `yaml:"discovery"`          // finding endpoints that nobody lists
	MaxBodyBytes  int64            `yaml:"max_body_bytes"`     // longest request body; a longer one is answered 413
	MaxHeldBytes  int64            `yaml:"max_held_bytes"`     // of the bodies of all requests that a front door holds at once; what would take more is answered 503; 0: no bound
	MaxRequests   int              `yaml:"max_requests"`       // requests on their way at once through the front door; one more is answered 503; 0: no bound
	MaxOfClient   int              `yaml:"max_per_client"`     // the same of one IP address, of IPv6 one /64, which may be a proxy's; one more is answered 429; 0: no bound
	AskUsage      bool             `yaml:"ask_usage"`          // ask engines for the token counts of streamed answers, and strip them where the client did not ask
	FirstByte     time.Duration    `yaml:"first_byte_timeout"` // until a streamed answer begins
	Answer        time.Duration    `yaml:"answer_timeout"`     // until an answer that is not streamed is there
	Idle          time.Duration    `yaml:"idle_timeout"`       // between two pieces of an answer
	DrainDelay    time.Duration    `yaml:"drain_delay"`        // how long the front door stays open after SIGTERM, while /readyz says 503; 3s to 5s in Kubernetes
	Drain         time.Duration    `yaml:"drain_timeout"`      // then requests in flight may end; with drain_delay and 10 s more it must fit into terminationGracePeriodSeconds
	Handover      string           `yaml:"handover"`           // path of a Unix socket where the next router on this machine takes the listeners over, and from which this one did; empty: none may
	CompleteUpTo  int              `yaml:"complete_up_to"`     // rows hold every candidate where there are at most so many
	CompleteShare float64          `yaml:"complete_share"`     // and of larger fleets in this share of the decisions, 0 to 1
	TokensPerByte float64          `yaml:"tokens_per_byte"`    // tokens for each byte of prompt text, until it is learned
}

// ExtProcConfig configures the front door of proxies: the endpoint picker.
type ExtProcConfig struct {
	Listen       string `yaml:"extproc_listen"`       // host:port of the front door of proxies, the endpoint picker; empty: there is none
	TLS          string `yaml:"extproc_tls"`          // self-signed, made at each start; files, those of the two keys below; or off
	CertFile     string `yaml:"extproc_cert_file"`    // PEM; read again when it was renewed
	KeyFile      string `yaml:"extproc_key_file"`     // PEM; read again when it was renewed
	Destinations int    `yaml:"extproc_destinations"` // endpoints that a proxy is told to try, in order
	Response     string `yaml:"extproc_response"`     // what is asked to be shown of responses: body, or headers, which gives no latencies
	MaxStreams   int    `yaml:"extproc_max_streams"`  // requests of proxies at once; one more is answered 503
}

// ShareConfig says how routers of one fleet know of each other, and what one
// keeps over a restart.
type ShareConfig struct {
	Peers    []string      `yaml:"peers"`            // host:port of the other routers' share_listen; a host may stand for all of them, this one too
	Listen   string        `yaml:"share_listen"`     // host:port where other routers follow this one; empty: nowhere
	SaltFile string        `yaml:"share_salt_file"`  // a file with a secret of at least 16 bytes that all of them have in common; sharing and snapshots need it
	TLS      string        `yaml:"share_tls"`        // off; server: who is followed shows a certificate; or mutual: both do
	CertFile string        `yaml:"share_cert_file"`  // PEM; read at each connection
	KeyFile  string        `yaml:"share_key_file"`   // PEM; read at each connection
	CAFile   string        `yaml:"share_ca_file"`    // PEM of who signs for the others
	Silence  time.Duration `yaml:"peer_silence"`     // after so long without a word what a peer has in flight is forgotten; at least 1s
	Snapshot string        `yaml:"snapshot_file"`    // of what is believed to be cached, written at the end and read at the start; empty: none
	MaxAge   time.Duration `yaml:"snapshot_max_age"` // an older snapshot is not read
}

// ForecastConfig says how the router asks the predictor.
type ForecastConfig struct {
	Address       string        `yaml:"address"`        // of the predictor: unix:///path or host:port
	Deadline      time.Duration `yaml:"deadline"`       // later forecasts are not waited for
	Candidates    int           `yaml:"candidates"`     // endpoints forecast at most, beside the warm ones; 0 means all
	ProbeInterval time.Duration `yaml:"probe_interval"` // how often it is asked while requests don't
	ReturnHold    time.Duration `yaml:"return_hold"`    // how long all must be well before forecasts decide again; at least probe_interval
}

// ScrapeConfig says how endpoints are asked for their metrics.
type ScrapeConfig struct {
	Interval time.Duration `yaml:"interval"` // between two scrapes of an endpoint
	Timeout  time.Duration `yaml:"timeout"`  // of one scrape; shorter than max_age
	MaxAge   time.Duration `yaml:"max_age"`  // older numbers are not compared with fresh ones; at least 2 intervals
}

// PredictorConfig configures the predictor. "predictor: in-process" is short
// for in_process and the defaults.
type PredictorConfig struct {
	InProcess    bool          `yaml:"in_process"`    // inside the router, which then needs no other
	Listen       string        `yaml:"listen"`        // unix:///path or host:port
	Admin        string        `yaml:"admin"`         // host:port of metrics and health; empty: none
	PollInterval time.Duration `yaml:"poll_interval"` // how often the store is asked for bundles, beside its notifications
	Evaluator    string        `yaml:"evaluator"`     // flat, or leaves: the library that it is checked against, several times slower
	MaxWaiting   int           `yaml:"max_waiting"`   // most forecasts that wait for others, from 1; one more is refused at once
}

// TrainerConfig configures the trainer.
type TrainerConfig struct {
	Schedule     string        `yaml:"schedule"`       // when to refit: cron, or "@every 20s"; at least 5 s apart
	Admin        string        `yaml:"admin"`          // host:port of metrics and health; empty: none
	Window       time.Duration `yaml:"window"`         // how far back rows are taken
	WindowRows   int           `yaml:"window_rows"`    // newest rows used at most
	HalfLife     time.Duration `yaml:"half_life"`      // age at which a row weighs half
	HeldOutShare float64       `yaml:"held_out_share"` // the latest rows, which judge and are not learned from
	MinHeldOut   int           `yaml:"min_held_out"`   // with fewer of them nothing is judged
	MinNewRows   int           `yaml:"min_new_rows"`   // with fewer since the last refit the served bundle is extended instead
	QuietMost    time.Duration `yaml:"quiet_most"`     // but not longer than this after the newest row that judged it
	MaxAge       time.Duration `yaml:"max_age"`        // how long a bundle may be used after it was last found good; 0 is 3 refit intervals
	DriftPoll    time.Duration `yaml:"drift_poll"`     // how often new outcomes are looked at for drift, which refits early; 0: never
	MostBytes    int           `yaml:"most_bytes"`     // of a bundle; a larger one is refused
	MostForecast time.Duration `yaml:"most_forecast"`  // that 16 candidates may take to forecast; a slower bundle is refused
	Trees        int           `yaml:"trees"`          // most trees of a forest
	Leaves       int           `yaml:"leaves"`         // most leaves of a tree
	LearningRate float64       `yaml:"learning_rate"`  // share of each tree's answer that is added
	Threads      int           `yaml:"threads"`        // processor threads of a fit
	Seed         uint64        `yaml:"seed"`           // of all that a fit draws
	Engine       string        `yaml:"engine"`         // who grows the forests of the p50 heads: spillway, or lightgbm, which must be installed

	LightGBM LightGBMConfig `yaml:"lightgbm"` // what engine: lightgbm runs
}

const defaultProfile = "qwen3-32b-h100-tp2-routing"

// defaultConfig is what holds where the file says nothing.
func defaultConfig() Config {
	r := route.Defaults()
	g := gateway.Defaults()
	x := extproc.Defaults()
	p := share.Defaults()
	t := trainer.Defaults()
	host, err := os.Hostname()
	if err != nil {
		host = "router"
	}
	return Config{
		Log:     LogConfig{Level: "info", Format: "text"},
		Profile: defaultProfile,
		Store: StoreConfig{
			DataDir: ".spillway/postgres", SpoolDir: ".spillway/spool", SpoolBytes: 256 << 20,
			Retention: 30 * 24 * time.Hour, Ahead: 3 * 24 * time.Hour,
		},
		Access: defaultAccess(), Tracing: defaultTracing(),
		Router: RouterConfig{
			Name: host, Listen: "127.0.0.1:8080", Admin: "127.0.0.1:8081",
			ExtProc: ExtProcConfig{TLS: x.TLS.Mode, Destinations: x.Destinations, Response: x.Response, MaxStreams: x.MaxStreams},
			Share:   ShareConfig{Peers: []string{}, TLS: p.TLS.Mode, Silence: p.Silence, MaxAge: p.SnapshotMaxAge},
			Mode:    r.Mode, Canary: r.Canary, Experiment: defaultExperiment(), Policy: r.Policy, Fallback: r.Fallback, Settings: r.Settings,
			Forecast: ForecastConfig{
				Address: "unix:///tmp/spillway-predictor.sock", Deadline: r.ForecastDeadline, Candidates: r.ForecastCandidates,
				ProbeInterval: r.ProbeInterval, ReturnHold: r.Limits.ReturnHold,
			},
			Discovery:    defaultDiscovery(),
			Scrape:       ScrapeConfig{Interval: time.Second, Timeout: 3 * time.Second, MaxAge: r.ScrapeMaxAge},
			MaxBodyBytes: g.MaxBody, MaxHeldBytes: g.MaxHeld, MaxRequests: g.MaxRequests, MaxOfClient: g.MaxOfClient, AskUsage: true,
			FirstByte: g.Timeouts.FirstByte, Answer: g.Timeouts.Answer, Idle: g.Timeouts.Idle,
			Drain:        router.DefaultDrainTimeout,
			CompleteUpTo: r.CompleteUpTo, CompleteShare: r.CompleteShare, TokensPerByte: r.TokensPerByte,
		},
		Predictor: PredictorConfig{Listen: "unix:///tmp/spillway-predictor.sock", Admin: "127.0.0.1:8082", PollInterval: 5 * time.Second, Evaluator: "flat", MaxWaiting: predictor.DefaultMaxWaiting},
		Trainer: TrainerConfig{
			Schedule: t.Schedule, Admin: "127.0.0.1:8083", Window: t.Window, WindowRows: t.WindowRows, HalfLife: t.HalfLife,
			HeldOutShare: t.HeldOutShare, MinHeldOut: t.MinHeldOut, MinNewRows: t.MinNewRows, QuietMost: t.QuietMost, MaxAge: t.MaxAge,
			DriftPoll: t.DriftPoll, MostBytes: t.MostBytes, MostForecast: t.MostForecast,
			Trees: t.Fit.Trees, Leaves: t.Fit.Leaves, LearningRate: t.Fit.LearningRate, Threads: t.Fit.Threads, Seed: t.Seed,
			Engine: ownEngine, LightGBM: defaultLightGBM(),
		},
	}
}

// parseConfig reads a configuration over the defaults. Its errors name the key.
func parseConfig(data []byte) (Config, error) {
	c := defaultConfig()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return c, plainYAML(err)
	}
	if err := misfit(&doc, reflect.TypeFor[Config](), ""); err != nil {
		return c, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, plainYAML(err)
	}
	for {
		var more yaml.Node
		if err := dec.Decode(&more); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return c, plainYAML(err)
		}
		if rest := more.Content[0]; rest.ShortTag() != "!!null" {
			return c, fmt.Errorf("line %d: a second document begins, of which nothing would be read: one file is one document", rest.Line)
		}
	}
	return c, c.check()
}

// plainYAML is the library's error as one line, without what only its authors
// know.
func plainYAML(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:")
	return errors.New(oneLine(text))
}

// check reports the first value that can't work, by its key, whichever process
// it is for. What only one of them needs, its verb checks.
func (c *Config) check() error {
	if _, err := telemetry.NewLogger(io.Discard, c.Log.Level, c.Log.Format); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	if _, err := c.router(); err != nil {
		return err
	}
	if err := c.Access.check(); err != nil {
		return err
	}
	if err := c.Tracing.check(); err != nil {
		return err
	}
	if _, err := pool.New(pool.Config{Endpoints: c.Router.Endpoints}, telemetry.NewRegistry(), nil); err != nil {
		return fmt.Errorf("router.%w", err)
	}
	if err := c.Router.Discovery.check(); err != nil {
		return err
	}
	if err := c.Router.checkProfiles(); err != nil {
		return err
	}
	trainerConfig, err := c.trainer()
	if err != nil {
		return err
	}
	if err := trainerConfig.Check(); err != nil {
		return fmt.Errorf("trainer.%w", err)
	}
	interval, err := trainerConfig.LongestInterval()
	if err != nil {
		return fmt.Errorf("trainer.%w", err)
	}
	for _, x := range []struct {
		wrong string
		ok    bool
	}{
		{"store.spool_bytes: must be at least 1048576", c.Store.SpoolBytes >= 1<<20},
		{"store.retention: must be at least 24h", c.Store.Retention >= 24*time.Hour},
		{"store.ahead: must not be negative", c.Store.Ahead >= 0},
		{"store.spool_dir: is empty; want a directory", c.Store.SpoolDir != ""},
		{"router.name: is empty; rows are found by it", c.Router.Name != ""},
		{"router.scrape.interval: must be positive", c.Router.Scrape.Interval > 0},
		{"router.scrape.timeout: must be positive", c.Router.Scrape.Timeout > 0},
		{"router.scrape.max_age: must be at least 2 scrape intervals, or every endpoint is dated", c.Router.Scrape.MaxAge >= 2*c.Router.Scrape.Interval},
		{"router.scrape.timeout: must be shorter than router.scrape.max_age, or numbers are too old when they come", c.Router.Scrape.Timeout < c.Router.Scrape.MaxAge},
		{"router.forecast.deadline: must be shorter than router.first_byte_timeout: requests wait for it", c.Router.Forecast.Deadline < c.Router.FirstByte},
		{"router.forecast.return_hold: must be at least router.forecast.probe_interval, or the fallback ends before anything was asked", c.Router.Forecast.ReturnHold >= c.Router.Forecast.ProbeInterval},
		{"predictor.poll_interval: must be positive", c.Predictor.PollInterval > 0},
		{"predictor.poll_interval: must be at most one refit interval (trainer.schedule), or bundles are stale before they are fetched", c.Predictor.PollInterval <= interval},
		{"predictor.max_waiting: must be at least 1", c.Predictor.MaxWaiting >= 1},
		{`predictor.evaluator: want "flat" or "leaves"`, c.Predictor.Evaluator == "leaves" || c.Predictor.Evaluator == "flat"},
		{"store.retention: must be at least trainer.window, or refits find fewer rows than they ask for", c.Store.Retention >= c.Trainer.Window},
		{"trainer.schedule: refits must be at least 5 s apart", interval >= 5*time.Second},
	} {
		if !x.ok {
			return errors.New(x.wrong)
		}
	}
	return c.checkAddresses()
}

// profiles resolves the engine profiles.
func (c *Config) profiles() (byClass map[string]physics.Profile, other physics.Profile, err error) {
	if other, err = engineProfile(c.Profile); err != nil {
		return nil, other, fmt.Errorf("profile: %w", err)
	}
	byClass = map[string]physics.Profile{}
	for class, name := range c.Classes {
		if byClass[class], err = engineProfile(name); err != nil {
			return nil, other, fmt.Errorf("classes.%s: %w", class, err)
		}
	}
	return byClass, other, nil
}

// checkProfiles reports the first endpoint, or kind of endpoints to be found,
// whose profile is none that comes with the binary.
func (c *RouterConfig) checkProfiles() error {
	check := func(name, key string, i int) error {
		if name == "" {
			return nil
		}
		if _, err := physics.Named(name); err != nil {
			return fmt.Errorf("router.%s[%d].profile: %w", key, i, err)
		}
		return nil
	}
	for i := range c.Endpoints {
		if err := check(c.Endpoints[i].Profile, "endpoints", i); err != nil {
			return err
		}
	}
	for i := range c.Discovery.Kubernetes {
		if err := check(c.Discovery.Kubernetes[i].Profile, "discovery.kubernetes", i); err != nil {
			return err
		}
	}
	for i := range c.Discovery.DNS {
		if err := check(c.Discovery.DNS[i].Profile, "discovery.dns", i); err != nil {
			return err
		}
	}
	return nil
}

// route is the router's configuration as package route wants it.
func (c *Config) route() (route.Config, error) {
	byClass, other, err := c.profiles()
	r := route.Defaults()
	r.Name, r.Mode, r.Policy, r.Fallback, r.Settings = c.Router.Name, c.Router.Mode, c.Router.Policy, c.Router.Fallback, c.Router.Settings
	r.Canary = c.Router.Canary
	var wrong error
	if r.Experiment, wrong = c.Router.experiment(); err == nil {
		err = wrong
	}
	r.ForecastDeadline, r.ForecastCandidates = c.Router.Forecast.Deadline, c.Router.Forecast.Candidates
	r.ProbeInterval, r.Limits.ReturnHold = c.Router.Forecast.ProbeInterval, c.Router.Forecast.ReturnHold
	r.ScrapeMaxAge = c.Router.Scrape.MaxAge
	r.Profiles, r.DefaultProfile = byClass, other
	r.CompleteUpTo, r.CompleteShare, r.TokensPerByte = c.Router.CompleteUpTo, c.Router.CompleteShare, c.Router.TokensPerByte
	return r, err
}

// trainer is the trainer's configuration as package trainer wants it.
func (c *Config) trainer() (trainer.Config, error) {
	byClass, other, err := c.profiles()
	t := trainer.Defaults()
	t.Schedule, t.Window, t.WindowRows, t.HalfLife = c.Trainer.Schedule, c.Trainer.Window, c.Trainer.WindowRows, c.Trainer.HalfLife
	t.HeldOutShare, t.MinHeldOut, t.MinNewRows, t.QuietMost = c.Trainer.HeldOutShare, c.Trainer.MinHeldOut, c.Trainer.MinNewRows, c.Trainer.QuietMost
	t.MaxAge = c.Trainer.MaxAge
	t.DriftPoll, t.MostBytes, t.MostForecast = c.Trainer.DriftPoll, c.Trainer.MostBytes, c.Trainer.MostForecast
	t.Fit.Trees, t.Fit.Leaves, t.Fit.LearningRate, t.Fit.Threads = c.Trainer.Trees, c.Trainer.Leaves, c.Trainer.LearningRate, c.Trainer.Threads
	t.Seed = c.Trainer.Seed
	var wrong error
	if t.Engine, wrong = c.Trainer.engine(); err == nil && wrong != nil {
		err = fmt.Errorf("trainer.%w", wrong)
	}
	if t.Engine != nil {
		t.EngineName, t.OwnElse = c.Trainer.Engine, c.Trainer.LightGBM.Otherwise == ownEngine
	}
	t.Profiles, t.DefaultProfile = byClass, other
	t.Others = predictor.ReadLeaves
	return t, err
}

// configFlags are the flags every configured verb has.
type configFlags struct {
	file  string
	check bool
	also  func(*Config) error // what this verb needs of a good configuration; nil: nothing more
}

func (f *configFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "configuration file (YAML); defaults hold for what it leaves out")
	cmd.Flags().BoolVar(&f.check, "check-config", false, "check the configuration and exit: 0 when it is good, 1 naming the wrong key")
}

// load reads the configuration. done is true when only the check was asked for.
func (f *configFlags) load(cmd *cobra.Command) (c Config, log *slog.Logger, done bool, err error) {
	var data []byte
	where := "defaults"
	if f.file != "" {
		where = f.file
		if data, err = os.ReadFile(f.file); err != nil {
			return c, nil, false, fmt.Errorf("--config: %w", err)
		}
	}
	if c, err = parseConfig(data); err != nil {
		return c, nil, false, fmt.Errorf("%s: %w", where, err)
	}
	if f.also != nil {
		if err := f.also(&c); err != nil {
			return c, nil, false, fmt.Errorf("%s: %w", where, err)
		}
	}
	if f.check {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: good\n", where)
		return c, nil, true, nil
	}
	log, err = telemetry.NewLogger(cmd.ErrOrStderr(), c.Log.Level, c.Log.Format)
	return c, log, false, err
}

// databaseURL is where the database is: DATABASE_URL, which always wins.
func databaseURL() string { return os.Getenv("DATABASE_URL") }
