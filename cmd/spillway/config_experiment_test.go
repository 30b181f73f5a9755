package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/design"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

const springConfig = `
router:
  mode: switchback
  policy: predicted
  fallback: token-load
  settings: {exploration: 0.05}
  experiment:
    name: spring
    start: 2026-12-01T10:00:00+01:00
    arms:
    - {policy: token-load, settings: {max_ttft_penalty: 5}}
    - {name: bold, fallback: active-request}
`

// What an arm leaves out is the router's own.
func TestExperimentConfig(t *testing.T) {
	c, err := parseConfig([]byte(springConfig))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.route()
	if err != nil {
		t.Fatal(err)
	}
	settings := policy.Defaults()
	settings.Exploration = 0.05
	want := route.Experiment{
		Design: design.Switchback{
			Name: "spring", Start: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC), Block: 15 * time.Minute, BurnIn: 5 * time.Minute, Pairs: 48, Seed: 1,
			Arms: [2]string{"token-load,max_ttft_penalty=5", "bold"},
		},
		Arms: [2]route.Arm{
			{Policy: policy.TokenLoad, Fallback: policy.TokenLoad, Settings: settings},
			{Policy: policy.Predicted, Fallback: policy.ActiveRequest, Settings: settings},
		},
	}
	want.Arms[0].Settings.MaxTTFTPenalty = 5
	if got.Experiment != want {
		t.Errorf("%+v\nwant %+v", got.Experiment, want)
	}
}

func TestWrongExperimentConfig(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"name: spring", "name: ''", "router.experiment.name: is empty"},
		{"start: 2026-12-01T10:00:00+01:00", "start: tomorrow", `router.experiment.start: "tomorrow" is no time such as`},
		{"start: 2026-12-01T10:00:00+01:00", "block: 1h", "router.experiment.start: is missing"},
		{"name: spring", "name: spring\n    block: 5m", "router.experiment.burn_in: 5m0s leaves less than half of a block of 5m0s"},
		{"name: spring", "name: spring\n    pairs: 0", "router.experiment.pairs: 0 is not from 1"},
		{"- {name: bold, fallback: active-request}", "", "router.experiment.arms: has 1; mode switchback wants two, the baseline first"},
		{"- {name: bold, fallback: active-request}", "- {policy: token-load, settings: {max_ttft_penalty: 5}}", `router.experiment.arms: both are named "token-load,max_ttft_penalty=5"`},
		{"fallback: active-request", "fallback: luck", `router.experiment.arms[1].fallback: no fallback "luck"`},
		{"max_ttft_penalty: 5", "patience: 5", `router.experiment.arms[0].settings: no key "patience" in router.settings`},
		{"max_ttft_penalty: 5", "max_ttft_penalty: -5", "router.experiment.arms[0].settings.max_ttft_penalty: must be"},
		{"max_ttft_penalty: 5", "max_ttft_penalty: .nan", "router.experiment.arms[0].settings: want numbers"},
	} {
		text := strings.Replace(springConfig, c.from, c.to, 1)
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
}
