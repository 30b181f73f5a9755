package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/prefix"
)

// Of the simulated fleet. Its only purpose is a log with everything in it that
// production logs have: loads that come and go, prefixes that lie somewhere,
// long queues, a policy that explores.
const (
	endpoints   = 20
	profileName = "qwen3-32b-h100-tp2-routing"
	block       = 64 // tokens
	documents   = 400
	perSecond   = 70.0 // requests, on average; they come in waves of ten minutes
	meanOutput  = 60
	expects     = 60
	scrapeEvery = time.Second
	exploration = 0.05
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fleetLog is a fleet with a router before it, and the log that is written.
type fleetLog struct {
	rng     *rand.Rand
	profile physics.Profile
	engines []*fleet.Engine
	names   []string
	ledger  *ledger.Ledger
	index   *prefix.Index
	now     time.Duration

	scraped  []fleet.Metrics
	scrapeAt time.Duration

	input   policy.Input
	choice  policy.Choice
	matches []int32
	calls   map[uint64]*call
	pending []*call // decided and not written, in order
	write   func(*export.Row) error
}

// call is one request on its way.
type call struct {
	row    export.Row
	handle ledger.Handle
	sent   time.Duration
	first  time.Duration
	told   int // tokens that the ledger knows of
	ended  bool
}

// simulate writes a log of so many decisions, and its first tenth beside it.
func simulate(ctx context.Context, seed uint64, decisions int, large, small string) error {
	profile, err := physics.Named(profileName)
	if err != nil {
		return err
	}
	profile.BlockTokens = block
	l := &fleetLog{
		rng: rand.New(rand.NewPCG(seed, 0x6c6f67)), profile: profile,
		ledger: ledger.New(), index: prefix.New(prefix.Config{BlockBytes: block, TokensPerByte: 1}),
		scraped: make([]fleet.Metrics, endpoints), matches: make([]int32, endpoints), calls: map[uint64]*call{},
	}
	l.input = policy.Input{Policy: policy.Predicted, Fallback: policy.CombinedLoad, Forecasts: true, Settings: policy.Defaults()}
	l.input.Settings.Exploration = exploration
	for i := range endpoints {
		e, err := fleet.New(fleet.Config{Profile: profile, Noise: rand.New(rand.NewPCG(seed, uint64(1000+i)))})
		if err != nil {
			return err
		}
		l.engines, l.names = append(l.engines, e), append(l.names, fmt.Sprintf("10.0.0.%02d:8000", i))
		l.index.SetCapacity(l.index.Slot(l.names[i]), float64(profile.KVCapacityTokens), 1)
	}
	return l.written(ctx, decisions, large, small)
}

// written simulates and writes both files.
func (l *fleetLog) written(ctx context.Context, decisions int, large, small string) (err error) {
	var files [2]*os.File
	var out [2]*export.Parquet
	var buffers [2]*bufio.Writer
	for i, name := range []string{large, small} {
		if files[i], err = os.Create(name); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[i].Close()) }()
		buffers[i] = bufio.NewWriterSize(files[i], 1<<20)
		out[i] = export.NewParquet(buffers[i])
	}
	done := bench.Progress("decisions simulated", decisions)
	rows := 0
	l.write = func(r *export.Row) error {
		done()
		rows++
		if rows <= decisions/10 {
			if err := out[1].Write(r); err != nil {
				return err
			}
		}
		return out[0].Write(r)
	}
	if err := l.run(ctx, decisions); err != nil {
		return err
	}
	for i := range out {
		if err := errors.Join(out[i].Close(), buffers[i].Flush()); err != nil {
			return err
		}
	}
	return nil
}

// run simulates until so many requests were decided on and have ended.
func (l *fleetLog) run(ctx context.Context, decisions int) error {
	arrival := time.Duration(0)
	for sent := 0; sent < decisions || len(l.calls) > 0; {
		next, engine := time.Duration(math.MaxInt64), -1
		for i, e := range l.engines {
			if at, ok := e.NextEvent(); ok && at < next {
				next, engine = at, i
			}
		}
		if sent < decisions && arrival <= next {
			if err := ctx.Err(); err != nil {
				return err
			}
			l.now = arrival
			if err := l.send(uint64(sent + 1)); err != nil {
				return err
			}
			sent++
			wave := 1 + 0.5*math.Sin(2*math.Pi*l.now.Minutes()/10)
			arrival += time.Duration(l.rng.ExpFloat64() / (perSecond * wave) * float64(time.Second))
			continue
		}
		l.now = next
		if err := l.advance(engine); err != nil {
			return err
		}
	}
	return l.flush()
}

// send decides where a request goes and hands it over.
func (l *fleetLog) send(id uint64) error {
	if l.now >= l.scrapeAt {
		for i, e := range l.engines {
			l.scraped[i] = e.Metrics()
		}
		l.scrapeAt = l.now + scrapeEvery
	}
	now := epoch.Add(l.now)
	document := l.rng.IntN(documents)
	shared := 256 * (1 + document%8)
	prompt := shared + 32 + int(200*l.rng.ExpFloat64())
	output := 1 + int(meanOutput*l.rng.ExpFloat64())
	chain := chainOf(document, shared/block, prompt/block, id)

	l.view(prompt, chain, now)
	in := &l.input
	in.Seed, in.Turn = l.rng.Uint64(), id
	if err := policy.Decide(in, &l.choice); err != nil {
		return err
	}
	chosen := l.choice.Index
	c := &call{sent: l.now}
	l.record(c, id, now)
	l.index.Insert(chosen, chain, now)
	c.handle = l.ledger.Charge(l.names[chosen], 0, ledger.Entry{
		PromptTokens: prompt, UncachedTokens: max(16, prompt-int(in.Candidates[chosen].CachedTokens)), ExpectedOutput: expects,
	}, now)
	l.calls[id], l.pending = c, append(l.pending, c)
	r := fleet.NewRequest(id, fleet.Prompt{Tokens: prompt, Chain: chain}, output, fleet.Output{Tokens: output})
	return l.engines[chosen].Submit(l.now, r)
}

// chainOf is the chain of a prompt that begins with a document.
func chainOf(document, shared, blocks int, id uint64) []uint64 {
	chain := make([]uint64, blocks)
	parent := fleet.ChainSeed("document", fmt.Sprint(document))
	for i := range chain {
		content := uint64(i)
		if i >= shared {
			content = id<<16 | uint64(i)
		}
		parent = fleet.ExtendChain(parent, content)
		chain[i] = parent
	}
	return chain
}

// view writes what the router knows into the input.
func (l *fleetLog) view(prompt int, chain []uint64, now time.Time) {
	in := &l.input
	unknown := feature.Seconds(feature.Unknown)
	in.Request = policy.Request{
		PromptTokens: float64(prompt), ExpectedOutputTokens: expects, MaxOutputTokens: feature.Unknown, Completions: 1, SLOTTFT: unknown, SLOTPOT: unknown,
	}
	if in.Candidates == nil {
		in.Candidates = make([]policy.Candidate, endpoints)
	}
	clear(l.matches)
	l.index.Match(chain, l.matches)
	scrapedAt := epoch.Add(l.scrapeAt - scrapeEvery)
	for i := range in.Candidates {
		p, m := &l.profile, &l.scraped[i]
		in.Candidates[i] = policy.Candidate{
			Endpoint: l.names[i], Class: p.Name, ColdAgo: unknown, Coefficients: p.Coefficients, SpeedSteps: 1000,
			HotTokens: l.index.Hot(i, now, time.Minute), CachedTokens: min(float64(prompt), float64(int(l.matches[i])*block)),
			Load: feature.Load{
				Scraped: feature.Scraped{Waiting: float64(m.Waiting), Running: float64(m.Running), KVUsed: m.KVUsed, Age: feature.SecondsOf(now.Sub(scrapedAt))},
				Ledger:  l.ledger.State(l.names[i], 0, now, scrapedAt),
				Profile: feature.Profile{
					PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: float64(p.MaxBatchedTokens), MaxNumSeqs: float64(p.MaxNumSeqs),
					KVCapacityTokens: float64(p.KVCapacityTokens), SpeedFactor: 1,
				},
			},
			Residual: feature.Residual{TTFT: feature.LogQuantiles{P90: 0.3}, TPOT: feature.LogQuantiles{P90: 0.15}},
		}
	}
}

// record begins the row of the decision just made.
func (l *fleetLog) record(c *call, id uint64, now time.Time) {
	in, out := &l.input, &l.choice
	chosen := &in.Candidates[out.Index]
	d := &c.row.Decision
	*d = feature.Decision{
		DecidedAt: now.Truncate(time.Microsecond), LLM: "qwen3-32b", Router: "simulated", Mode: "live", Policy: out.Policy, PolicyVersion: policy.Version,
		Bundle: 1, Schema: feature.Schema, State: "live", Reason: out.Reason.String(),
		PromptTokens: in.Request.PromptTokens, ExpectedOutputTokens: in.Request.ExpectedOutputTokens, SLOTTFT: in.Request.SLOTTFT, SLOTPOT: in.Request.SLOTPOT,
		Chosen: chosen.Endpoint, ChosenClass: chosen.Class, Propensity: out.Probabilities[out.Index], Explored: out.Explored,
		Complete: true, States: policy.Encode(nil, in), RestCostMin: feature.Unknown, RestCostMax: feature.Unknown, Seed: in.Seed,
	}
	binary.BigEndian.PutUint64(d.ID[8:], id)
	for i := range in.Candidates {
		f := out.Forecasts[i]
		d.Candidates = append(d.Candidates, feature.Candidate{
			Endpoint: in.Candidates[i].Endpoint, Class: in.Candidates[i].Class, Vector: in.Candidates[i].Vector(&in.Request),
			Forecast: f, Corrected: f, Cost: out.Costs[i], Probability: out.Probabilities[i],
		})
	}
	d.ChosenVector = d.Candidates[out.Index].Vector
	c.row.Forecast, c.row.Corrected = out.Forecasts[out.Index], out.Forecasts[out.Index]
}

// portion is after how many tokens the ledger is told of them.
const portion = 16

// advance lets an engine do what it does now.
func (l *fleetLog) advance(engine int) error {
	for _, ev := range l.engines[engine].Advance(l.now) {
		c, at := l.calls[ev.Request.ID], epoch.Add(ev.At)
		switch {
		case ev.Kind == fleet.Finished:
			l.end(c, engine, ev)
			delete(l.calls, ev.Request.ID)
		case ev.Generated == 1:
			c.first = ev.At
			l.ledger.FirstToken(c.handle, at)
		case ev.Generated-c.told >= portion:
			l.ledger.Tokens(c.handle, ev.Generated-c.told, at)
			c.told = ev.Generated
		}
	}
	if len(l.pending) > 4096 {
		return l.flush()
	}
	return nil
}

func (l *fleetLog) end(c *call, engine int, ev fleet.Event) {
	l.ledger.Settle(c.handle)
	d, unknown := &c.row.Decision, feature.Seconds(feature.Unknown)
	c.ended = true
	c.row.Outcome = feature.Outcome{
		Decision: d.ID, DecidedAt: d.DecidedAt, Attempt: 1, Status: feature.OK, HTTPStatus: 200, Endpoint: l.names[engine],
		TTFT: feature.SecondsOf(c.first - c.sent), TPOT: unknown, E2E: feature.SecondsOf(ev.At - c.sent),
		OutputTokens: float64(ev.Generated), CachedTokens: float64(ev.Cached), CensoredAt: unknown, FinishedAt: epoch.Add(ev.At).Truncate(time.Microsecond),
	}
	if ev.Generated > 1 {
		c.row.Outcome.TPOT = feature.SecondsOf(ev.At-c.first) / feature.Seconds(ev.Generated-1)
	}
}

// flush writes the rows that have ended, in order, up to the first that has not.
func (l *fleetLog) flush() error {
	n := 0
	for n < len(l.pending) && l.pending[n].ended {
		if err := l.write(&l.pending[n].row); err != nil {
			return err
		}
		n++
	}
	l.pending = append([]*call(nil), l.pending[n:]...)
	return nil
}
