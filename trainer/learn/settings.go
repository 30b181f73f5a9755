package learn

import (
	"time"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Settings are what a fit depends on beside its rows. The defaults serve every
// LLM and every endpoint class; the benchmarks judge exactly these.
type Settings struct {
	Forest   gbdt.Options  // of every head; its objective, quantile, seed and validation are set by the fit
	HalfLife time.Duration // age at which a row weighs half
	Seed     uint64
}

// Defaults are the settings of production.
func Defaults() Settings {
	forest := gbdt.Defaults()
	forest.Trees = 200
	forest.Leaves = 15
	forest.LearningRate = 0.1
	forest.L2 = 2
	forest.MinLeafRows = 20
	forest.Threads = 1
	return Settings{Forest: forest, HalfLife: 24 * time.Hour, Seed: 1}
}

const (
	stopShare  = 0.2   // of the learned rows, the latest, that decide when to stop
	stopRounds = 20    // trees without gain there that end a fit
	fewestTree = 3     // trees at least, however early the fit would stop
	clipShare  = 0.005 // of the residuals at either end that no forecast reaches
	lightest   = 1e-3  // least weight of a row: old rows fade, they don't vanish
	longest    = 3600  // longest latency that is believed, in seconds
)
