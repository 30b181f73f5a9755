package learn

import (
	"time"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Settings are what a fit depends on beside its rows. The defaults serve every
// LLM and every endpoint class; the benchmarks judge exactly these.
type Settings struct {
	Forest   gbdt.Options  // of every head; its objective, quantile, signs, seed and validation are set by the fit
	HalfLife time.Duration // age at which a row weighs half
	Seed     uint64
	Engine   Engine // grows the p50 heads; nil: package gbdt does, as it does the p90 heads
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

// The rest is not for operators to set. All of it was chosen on rows of
// measured-h200 that lie before the last fifth of their file.
const (
	halfShare = 0.35 // of the rows, after which a row weighs half: engines drift with work as well as with time
	lightest  = 1e-3 // least weight of a row: old rows fade, they don't vanish

	// outdatedShare is the weight of all outdated rows in that of the others: they
	// tell how latencies follow from load, and no longer how long they are.
	outdatedShare = 0.03

	judgedParts  = 3 // of the rows, in order of time, that judge what was learned of those before
	learnedParts = 2 // that only teach

	trialMost  = 40_000 // rows that all trials together are made of at most: they cost more than the fit
	stopRounds = 20     // trees without gain there that end a fit
	fewestTree = 3      // trees at least, however early the fit would stop
	leastGain  = 0.03   // share of the loss by which more of a head must win each time
	clipShare  = 0.005  // of the residuals at either end that no forecast reaches

	// sureErrors is by how many standard errors of a share of the judges a p90 is
	// put higher than where that share of them came: a share of few is often too
	// small. Of later simulated rows the first 200 were within the p90 of a few
	// hundred rows at 0.82 (TTFT and TPOT) without it, and at 0.90 (0.88) with it.
	sureErrors = 2

	// firstClip bounds what a forest may say until it has proven more on rows
	// with a load beyond what it had learned from: trees that were right in
	// one regime mislead in another.
	firstClip   = 0.25
	growingRank = 0.9 // of the learned priors, above which a row has grown beyond
	growingRows = 50  // that many such rows prove something

	longest = 3600 // longest latency that is believed, in seconds
)
