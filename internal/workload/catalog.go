package workload

import "time"

// The published kinds; see the package comment for where they come from.
var (
	// codeGeneration has prompts of 60,000 to 70,000 tokens of which nearly
	// all repeats from turn to turn: prefill-bound. 272 = 17 x 16 tokens a
	// block, so that the shared 3000 end with the 11th, as far as an engine
	// with blocks of 16 can share them.
	codeGeneration = kind{
		name: "code-generation", block: 272, system: 3000,
		context: uniform(15_000, 100_000), turns: normal(6, 3.5, 2, 20),
		input: lognormal(1500, 1200, 100, 10_000), output: lognormal(800, 600, 50, 4000),
	}

	// reasoning has short prompts and long answers: decode-bound.
	reasoning = kind{
		name: "reasoning", block: 16, system: 250, turns: fixed(1),
		input: lognormal(1000, 800, 100, 5000), output: lognormal(8000, 6500, 500, 32_000),
	}

	// b2bSaaS has 150 tenants with a long system text each, more than one
	// endpoint can keep. 240 divides 6000 and 7200.
	b2bSaaS = kind{
		name: "b2b-saas", block: 240, groups: 150, context: fixed(6000), questions: 5,
		turns: fixed(1), input: fixed(1200), output: fixed(1000),
	}
)

// The kinds that are chosen here.
var (
	// interactiveChat is people who read before they answer: decode-bound,
	// with lengths near those of public chat logs (ShareGPT: about 200 in and
	// 200 to 300 out a turn).
	interactiveChat = kind{
		name: "interactive-chat", block: 64, system: 512, turns: normal(4, 3, 1, 12),
		input: lognormal(250, 300, 20, 2000), output: lognormal(300, 250, 20, 1500),
		think: 20 * time.Second,
	}

	// rag reads a popular document and answers with a label or a score: all
	// prefill. The 400 documents fill the caches of 10 endpoints once.
	rag = kind{
		name: "rag", block: 512, system: 512, groups: 400, popular: zipf(400, 1.1), context: fixed(6144),
		turns: fixed(1), input: lognormal(200, 150, 20, 1000), output: uniform(1, 16),
	}
)

// mixed is the traffic that no one policy is right for.
var mixed = blend{{&interactiveChat, 0.7}, {&codeGeneration, 0.15}, {&reasoning, 0.15}}

var mixedLadder = []float64{4, 6, 8, 10, 12, 15, 18}

// specs lists the workloads. The last two are mixed traffic on a fleet that is
// not of a piece.
var specs = []Spec{
	{
		Name: "code-generation", Closed: true, Unit: clients, Rounds: 6, Timeout: 300 * time.Second, Rate: 0.5,
		regimes: steady(only(&codeGeneration)),
		ladder:  []float64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100},
	},
	{
		Name: "reasoning", Closed: true, Unit: clients, Rounds: 3, Timeout: patience, Rate: 0.5,
		regimes: steady(only(&reasoning)),
		ladder:  []float64{50, 150, 250, 350, 450},
	},
	{
		Name: "b2b-saas", Unit: perSecond, Timeout: patience, staged: true, Duration: tenMinutes,
		regimes: steady(only(&b2bSaaS)),
		ladder:  []float64{3, 10, 15, 20, 22, 25, 30, 35, 40, 43, 46, 49, 52, 55, 57, 60},
	},
	{
		Name: "interactive-chat", Unit: perSecond, Timeout: patience, Rate: 5, Duration: tenMinutes, Warmup: minute,
		regimes: steady(only(&interactiveChat)),
		ladder:  []float64{20, 40, 60, 80, 100, 120, 140},
	},
	{
		Name: "rag", Unit: perSecond, Timeout: patience, Rate: 3, Duration: tenMinutes, Warmup: minute,
		regimes: steady(only(&rag)),
		ladder:  []float64{10, 20, 40, 60, 80, 100, 130},
	},
	{
		Name: "mixed", Unit: perSecond, Timeout: patience, Rate: 3, Duration: tenMinutes, Warmup: minute,
		regimes: steady(mixed), ladder: mixedLadder,
	},
	{
		// Each regime asks of the fleet about the same share of what it could
		// serve if that were all it had to.
		Name: "shifting", Unit: "x nominal", Timeout: patience, Rate: 3, Duration: 16 * minute, Warmup: minute, change: 4 * minute,
		regimes: []regime{
			{only(&interactiveChat), 80}, {only(&codeGeneration), 1}, {only(&rag), 60}, {only(&reasoning), 2},
		},
		ladder: []float64{0.25, 0.5, 0.75, 1, 1.25},
	},
	{
		Name: "heterogeneous", Unit: perSecond, Timeout: patience, Rate: 3, Duration: tenMinutes, Warmup: minute,
		regimes: steady(mixed), ladder: mixedLadder, Slow: Slowdown{Share: 0.5, Factor: 2.5},
	},
	{
		Name: "degraded", Unit: perSecond, Timeout: patience, Rate: 3, Duration: tenMinutes, Warmup: minute,
		regimes: steady(mixed), ladder: mixedLadder, Slow: Slowdown{Share: 0.01, Factor: 3, From: 0.5},
	},
}

const (
	clients    = "clients"
	perSecond  = "requests/s"
	minute     = time.Minute
	tenMinutes = 10 * time.Minute
)

func steady(b blend) []regime { return []regime{{b, 1}} }

// warmUp sends each of the 750 prompts of b2b-saas about once.
var warmUp = stage{load: 15, length: 50 * time.Second}

// publishedSeconds are the lengths of the stages of b2b-saas by rate.
var publishedSeconds = map[float64]int{
	3: 20, 10: 20, 15: 20, 20: 38, 22: 34, 25: 30, 30: 25, 35: 21,
	40: 38, 43: 36, 46: 33, 49: 30, 52: 29, 55: 27, 57: 26, 60: 25,
}

// published is a stage of b2b-saas; at a rate that was not published it is
// long enough for 1500 requests, as most are, or an hour.
func published(rate float64) stage {
	seconds, ok := publishedSeconds[rate]
	length := time.Duration(seconds) * time.Second
	if !ok {
		length = time.Duration(min(1500/rate, 3600) * float64(time.Second))
	}
	return stage{load: rate, length: length, counts: true}
}
