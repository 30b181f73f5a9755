package experiment

import (
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Report is what an experiment showed. Differences are the second arm less the
// first; all intervals are of 95 %.
type Report struct {
	LLM    string    `json:"llm"`
	Design string    `json:"design"` // as rows carry it
	Arms   [2]string `json:"arms"`   // the baseline first
	From   time.Time `json:"from"`   // of its first decision
	To     time.Time `json:"to"`     // of its last one

	Requests int64         `json:"requests"` // of the experiment
	Outside  int64         `json:"outside"`  // decisions that are not part of it
	Judged   int64         `json:"judged"`
	LeftOut  []LeftOutOf   `json:"left_out"`
	Decided  []PolicyCount `json:"decided"` // which policy decided how often, by arm
	Warnings []string      `json:"warnings"`

	Switchback *Switchback `json:"switchback,omitempty"` // one of the two
	Split      *Split      `json:"split,omitempty"`
}

// LeftOutOf is how many requests are not judged for one reason.
type LeftOutOf struct {
	Why      LeftOut `json:"why"`
	Requests int64   `json:"requests"`
}

// PolicyCount is how often a policy decided in an arm.
type PolicyCount struct {
	Arm      string `json:"arm"`
	Policy   string `json:"policy"`
	Requests int64  `json:"requests"`
}

// Switchback is what a switchback showed.
type Switchback struct {
	Name    string          `json:"name"`
	Start   time.Time       `json:"start"`
	End     time.Time       `json:"end"`
	Block   feature.Seconds `json:"block"`
	BurnIn  feature.Seconds `json:"burn_in"`
	Planned int             `json:"planned"` // pairs
	Pairs   int             `json:"pairs"`   // both of whose blocks have requests to judge

	Effects []Effect `json:"effects"` // in the order of Quantities
	// Offered is the same of the requests a second that came: routing that is no
	// different to clients leaves it alone.
	Offered Effect  `json:"offered"`
	Blocks  []Block `json:"blocks"`

	// Longer is the share of the requests that took longer than the burn-in: they
	// reach beyond it.
	Longer feature.Number `json:"longer"`
	// HalfLife is after how long half of what the caches hold is other text, at
	// the rate of this traffic; unknown where no row tells of a cache's size.
	HalfLife feature.Number `json:"half_life"` // seconds

	// Detect is the relative effect that Effect.Wanted is for.
	Detect float64 `json:"detect"`
}

// Effect is that of the second arm against the first, on one quantity, from pairs
// of blocks.
type Effect struct {
	Quantity Quantity          `json:"quantity"`
	Unit     string            `json:"unit"`
	Pairs    int               `json:"pairs"` // both of whose blocks have a value
	Arms     [2]feature.Number `json:"arms"`  // means of their blocks

	Difference evaluate.Interval `json:"difference"` // mean over the pairs, by Student's t
	Relative   evaluate.Interval `json:"relative"`   // against the first arm's mean

	// P is how often the order of the pairs alone would have given a difference as
	// great, had both arms been the same (a randomisation test).
	P feature.Number `json:"p"`

	// Carry is the difference in the second half of what is kept of blocks, less
	// that in the first: 0 where the burn-in was long enough. Unknown of
	// quantities that have none.
	Carry evaluate.Interval `json:"carry"`

	// Wanted is how many pairs would find a relative effect of Detect in 80 of 100
	// experiments; 0 where that can't be told.
	Wanted int `json:"wanted"`
}

// Block is one block of a switchback.
type Block struct {
	Number   int              `json:"number"`
	At       time.Time        `json:"at"`
	Arm      int              `json:"arm"`
	Requests int64            `json:"requests"` // judged
	Paired   bool             `json:"paired"`
	Values   []feature.Number `json:"values"` // in the order of Quantities
}

// Split is what a split showed.
type Split struct {
	Share    float64  `json:"share"`    // of the second arm, by design
	Requests [2]int64 `json:"requests"` // that the coin gave each arm
	// Untossed are requests that no coin was tossed for: forecasts could not have
	// decided.
	Untossed int64 `json:"untossed"`

	// Horizon is for how long after a choice requests are looked at for what it did
	// to them.
	Horizon feature.Seconds `json:"horizon"`

	Effects []SplitEffect `json:"effects"` // of TTFT, TPOT, E2E, Attained and Failed
	// Prompt is the naive difference in tokens of prompts: 0 where the coin was
	// fair.
	Prompt evaluate.Interval `json:"prompt"`
	Curves []Curve           `json:"curves"` // of TTFT and E2E
}

// SplitEffect is that of giving all requests to the second arm instead of the
// first, on one quantity.
type SplitEffect struct {
	Quantity Quantity          `json:"quantity"`
	Unit     string            `json:"unit"`
	Arms     [2]feature.Number `json:"arms"` // means

	// Naive is the difference of the means. It leaves out all that requests of one
	// arm did to those of the other, so it is biased.
	Naive evaluate.Interval `json:"naive"`
	// DQ is the difference in Q: what a choice changed of its own request and of
	// those that came within the horizon after it. It sees no further, and takes
	// the effect to grow with the share.
	DQ evaluate.Interval `json:"dq"`
	// NaiveRelative and DQRelative are the same against the first arm's mean.
	NaiveRelative evaluate.Interval `json:"naive_relative"`
	DQRelative    evaluate.Interval `json:"dq_relative"`
}

// Curve is the difference in Q by horizon: it stops growing where the horizon
// holds all that a choice does.
type Curve struct {
	Quantity Quantity     `json:"quantity"`
	Points   []CurvePoint `json:"points"`
}

// CurvePoint is one of them.
type CurvePoint struct {
	Horizon feature.Seconds   `json:"horizon"`
	DQ      evaluate.Interval `json:"dq"`
}
