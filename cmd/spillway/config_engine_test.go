package main

import (
	"strings"
	"testing"
)

func TestTheEngineOfRefits(t *testing.T) {
	c, err := parseConfig([]byte("trainer: {engine: lightgbm, lightgbm: {path: no-such-program, otherwise: spillway}}"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := c.trainer()
	if err != nil || made.Engine == nil || made.EngineName != "lightgbm" || !made.OwnElse {
		t.Errorf("engine %q, own else %v: %v", made.EngineName, made.OwnElse, err)
	}
	if err := c.Trainer.engineInstalled(); err == nil || !strings.HasPrefix(err.Error(), "trainer.lightgbm.path: ") {
		t.Errorf("error %v, want it to name the path", err)
	}
	usual := defaultConfig()
	if made, err := usual.trainer(); err != nil || made.Engine != nil || made.EngineName != "" {
		t.Errorf("the defaults have engine %q: %v", made.EngineName, err)
	}
	if err := usual.Trainer.engineInstalled(); err != nil {
		t.Error(err)
	}
	for text, key := range map[string]string{
		"engine: xgboost": `trainer.engine: "xgboost"`,
		"engine: lightgbm, lightgbm: {otherwise: ignore}": `trainer.lightgbm.otherwise: "ignore"`,
		"engine: lightgbm, lightgbm: {timeout: 0s}":       "trainer.lightgbm.timeout: ",
		"engine: lightgbm, lightgbm: {machines: /list}":   "trainer.lightgbm.directory: ",
	} {
		if _, err := parseConfig([]byte("trainer: {" + text + "}")); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: error %v, want it to begin with %q", text, err, key)
		}
	}
}
