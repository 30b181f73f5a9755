package trainer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/gbdt"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// Config says what a refit learns from and what it must reach.
type Config struct {
	Schedule string // cron expression, or "@every 20s"

	Window       time.Duration // how far back rows are taken
	WindowRows   int           // newest rows used at most
	HalfLife     time.Duration // age at which a row weighs half
	HeldOutShare float64       // of the rows, the latest, that judge
	MinHeldOut   int           // fewest rows with a TTFT, and with a TPOT where they have one, that may judge
	MinNewRows   int           // fewest rows since the last judgement that make another worth while
	QuietMost    time.Duration // after its last judgement, how long a bundle may be extended for want of new rows
	MaxAge       time.Duration // how long a bundle may be used after it was validated; 0: 3 refit intervals

	MostBytes    int           // of an encoded bundle
	MostForecast time.Duration // that 16 candidates may take to forecast
	DriftPoll    time.Duration // how often new outcomes are looked at for drift; 0 is never

	Fit  gbdt.Options // of every head; its objective, quantile, seed and validation are set by the trainer
	Seed uint64

	// Engine, when set, grows the forests of the p50 heads, and EngineName is what
	// verdicts call it. A refit whose engine fails is refused, or with OwnElse
	// fitted without it.
	Engine     learn.Engine
	EngineName string
	OwnElse    bool

	Profiles       map[string]physics.Profile // by endpoint class: the coefficients a bundle carries
	DefaultProfile physics.Profile

	// Others reads those forests of an imported bundle that package forest does
	// not evaluate. Without it such a bundle, when served, is not judged.
	Others bundle.Reader
}

// Defaults are the documented defaults; DefaultProfile is left to the caller.
func Defaults() Config {
	fit := learn.Defaults()
	return Config{
		Schedule:     "*/10 * * * *",
		Window:       7 * 24 * time.Hour,
		WindowRows:   200_000,
		HalfLife:     fit.HalfLife,
		HeldOutShare: 0.25,
		MinHeldOut:   100,
		MinNewRows:   50,
		QuietMost:    24 * time.Hour,
		MostBytes:    16 << 20,
		MostForecast: 2 * time.Millisecond,
		DriftPoll:    30 * time.Second,
		Fit:          fit.Forest,
		Seed:         fit.Seed,
	}
}

// Settings are those of a fit.
func (c *Config) Settings() learn.Settings {
	return learn.Settings{Forest: c.Fit, HalfLife: c.HalfLife, Seed: c.Seed, Engine: c.Engine}
}

// Check reports the first setting that can't work, by its key.
func (c *Config) Check() error {
	interval, err := c.LongestInterval()
	if err != nil {
		return err
	}
	most := c.HeldOutShare * float64(c.WindowRows)
	for _, x := range []struct {
		key string
		ok  bool
	}{
		{"window: must be positive", c.Window > 0},
		{"half_life: must be positive", c.HalfLife > 0},
		{"window_rows: must be at least 100", c.WindowRows >= 100},
		{"held_out_share: must be above 0 and at most 0.5", c.HeldOutShare > 0 && c.HeldOutShare <= 0.5},
		{"min_held_out: must be at least 20", c.MinHeldOut >= 20},
		{fmt.Sprintf("min_held_out: can't be reached, held_out_share of window_rows is %.0f", most), float64(c.MinHeldOut) <= most},
		{"min_new_rows: must not be negative", c.MinNewRows >= 0},
		{"quiet_most: must not be negative", c.QuietMost >= 0},
		{fmt.Sprintf("max_age: must be at least 2 refit intervals, here %s, so that one refit may fail; or 0 for 3 of them", 2*interval), c.MaxAge == 0 || c.MaxAge >= 2*interval},
		{"most_bytes: must be at least 1", c.MostBytes >= 1},
		{"most_forecast: must be positive", c.MostForecast > 0},
		{"drift_poll: must not be negative", c.DriftPoll >= 0},
		{"trees: must be at least 1", c.Fit.Trees >= 1},
		{"leaves: must be at least 2", c.Fit.Leaves >= 2},
		{"learning_rate: must be above 0 and at most 1", c.Fit.LearningRate > 0 && c.Fit.LearningRate <= 1},
		{"threads: must be at least 1", c.Fit.Threads >= 1},
	} {
		if !x.ok {
			return errors.New(x.key)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(c.Profiles)) {
		if err := c.Profiles[class].Check(); err != nil {
			return fmt.Errorf("class %s: %w", class, err)
		}
	}
	return c.DefaultProfile.Check()
}

func (c *Config) schedule() (cron.Schedule, error) {
	s, err := cron.ParseStandard(c.Schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule: %q is no cron expression (want one such as \"*/10 * * * *\" or \"@every 20s\"): %w", c.Schedule, err)
	}
	// Next is zero when it finds no time within five years.
	if s.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("schedule: %q never comes: want a time that exists, such as \"*/10 * * * *\"", c.Schedule)
	}
	return s, nil
}

// Interval is the time between two refits, and a third of how long a bundle
// may be used after it was validated. Where the schedule is uneven it is the
// longer one of the time to the next refit and that between the next two, so
// that a bundle of Friday evening lives until Monday's refit.
func (c *Config) Interval(now time.Time) (time.Duration, error) {
	s, err := c.schedule()
	if err != nil {
		return 0, err
	}
	next := s.Next(now)
	return max(next.Sub(now), s.Next(next).Sub(next)), nil
}

// LongestInterval is the longest time between two refits in the weeks of the
// schedule. Unlike Interval it does not depend on when it is asked, so that a
// configuration that was good once is good whenever it is read.
func (c *Config) LongestInterval() (time.Duration, error) {
	s, err := c.schedule()
	if err != nil {
		return 0, err
	}
	const week, least = 7 * 24 * time.Hour, 3
	from := time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC) // a Monday; in UTC all days are as long
	longest := time.Duration(0)
	at := s.Next(from)
	for n := 0; n < least || at.Sub(from) <= week; n++ {
		next := s.Next(at)
		if next.IsZero() {
			break // it comes less often than every five years
		}
		if longest = max(longest, next.Sub(at)); every(s) {
			break
		}
		at = next
	}
	return longest, nil
}

// every reports whether a schedule is even: "@every 20s".
func every(s cron.Schedule) bool {
	_, even := s.(cron.ConstantDelaySchedule)
	return even
}

// maxAgeIntervals is how many refit intervals a bundle may be used after it
// was validated, unless MaxAge says how long.
const maxAgeIntervals = 3

// maxAge is how long a bundle may be used after it was validated, with so long
// between two refits.
func (c *Config) maxAge(interval time.Duration) time.Duration {
	if c.MaxAge > 0 {
		return c.MaxAge
	}
	return maxAgeIntervals * interval
}

// coefficients are those of every class, for the bundle.
func (c *Config) coefficients(classes []string) map[string]physics.Coefficients {
	out := map[string]physics.Coefficients{}
	for _, class := range classes {
		p, ok := c.Profiles[class]
		if !ok {
			p = c.DefaultProfile
		}
		out[class] = p.Coefficients
	}
	return out
}
