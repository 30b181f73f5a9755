package measured

import "github.com/spillway-llm/spillway/internal/feature"

// State is what a dispatch tells in the vocabulary of our own vectors; what it
// does not tell is unknown.
func (d Dispatch) State() (feature.Request, feature.Load) {
	unknown := feature.Unknown
	return feature.Request{
			PromptTokens: d.PromptTokens, CachedTokens: d.PromptTokens - d.UncachedTokens,
			ExpectedOutputTokens: d.OutputTokens, MaxOutputTokens: unknown, Completions: unknown,
		}, feature.Load{
			Scraped: feature.Scraped{Waiting: d.Waiting, Running: unknown, KVUsed: d.KVUsed, Age: feature.Seconds(unknown)},
			Ledger: feature.Ledger{
				Requests: d.InFlight, PrefillTokens: d.PrefillTokens,
				Decoding: unknown, ContextTokens: unknown, SinceScrape: unknown, SinceScrapeTok: unknown,
			},
			Profile: feature.Profile{
				PeakPrefillThroughput: unknown, MaxBatchedTokens: unknown, MaxNumSeqs: unknown, KVCapacityTokens: unknown, SpeedFactor: unknown,
			},
		}
}
