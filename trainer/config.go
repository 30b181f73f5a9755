package trainer

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Config says what a refit learns from and what it must reach.
type Config struct {
	Schedule string // cron expression, or "@every 20s"

	Window       time.Duration // how far back rows are taken
	WindowRows   int           // newest rows used at most
	HalfLife     time.Duration // age at which a row weighs half
	HeldOutShare float64       // of the rows, the latest, that judge
	MinHeldOut   int           // fewest rows with a TTFT that may judge
	MinNewRows   int           // fewest rows since the last refit that make another worth while
	QuietMost    time.Duration // how long a bundle may be extended for want of new rows

	Fit  gbdt.Options // of every head; objective, quantile, signs, seed and threads are set here
	Seed uint64

	Profiles       map[string]physics.Profile // by endpoint class: the coefficients a bundle carries
	DefaultProfile physics.Profile
}

// Defaults are the documented defaults; DefaultProfile is left to the caller.
func Defaults() Config {
	fit := gbdt.Defaults()
	fit.Trees = 200
	fit.Leaves = 15
	fit.LearningRate = 0.06
	fit.L2 = 2
	fit.MinLeafRows = 20
	fit.Threads = 1
	return Config{
		Schedule:     "*/10 * * * *",
		Window:       7 * 24 * time.Hour,
		WindowRows:   200_000,
		HalfLife:     24 * time.Hour,
		HeldOutShare: 0.25,
		MinHeldOut:   100,
		MinNewRows:   50,
		QuietMost:    24 * time.Hour,
		Fit:          fit,
		Seed:         1,
	}
}

// Check reports the first setting that can't work, by its key.
func (c *Config) Check() error {
	if _, err := c.schedule(); err != nil {
		return err
	}
	for _, x := range []struct {
		key string
		ok  bool
	}{
		{"window: must be positive", c.Window > 0},
		{"half_life: must be positive", c.HalfLife > 0},
		{"window_rows: must be at least 100", c.WindowRows >= 100},
		{"held_out_share: must be above 0 and at most 0.5", c.HeldOutShare > 0 && c.HeldOutShare <= 0.5},
		{"min_held_out: must be at least 20", c.MinHeldOut >= 20},
		{"min_new_rows: must not be negative", c.MinNewRows >= 0},
		{"quiet_most: must not be negative", c.QuietMost >= 0},
	} {
		if !x.ok {
			return fmt.Errorf("%s", x.key)
		}
	}
	return c.DefaultProfile.Check()
}

func (c *Config) schedule() (cron.Schedule, error) {
	s, err := cron.ParseStandard(c.Schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule: %q is no cron expression (want one such as \"*/10 * * * *\" or \"@every 20s\"): %w", c.Schedule, err)
	}
	return s, nil
}

// Interval is the time between two refits, and a third of how long a bundle
// may be used after it was validated.
func (c *Config) Interval(now time.Time) (time.Duration, error) {
	s, err := c.schedule()
	if err != nil {
		return 0, err
	}
	next := s.Next(now)
	return s.Next(next).Sub(next), nil
}

// maxAgeIntervals is how many refit intervals a bundle may be used after it
// was validated.
const maxAgeIntervals = 3

// Coefficients are those of every class, for the bundle.
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
