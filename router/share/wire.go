package share

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/sharev1"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/prefix"
	"github.com/spillway-llm/spillway/router/route"
)

// Bounds of one message, kept by who tells and forced on who hears.
const (
	wordsPerMessage  = 512
	blocksPerMessage = 1 << 14
	blocksPerWord    = 1 << 13 // 2 MiB of text: of a longer prompt only the beginning is told
	mostMessage      = 64 << 20
)

var kinds = map[route.WordKind]sharev1.Kind{
	route.Charged: sharev1.Kind_KIND_CHARGED, route.Generated: sharev1.Kind_KIND_GENERATED, route.Settled: sharev1.Kind_KIND_SETTLED,
	route.Taught: sharev1.Kind_KIND_TAUGHT, route.Disbelieved: sharev1.Kind_KIND_DISBELIEVED,
	route.Restating: sharev1.Kind_KIND_RESTATING, route.Restated: sharev1.Kind_KIND_RESTATED,
}

var kindsBack = func() map[sharev1.Kind]route.WordKind {
	back := map[sharev1.Kind]route.WordKind{}
	for k, v := range kinds {
		back[v] = k
	}
	return back
}()

// encode is a word as it is sent at now.
func encode(w *route.Word, now time.Time) *sharev1.Word {
	out := &sharev1.Word{Kind: kinds[w.Kind], Number: w.Number, Endpoint: w.Endpoint, Llm: w.LLM, Tokens: uint32(max(0, w.Tokens))}
	if !w.At.IsZero() {
		out.AgeNanos = int64(max(0, now.Sub(w.At)))
	}
	switch w.Kind {
	case route.Charged:
		out.Started = named(w.Started)
		out.PromptTokens, out.UncachedTokens = uint32(max(0, w.Entry.PromptTokens)), uint32(max(0, w.Entry.UncachedTokens))
		out.ExpectedOutput, out.WaitNanos = uint32(max(0, w.Entry.ExpectedOutput)), int64(w.Wait)
		out.Chain = head(w.Entry.Chain)
	case route.Disbelieved:
		out.Started, out.Chain = named(w.Started), head(w.Chain)
	case route.Taught:
		l := &w.Lesson
		out.Started, out.Last, out.Follows = named(w.Started), w.Last, w.Follows
		out.Lesson = &sharev1.Lesson{
			PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens, Bundle: l.Bundle,
			ForecastTtft: float64(l.ForecastTTFT), ForecastTpot: float64(l.ForecastTPOT), Ttft: float64(l.TTFT), Tpot: float64(l.TPOT),
		}
	}
	return out
}

func head(chain []uint64) []uint64 { return chain[:min(len(chain), blocksPerWord)] }

// named is the name of a life on the wire; nil for one without.
func named(started float64) *float64 {
	if !(started > 0) {
		return nil
	}
	return &started
}

func nameOf(started *float64) float64 {
	if started == nil {
		return feature.Unknown
	}
	return *started
}

// decode is a word as it was heard at now; false for one of a kind that this
// version does not know.
func decode(w *sharev1.Word, now time.Time) (route.Word, bool) {
	kind, ok := kindsBack[w.GetKind()]
	if !ok {
		return route.Word{}, false
	}
	out := route.Word{
		Kind: kind, Number: w.GetNumber(), Endpoint: w.GetEndpoint(), Started: nameOf(w.Started), LLM: w.GetLlm(),
		At: now.Add(-time.Duration(max(0, w.GetAgeNanos()))), Tokens: tokens(w.GetTokens()),
	}
	switch kind {
	case route.Charged:
		out.Entry = ledger.Entry{
			PromptTokens: tokens(w.GetPromptTokens()), UncachedTokens: tokens(w.GetUncachedTokens()), ExpectedOutput: tokens(w.GetExpectedOutput()),
			Chain: head(w.GetChain()),
		}
		out.Wait = time.Duration(max(0, w.GetWaitNanos()))
	case route.Disbelieved:
		out.Chain = head(w.GetChain())
	case route.Taught:
		l := w.GetLesson()
		out.Last, out.Follows = w.GetLast(), w.GetFollows()
		if !(out.Follows <= ledger.MaxTokens) {
			out.Follows = feature.Unknown
		}
		out.Lesson = correction.Lesson{
			PromptTokens: number(l.GetPromptTokens()), OutputTokens: number(l.GetOutputTokens()), Bundle: l.GetBundle(),
			ForecastTTFT: seconds(l.GetForecastTtft()), ForecastTPOT: seconds(l.GetForecastTpot()),
			TTFT: seconds(l.GetTtft()), TPOT: seconds(l.GetTpot()),
		}
	}
	return out, true
}

func tokens(n uint32) int { return int(min(n, ledger.MaxTokens)) }

// number is a count of tokens that may be; else it is unknown.
func number(v float64) float64 {
	if v >= 0 && v <= ledger.MaxTokens {
		return v
	}
	return feature.Unknown
}

// seconds is a latency that may be; else it is unknown.
func seconds(v float64) feature.Seconds {
	if v > 0 && !math.IsInf(v, 1) {
		return feature.Seconds(v)
	}
	return feature.Seconds(feature.Unknown)
}

// encodeHolding cuts a holding into parts that fit into a message.
func encodeHolding(h *route.Holding, yield func(*sharev1.Holding) error) error {
	for blocks := h.Blocks; len(blocks) > 0; {
		part := blocks[:min(len(blocks), blocksPerMessage)]
		blocks = blocks[len(part):]
		out := &sharev1.Holding{Endpoint: h.Endpoint, Started: named(h.Started), Blocks: make([]uint64, len(part)), Ages: make([]uint32, len(part))}
		for i, b := range part {
			out.Blocks[i], out.Ages[i] = b.Hash, uint32(min(b.Age/time.Second, math.MaxUint32))
		}
		if err := yield(out); err != nil {
			return err
		}
	}
	return nil
}

// decodeHolding is a holding that is older by so much than it says.
func decodeHolding(h *sharev1.Holding, older time.Duration) route.Holding {
	n := min(len(h.GetBlocks()), len(h.GetAges()))
	out := route.Holding{Endpoint: h.GetEndpoint(), Started: nameOf(h.Started), Blocks: make([]prefix.Held, n)}
	for i := range n {
		out.Blocks[i] = prefix.Held{Hash: h.GetBlocks()[i], Age: time.Duration(h.GetAges()[i])*time.Second + older}
	}
	return out
}
