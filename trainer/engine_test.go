package trainer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// TestForestsOfAnEngineAreJudgedAlike: and where it fails the refit is refused
// with the reason, or done without it.
func TestForestsOfAnEngineAreJudgedAlike(t *testing.T) {
	fails := func(context.Context, gbdt.Data, gbdt.Options) (*forest.Forest, error) {
		return nil, errors.New("lightgbm: exit status 255: out of memory")
	}
	constant := func(_ context.Context, d gbdt.Data, _ gbdt.Options) (*forest.Forest, error) {
		return forest.New(forest.Header{FeatureNames: d.FeatureNames}, []forest.Tree{{Leaves: []forest.Leaf{{Value: 3}}}})
	}
	for name, c := range map[string]struct {
		engine  func(context.Context, gbdt.Data, gbdt.Options) (*forest.Forest, error)
		ownElse bool
		outcome string
		by      string // engine in the verdict
		failed  bool
	}{
		"good":                   {gbdt.Train, false, trainer.Accepted, "lightgbm", false},
		"wrong":                  {constant, false, trainer.Refused, "lightgbm", false},
		"fails":                  {fails, false, trainer.Unfitted, "", false},
		"fails, and ours stands": {fails, true, trainer.Accepted, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{Store: &featurestoretest.Memory{}}
				newWorld(t, 1).add(480, time.Now(), 2*time.Second).write(t, s)
				config := small(t)
				config.Engine, config.EngineName, config.OwnElse = c.engine, "lightgbm", c.ownElse
				r := once(t, config, s)
				v := r.Verdict
				if v == nil || r.Outcome != c.outcome || v.Engine != c.by || (v.EngineFailed != "") != c.failed {
					t.Fatalf("%s by %q, engine failed %q: %s", r.Outcome, v.Engine, v.EngineFailed, r.Why)
				}
				if c.outcome == trainer.Unfitted {
					if !slices.Contains(v.Grounds, trainer.NoFit) || !strings.Contains(r.Why, "out of memory") {
						t.Errorf("refused on %v: %s", v.Grounds, r.Why)
					}
					if p := pointer(t, s); p.Version != 0 {
						t.Errorf("version %d is served", p.Version)
					}
				}
				if c.failed && !strings.Contains(v.EngineFailed, "out of memory") {
					t.Errorf("the engine failed because %q", v.EngineFailed)
				}
			})
		})
	}
}
