package route

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// sight is what an endpoint looks like to a decision.
type sight struct {
	load       feature.Load
	speedSteps float64
	hotTokens  float64 // NaN where forecasts don't decide
}

// shown is which sight of which endpoint a candidate was made from.
type shown struct {
	endpoint *endpoint
	sights   uint64
}

// hotWindow is how long ago a prefix was used that is still worth keeping.
const hotWindow = time.Minute

// sightGood is for how long what was seen of an endpoint is as good as new
// while nothing happens to it. Every decision looks at all endpoints twice, and
// few of them change between two looks. Five milliseconds are below what any
// latency is known to, and far below the age of scraped numbers.
const sightGood = 5 * time.Millisecond

// look is what is known of e at now, or was since nothing has happened to it
// and a moment before. Called under router.mu.
func (e *endpoint) look(r *Router, now time.Time) *sight {
	if age := now.Sub(e.seenAt); e.seenAt.IsZero() || age < 0 || age >= sightGood {
		e.load(r, now, &e.seen.load)
		e.seen.speedSteps, e.seen.hotTokens = e.speed.Steps(now), feature.Unknown
		if r.forecasting() {
			e.seen.hotTokens = r.index.Hot(e.slot, now, hotWindow)
		}
		e.seenAt = now
		e.sights++
	}
	return &e.seen
}

// touch says that something has happened to e: a request came, went or got on,
// its numbers were scraped, its speed was judged.
func (e *endpoint) touch() { e.seenAt = time.Time{} }
