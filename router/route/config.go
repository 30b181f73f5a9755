package route

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// Modes.
const (
	ModeLive   = "live"   // forecasts decide when they may
	ModeCanary = "canary" // forecasts decide a drawn share of the requests
	ModeShadow = "shadow" // forecasts are logged, the matched configuration decides

	// ModeSwitchback lets two arms decide in turn, each for a block of time.
	ModeSwitchback = "switchback"
)

// Auto chooses the fallback by prefill utilisation.
const Auto = "auto"

// Config is what a Router is made of.
type Config struct {
	Name     string // of this router instance, in every row
	Mode     string
	Canary   float64 // in ModeCanary: share of the requests that forecasts may decide
	Policy   string
	Fallback string // a matched configuration, or Auto
	Settings policy.Settings

	Experiment Experiment // of ModeSwitchback

	ForecastDeadline   time.Duration
	ForecastCandidates int // how many are forecast at most; 0 means all
	ProbeInterval      time.Duration
	Limits             correction.Limits

	ScrapeMaxAge time.Duration // numbers older than this are not compared with fresh ones

	Profiles       map[string]physics.Profile // by endpoint class
	DefaultProfile physics.Profile            // of classes not listed

	CompleteUpTo  int     // rows with up to this many candidates are complete
	CompleteShare float64 // and this share of larger ones

	TokensPerByte float64 // of prompt text, until learned

	// Tracer makes the spans of decisions and forecasts; nil: none.
	Tracer *tracing.Tracer

	// Salt is a secret that hashes of prompts begin with, the same for all
	// routers that share; empty where they leave no router.
	Salt string
}

// Defaults are the documented defaults; Name and DefaultProfile are left to
// the caller.
func Defaults() Config {
	return Config{
		Mode:               ModeLive,
		Canary:             0.05,
		Policy:             policy.Predicted,
		Fallback:           Auto,
		Settings:           policy.Defaults(),
		Experiment:         DefaultExperiment(),
		ForecastDeadline:   5 * time.Millisecond,
		ForecastCandidates: 16,
		ProbeInterval:      250 * time.Millisecond,
		Limits:             correction.DefaultLimits(),
		ScrapeMaxAge:       10 * time.Second,
		CompleteUpTo:       32,
		CompleteShare:      0.01,
		TokensPerByte:      0.25,
	}
}

// Check reports the first setting that can't work, by its key.
func (c *Config) Check() error {
	switch c.Mode {
	case ModeLive, ModeCanary, ModeShadow, ModeSwitchback:
	default:
		return fmt.Errorf("mode: %q is none of %s, %s, %s and %s", c.Mode, ModeLive, ModeCanary, ModeShadow, ModeSwitchback)
	}
	if err := policy.Check(c.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if c.Fallback != Auto {
		if err := policy.CheckFallback(c.Fallback); err != nil {
			return fmt.Errorf("fallback: %w, or %s", err, Auto)
		}
	}
	if err := checkSettings(&c.Settings); err != nil {
		return err
	}
	if c.Mode == ModeSwitchback {
		if err := c.Experiment.check(); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		wrong string
		ok    bool
	}{
		{"canary: must be above 0 and below 1, the share of the requests that forecasts decide in mode canary", c.Canary > 0 && c.Canary < 1},
		{"forecast.deadline: must be positive", c.ForecastDeadline > 0},
		{"forecast.candidates: must not be negative", c.ForecastCandidates >= 0},
		{"forecast.probe_interval: must be positive", c.ProbeInterval > 0},
		{"forecast.return_hold: must be positive", c.Limits.ReturnHold > 0},
		{"scrape.max_age: must be positive", c.ScrapeMaxAge > 0},
		{"complete_up_to: must not be negative", c.CompleteUpTo >= 0},
		{"complete_share: must be from 0 to 1", c.CompleteShare >= 0 && c.CompleteShare <= 1},
		{"tokens_per_byte: must be above 0 and at most 2", c.TokensPerByte > 0 && c.TokensPerByte <= mostPerByte},
	} {
		if !x.ok {
			return errors.New(x.wrong)
		}
	}
	if err := c.DefaultProfile.Check(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	for class, p := range c.Profiles {
		if err := p.Check(); err != nil {
			return fmt.Errorf("classes.%s: %w", class, err)
		}
	}
	return nil
}

// checkSettings reports the first of the policies' numbers that can't work, by its
// key.
func checkSettings(s *policy.Settings) error {
	for _, x := range []struct {
		wrong string
		ok    bool
	}{
		{"settings.exploration: must be from 0 to 1", s.Exploration >= 0 && s.Exploration <= 1},
		{"settings.exploration_harm: must be a number from 0, in seconds", notNegative(float64(s.ExplorationHarm))},
		{"settings.sticky_share: must be above 0 and at most 1", s.StickyShare > 0 && s.StickyShare <= 1},
		{"settings.sticky_saved: must be a number from 0, in seconds", notNegative(float64(s.StickySaved))},
		{"settings.max_ttft_penalty: must be a number from 0, in seconds", notNegative(float64(s.MaxTTFTPenalty))},
		{"settings.predicted_ttft_penalty: must be a number from 0, in seconds", notNegative(float64(s.PredictedPenalty))},
		{"settings.tokens_per_request: must be a number from 0", notNegative(s.TokensPerRequest)},
		{"settings.default_peak_prefill_throughput: must be positive", s.DefaultThroughput > 0 && notNegative(s.DefaultThroughput)},
		{"settings.eviction_weight: must be a number from 0", notNegative(s.EvictionWeight)},
		{"settings.headroom_weight: must be a number from 0", notNegative(s.HeadroomWeight)},
		{"settings.prefill_externality: must be a number from 0", notNegative(s.PrefillExternality)},
		{"settings.queue_externality: must be a number from 0", notNegative(s.QueueExternality)},
		{"settings.eviction_externality: must be a number from 0", notNegative(s.EvictionExternality)},
		{"settings.decode_externality: must be a number from 0", notNegative(s.DecodeExternality)},
		{"settings.impatience: must be a number from 0", notNegative(s.Impatience)},
		{"settings.shed_excess: must be a number from 0, such as 0.5 for 50 %", notNegative(s.ShedExcess)},
	} {
		if !x.ok {
			return errors.New(x.wrong)
		}
	}
	return nil
}

// notNegative reports whether x is a finite number from 0; NaN is not.
func notNegative(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
