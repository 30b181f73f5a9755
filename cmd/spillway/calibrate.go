package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/calibrate/measure"
	"github.com/spillway-llm/spillway/internal/loadgen"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

func calibrateCommand() *cobra.Command {
	var o calibrateOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure a live engine and write its profile",
		Long: `Measure one live engine over the OpenAI API and write the profile that routing
starts from: what a step, a prompt token, its context, a decoding sequence and
its cache cost, and the peak prefill throughput.

An idle engine is needed: one that serves others is left alone, before and
during the measurement, by what its metrics page says of running and waiting
requests and of generated tokens. Ask the engine itself, not a router.

Prompts of several lengths, random words that no cache holds, give T(B), the
median time to the first token, and the peak prefill throughput B/T(B) at the
token budget of one step (the recipe of the published matrix) as well as by a
quadratic fit of T. Batches of several sizes and contexts give the time between
tokens while all of a batch decode and none prefills. Both are fitted together.
How many tokens a byte of English makes is reported for router.tokens_per_byte.

The defaults take about 0.7 million tokens, a minute on an engine as fast as two
H100 with a 32B LLM. Most engines tell the size of their KV cache, few their
token budget (vLLM's max_num_batched_tokens) and batch limit (max_num_seqs):
give what yours was started with, or prompts near the budget are judged wrongly.

Every verb that takes a profile takes the file of --out: name it in "classes" of
the configuration. With --store it goes to the store at DATABASE_URL, where
routers and trainers find it, when they start, for a class that "classes" does
not name.`,
		Example: `  spillway calibrate --url http://10.0.0.1:8000 --max-batched-tokens 8192 --hardware 2xH100 --out h100.json
  spillway calibrate --url https://engine.example --ca ca.pem --api-key-env ENGINE_KEY --model qwen3-32b
  DATABASE_URL=postgres://... spillway calibrate --url http://10.0.0.1:8000 --class h100-tp2 --store
  spillway calibrate --url http://10.0.0.1:8000 --sizes 512,2048,8192 --batches 1,16 --json
  spillway fleet --endpoints 1 --port 9000   # a simulated engine to try it on`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := o.run(cmd)
			if result == nil {
				return err
			}
			// What was measured is shown even if it could not be kept.
			for _, note := range result.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "spillway:", note)
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return errors.Join(err, enc.Encode(result))
			}
			return errors.Join(err, result.print(cmd.OutOrStdout()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "base URL of the engine, with or without /v1")
	f.StringVar(&o.model, "model", "", "LLM to ask for (default: the only one that is served)")
	f.StringVar(&o.api, "api", "completions", "completions, or chat where the engine has no completions")
	f.StringVar(&o.keyEnv, "api-key-env", "OPENAI_API_KEY", "environment variable that holds the key, if one is needed")
	f.StringVar(&o.ca, "ca", "", "PEM file of certificate authorities to trust beside the system's")
	f.StringVar(&o.metricsPath, "metrics-path", "", "path of the metrics page (default /metrics; trtllm-serve has /prometheus/metrics)")
	f.BoolVar(&o.force, "force", false, "measure an engine that is busy, or does not tell: the profile describes what its traffic leaves")
	f.IntSliceVar(&o.wish.Sizes, "sizes", nil, "prompt lengths in tokens (default: shares of the token budget from 1/16 to 4)")
	f.IntVar(&o.wish.Repeats, "repeats", 0, "prompts of each length (default 5)")
	f.IntSliceVar(&o.wish.Batches, "batches", nil, "sequences that decode together, each with a short and a long context (default 1,8,32)")
	f.IntVar(&o.wish.Rounds, "rounds", 0, "times each batch is measured (default 2)")
	f.IntVar(&o.wish.Output, "output", 0, "tokens that each sequence of a batch generates (default 64)")
	f.IntVar(&o.limits.MaxBatchedTokens, "max-batched-tokens", 0, "token budget of one engine step (default 8192)")
	f.IntVar(&o.limits.MaxNumSeqs, "max-num-seqs", 0, "most sequences in one batch (default: what the engine tells, else 256)")
	f.IntVar(&o.limits.KVCapacityTokens, "kv-capacity-tokens", 0, "tokens the KV cache holds (default: what the engine tells)")
	f.IntVar(&o.limits.BlockTokens, "block-tokens", 0, "tokens of one cache block (default: what the engine tells, else 16)")
	f.StringVar(&o.hardware, "hardware", "", `what the engine runs on, such as "2xH100": for the profile's source and the published value beside it`)
	f.StringVar(&o.name, "name", "", "name of the profile (default: made from the LLM and --hardware)")
	f.StringVar(&o.class, "class", "", "class of the endpoint, for --store")
	f.BoolVar(&o.store, "store", false, "keep the profile in the store at DATABASE_URL")
	f.StringVar(&o.out, "out", "", "write the profile to this file")
	f.IntVar(&o.maxTokens, "max-tokens", 1_000_000, "most tokens to send and ask for, all together")
	f.DurationVar(&o.maxTime, "max-time", 15*time.Minute, "give up after this long")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "of one request")
	f.Uint64Var(&o.seed, "seed", 0, "of the prompts; one used before may find them in a cache (default: a new one)")
	f.BoolVar(&asJSON, "json", false, "print JSON, with every measurement")
	return cmd
}

// calibrateOptions is what a user asks for.
type calibrateOptions struct {
	url, model, api, keyEnv, ca, metricsPath string
	force                                    bool
	wish                                     calibrate.Wish
	limits                                   fit.Limits // 0 is not given
	hardware, name, class, out               string
	store                                    bool
	maxTokens                                int
	maxTime, timeout                         time.Duration
	seed                                     uint64
}

// run measures, fits and keeps the profile. With an error and a result, the
// profile could not be kept.
func (o *calibrateOptions) run(cmd *cobra.Command) (*calibrated, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	var store *featurestore.Store
	if o.store { // before minutes of measuring
		if store, err = calibrationStore(cmd); err != nil {
			return nil, err
		}
		defer store.Close()
	}
	errLate := fmt.Errorf("--max-time: it took longer than %v", o.maxTime)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), o.maxTime, errLate)
	defer cancel()
	r, limits, err := o.measure(ctx, config)
	if err != nil {
		if context.Cause(ctx) == errLate {
			return nil, errLate
		}
		return nil, err
	}
	what := fmt.Sprintf("%s, measured at %s by spillway calibrate on %s", r.title(o.hardware), config.URL, r.At.Format(time.DateOnly))
	name := cmp.Or(o.name, profileName(r.LLM[strings.LastIndexByte(r.LLM, '/')+1:]+" "+cmp.Or(o.hardware, r.Engine, "calibrated")))
	if r.Profile, err = r.Fitted.Profile(name, what, limits); err != nil {
		return nil, err
	}
	if o.out != "" {
		err = writeProfile(o.out, r.Profile)
	}
	if store != nil {
		text, wrong := json.Marshal(r.Profile)
		if wrong == nil {
			r.Stored, wrong = store.AddCalibration(cmd.Context(), featurestore.Calibration{LLM: r.LLM, Class: o.class, Source: r.Profile.Source, Profile: text})
		}
		err = errors.Join(err, wrong)
	}
	return r, err
}

// config is what the measuring needs of the flags.
func (o *calibrateOptions) config() (measure.Config, error) {
	c := measure.Config{
		URL: o.url, LLM: o.model, MetricsPath: o.metricsPath, Force: o.force,
		Seed: cmp.Or(o.seed, rand.Uint64()), Timeout: o.timeout, MaxTokens: o.maxTokens,
	}
	if o.keyEnv != "" {
		c.Key = os.Getenv(o.keyEnv)
	}
	switch o.api {
	case "chat":
		c.API = openai.Chat
	case "completions":
		c.API = openai.Completions
	default:
		return c, fmt.Errorf("--api: %q is neither chat nor completions", o.api)
	}
	u, err := url.Parse(o.url)
	switch {
	case o.url == "":
		return c, errors.New("--url is needed: the base URL of one engine, such as http://10.0.0.1:8000")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return c, fmt.Errorf("--url: %q: want one such as http://10.0.0.1:8000", o.url)
	case o.metricsPath != "" && !strings.HasPrefix(o.metricsPath, "/"):
		return c, fmt.Errorf("--metrics-path: %q does not begin with /", o.metricsPath)
	case o.maxTokens < 1 || o.maxTime <= 0 || o.timeout <= 0:
		return c, errors.New("--max-tokens, --max-time and --timeout must be positive")
	case o.class != "" && !o.store:
		return c, errors.New("--class names the endpoint's class in the store: it needs --store")
	}
	for _, x := range []struct {
		flag  string
		value int
	}{
		{"--max-batched-tokens", o.limits.MaxBatchedTokens}, {"--max-num-seqs", o.limits.MaxNumSeqs},
		{"--kv-capacity-tokens", o.limits.KVCapacityTokens}, {"--block-tokens", o.limits.BlockTokens},
	} {
		if x.value < 0 {
			return c, fmt.Errorf("%s is %d: want a positive number", x.flag, x.value)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256 // all sequences of a batch
	transport.DisableCompression = true
	if o.ca != "" {
		pool, err := authorities(o.ca)
		if err != nil {
			return c, fmt.Errorf("--ca: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	c.Client = &http.Client{Transport: transport}
	return c, nil
}

// authorities are the system's and those of a PEM file.
func authorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return pool, nil
}

// calibrationStore opens a store that can take a calibration.
func calibrationStore(cmd *cobra.Command) (*featurestore.Store, error) {
	store, err := askStore(cmd)
	if err != nil {
		return nil, err
	}
	at, latest, err := store.Version(cmd.Context())
	if err == nil && at < latest {
		err = fmt.Errorf(`--store: the database's tables are of version %d, want %d: run "spillway store migrate"`, at, latest)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// measure takes the measurements and fits them.
func (o *calibrateOptions) measure(ctx context.Context, config measure.Config) (*calibrated, fit.Limits, error) {
	var bar *progressbar.ProgressBar
	config.Progress = func(done int, next string) {
		if bar != nil {
			bar.Describe(next)
			_ = bar.Set(done) // a bar that cannot be drawn is no reason to fail
		}
	}
	endpoint, err := measure.Look(ctx, config)
	if err != nil {
		return nil, fit.Limits{}, hinted(config.URL, err)
	}
	told := endpoint.Engine
	known := told
	known.Limits = fit.Limits{
		MaxBatchedTokens: cmp.Or(o.limits.MaxBatchedTokens, told.MaxBatchedTokens, 8192),
		MaxNumSeqs:       cmp.Or(o.limits.MaxNumSeqs, told.MaxNumSeqs, 256),
		KVCapacityTokens: cmp.Or(o.limits.KVCapacityTokens, told.KVCapacityTokens),
		BlockTokens:      cmp.Or(o.limits.BlockTokens, told.BlockTokens, 16),
	}
	if known.KVCapacityTokens == 0 {
		return nil, known.Limits, errors.New("--kv-capacity-tokens is needed: the engine's metrics do not tell how many tokens its KV cache holds")
	}
	plan, err := calibrate.NewPlan(known, o.wish)
	if err != nil {
		return nil, known.Limits, fmt.Errorf("--%w", err) // parts of a wish are named as the flags
	}
	if need := plan.Tokens(); need > o.maxTokens {
		return nil, known.Limits, fmt.Errorf("--max-tokens: %d tokens are planned and %d allowed; fewer --sizes, --repeats, --batches or --rounds need less", need, o.maxTokens)
	}
	if w := loadgen.Terminal(); w != nil {
		bar = progressbar.NewOptions(plan.Tokens(), progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(30),
			progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionClearOnFinish())
	}
	r := &calibrated{URL: config.URL, LLM: endpoint.LLM, Engine: endpoint.Owner, At: time.Now().UTC().Truncate(time.Second), Notes: []string{}}
	r.Measurements, err = endpoint.Run(ctx, plan)
	if bar != nil {
		_ = bar.Finish()
	}
	if err != nil {
		return nil, known.Limits, hinted(config.URL, err)
	}
	if r.Fitted, err = calibrate.Fit(r.Measurements, known.MaxBatchedTokens); err != nil {
		return nil, known.Limits, fmt.Errorf("--url %s: %w", config.URL, err)
	}
	near, same := calibrate.Nearest(r.LLM, r.Engine, o.hardware, r.Peak.Throughput)
	r.Published = published{near, same, r.Peak.Throughput / near.Throughput}
	r.note(o.limits, told.Limits, known.Limits)
	return r, known.Limits, nil
}

// hints says what a user may do about an error.
var hints = []struct {
	err  error
	hint string
}{
	{measure.ErrBusy, "take its traffic away, or measure what that leaves with --force"},
	{measure.ErrUnwatched, "--metrics-path says where its metrics are, --force measures without them"},
	{measure.ErrKey, "--api-key-env names the environment variable that holds the key"},
	{measure.ErrCertificate, "--ca names a file with the authority to trust"},
	{measure.ErrLLM, "--model says which"},
	{measure.ErrAPI, "want the base URL of one engine; --api chat where it has no completions"},
	{measure.ErrTokens, "--max-tokens allows more"},
	{measure.ErrSteps, "--output makes answers longer"},
	{measure.ErrTimeout, "--timeout allows more for one request"},
}

func hinted(url string, err error) error {
	err = fmt.Errorf("--url %s: %w", url, err)
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return fmt.Errorf("%w; %s", err, h.hint)
		}
	}
	return err
}

// writeProfile writes a file that every verb with a profile takes.
func writeProfile(file string, p physics.Profile) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
