package main

import (
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/trainer/learn"
	"github.com/spillway-llm/spillway/trainer/lightgbm"
)

// LightGBMConfig is how an installed LightGBM is run, for trainer.engine:
// lightgbm.
type LightGBMConfig struct {
	Path      string        `yaml:"path"`      // the program, or a script that runs it on every machine with the argument it is given
	Machines  string        `yaml:"machines"`  // file with a line "address port" for each machine that works on a forest; empty: this one alone
	Directory string        `yaml:"directory"` // where its files are written, which all machines must see; empty: the system's temporary directory
	Timeout   time.Duration `yaml:"timeout"`   // of one run, of which a refit needs up to 14
	Otherwise string        `yaml:"otherwise"` // when it fails: refuse the refit, or let spillway grow the forests
}

// Who grows forests, and what becomes of a refit whose engine fails.
const (
	ownEngine      = "spillway"
	lightGBMEngine = "lightgbm"
	refuseRefit    = "refuse"
)

func defaultLightGBM() LightGBMConfig {
	return LightGBMConfig{Path: "lightgbm", Timeout: 10 * time.Minute, Otherwise: refuseRefit}
}

func (c *LightGBMConfig) command() *lightgbm.Command {
	return &lightgbm.Command{Path: c.Path, Machines: c.Machines, Directory: c.Directory, Timeout: c.Timeout}
}

// engine is what grows the p50 heads; nil is the trainer's own.
func (c *TrainerConfig) engine() (learn.Engine, error) {
	switch c.Engine {
	case ownEngine:
		return nil, nil
	case lightGBMEngine:
	default:
		return nil, fmt.Errorf("engine: %q, want %q or %q", c.Engine, ownEngine, lightGBMEngine)
	}
	if o := c.LightGBM.Otherwise; o != refuseRefit && o != ownEngine {
		return nil, fmt.Errorf("lightgbm.otherwise: %q, want %q or %q", o, refuseRefit, ownEngine)
	}
	command := c.LightGBM.command()
	if err := command.Check(); err != nil {
		return nil, fmt.Errorf("lightgbm.%w", err)
	}
	return command.Train, nil
}

// engineInstalled reports what a configured engine lacks on this machine.
func (c *TrainerConfig) engineInstalled() error {
	if c.Engine != lightGBMEngine {
		return nil
	}
	if err := c.LightGBM.command().Installed(); err != nil {
		return fmt.Errorf("trainer.lightgbm.%w", err)
	}
	return nil
}
