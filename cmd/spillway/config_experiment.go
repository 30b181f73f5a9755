package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/router/design"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// ExperimentConfig is what mode switchback tries: the same for all routers of a
// fleet.
type ExperimentConfig struct {
	Name   string        `yaml:"name"`    // in every row of it
	Start  string        `yaml:"start"`   // RFC 3339; of the first block
	Block  time.Duration `yaml:"block"`   // for which one arm decides; longer than requests drain and caches turn over
	BurnIn time.Duration `yaml:"burn_in"` // of each block, that is not judged
	Pairs  int           `yaml:"pairs"`   // of blocks, one for each arm
	Seed   uint64        `yaml:"seed"`    // of the order within pairs
	Arms   []ArmConfig   `yaml:"arms"`    // two, the baseline first
}

// ArmConfig is one arm: what it leaves out is as in the router's own configuration.
type ArmConfig struct {
	Name     string             `yaml:"name"`     // by default its policy, with what else it changes
	Policy   string             `yaml:"policy"`   // as router.policy
	Fallback string             `yaml:"fallback"` // as router.fallback
	Settings map[string]float64 `yaml:"settings"` // those of router.settings that it changes
}

func defaultExperiment() ExperimentConfig {
	d := route.DefaultExperiment().Design
	return ExperimentConfig{Block: d.Block, BurnIn: d.BurnIn, Pairs: d.Pairs, Seed: d.Seed, Arms: []ArmConfig{}}
}

// experiment is the router's experiment as package route wants it; nothing is
// looked at in other modes than switchback.
func (c *RouterConfig) experiment() (route.Experiment, error) {
	e := route.Experiment{}
	if c.Mode != route.ModeSwitchback {
		return route.DefaultExperiment(), nil
	}
	x := &c.Experiment
	if len(x.Arms) != 2 {
		return e, fmt.Errorf("router.experiment.arms: has %d; mode switchback wants two, the baseline first", len(x.Arms))
	}
	e.Design = design.Switchback{Name: x.Name, Block: x.Block, BurnIn: x.BurnIn, Pairs: x.Pairs, Seed: x.Seed}
	if x.Start != "" {
		start, err := time.Parse(time.RFC3339Nano, x.Start)
		if err != nil {
			return e, fmt.Errorf("router.experiment.start: %q is no time such as 2026-12-01T09:00:00Z", x.Start)
		}
		e.Design.Start = start.UTC()
	}
	for i := range x.Arms {
		a := &x.Arms[i]
		settings, err := a.settings(c.Settings)
		if err != nil {
			return e, fmt.Errorf("router.experiment.arms[%d].settings: %w", i, err)
		}
		e.Arms[i] = route.Arm{Policy: cmp.Or(a.Policy, c.Policy), Fallback: cmp.Or(a.Fallback, c.Fallback), Settings: settings}
		e.Design.Arms[i] = a.name(c)
	}
	return e, nil
}

// settings are those of the router, with what the arm changes.
func (a *ArmConfig) settings(s policy.Settings) (policy.Settings, error) {
	known := settingKeys()
	for _, key := range slices.Sorted(maps.Keys(a.Settings)) {
		if !slices.Contains(known, key) {
			return s, fmt.Errorf("no key %q in router.settings: want one of %s", key, strings.Join(known, ", "))
		}
	}
	text, err := json.Marshal(a.Settings)
	if err != nil {
		return s, fmt.Errorf("want numbers: %w", err)
	}
	return s, json.Unmarshal(text, &s)
}

// name is how rows name the arm.
func (a *ArmConfig) name(c *RouterConfig) string {
	if a.Name != "" {
		return a.Name
	}
	parts := []string{cmp.Or(a.Policy, c.Policy)}
	if a.Fallback != "" {
		parts = append(parts, "fallback="+a.Fallback)
	}
	for _, key := range slices.Sorted(maps.Keys(a.Settings)) {
		parts = append(parts, fmt.Sprintf("%s=%v", key, a.Settings[key]))
	}
	return strings.Join(parts, ",")
}
