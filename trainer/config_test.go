package trainer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer"
)

func TestCheckNamesTheKey(t *testing.T) {
	good := small(t)
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for key, change := range map[string]func(*trainer.Config){
		"schedule: \"hourly\"":           func(c *trainer.Config) { c.Schedule = "hourly" },
		"schedule: \"0 0 30 2 *\" never": func(c *trainer.Config) { c.Schedule = "0 0 30 2 *" },
		"window: ":                       func(c *trainer.Config) { c.Window = 0 },
		"window_rows: ":                  func(c *trainer.Config) { c.WindowRows = 99 },
		"half_life: ":                    func(c *trainer.Config) { c.HalfLife = 0 },
		"held_out_share: ":               func(c *trainer.Config) { c.HeldOutShare = 0.6 },
		"min_held_out: must be at least": func(c *trainer.Config) { c.MinHeldOut = 19 },
		"min_held_out: can't be":         func(c *trainer.Config) { c.WindowRows, c.MinHeldOut = 1000, 251 },
		"min_new_rows: ":                 func(c *trainer.Config) { c.MinNewRows = -1 },
		"quiet_most: ":                   func(c *trainer.Config) { c.QuietMost = -1 },
		"trees: ":                        func(c *trainer.Config) { c.Fit.Trees = 0 },
		"leaves: ":                       func(c *trainer.Config) { c.Fit.Leaves = 1 },
		"learning_rate: ":                func(c *trainer.Config) { c.Fit.LearningRate = 2 },
		"threads: ":                      func(c *trainer.Config) { c.Fit.Threads = 0 },
		"profile ":                       func(c *trainer.Config) { c.DefaultProfile = physics.Profile{} },
		"class slow: ":                   func(c *trainer.Config) { c.Profiles = map[string]physics.Profile{"slow": {}} },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("error %v, want it to begin with %q", err, key)
		}
	}
}

func TestIntervalIsTheLongerOfTheNextTwo(t *testing.T) {
	at := time.Date(2026, 3, 13, 17, 0, 1, 0, time.UTC) // a Friday
	for schedule, want := range map[string]time.Duration{
		"*/10 * * * *":   10 * time.Minute,
		"@every 20s":     20 * time.Second,
		"0 9-17 * * 1-5": 64*time.Hour - time.Second, // until Monday at 9, then hourly
		"0 0 * * *":      24 * time.Hour,
		"5,10 17 * * *":  5 * time.Minute,
	} {
		c := small(t)
		c.Schedule = schedule
		got, err := c.Interval(at)
		if err != nil || got != want {
			t.Errorf("%s: interval %v %v, want %v", schedule, got, err, want)
		}
	}
}

func TestLongestIntervalIsOfTheWholeSchedule(t *testing.T) {
	for schedule, want := range map[string]time.Duration{
		"*/10 * * * *":       10 * time.Minute,
		"@every 20s":         20 * time.Second,
		"0 9-17 * * 1-5":     64 * time.Hour, // from Friday at 17 to Monday at 9
		"* 9-17 * * 1-5":     63*time.Hour + time.Minute,
		"0 8,9 * * *":        23 * time.Hour,
		"0 0 * * 0":          7 * 24 * time.Hour,
		"0 0 1 * *":          31 * 24 * time.Hour,
		"0 0 29 2 *":         4*365*24*time.Hour + 24*time.Hour,
		"CRON_TZ=UTC @daily": 24 * time.Hour,
	} {
		c := small(t)
		c.Schedule = schedule
		got, err := c.LongestInterval()
		if err != nil || got != want {
			t.Errorf("%s: longest interval %v %v, want %v", schedule, got, err, want)
		}
		c.MaxAge = 2*want - time.Second
		if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), "max_age: ") {
			t.Errorf("%s: max_age %v: %v", schedule, c.MaxAge, err)
		}
		c.MaxAge = 2 * want
		if err := c.Check(); err != nil {
			t.Errorf("%s: max_age %v: %v", schedule, c.MaxAge, err)
		}
	}
}
