package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer"
)

func TestMain(m *testing.M) { featurestoretest.Main(m) }

const llm = "qwen"

// world makes decisions and outcomes whose distance from the prior is known:
// ln(actual/prior) = ttft or tpot of the load, drifting with time, plus noise.
type world struct {
	rng     *rand.Rand
	profile physics.Profile
	ttft    func(feature.Load) float64
	tpot    func(feature.Load) float64
	began   time.Time
	drift   float64 // log-residual per hour since it began
	noise   float64 // standard deviation
	oneOnly bool    // every answer is one token, so there is no TPOT

	decisions []feature.Decision
	outcomes  []feature.Outcome
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	profile, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		rng: rand.New(rand.NewPCG(seed, 7)), profile: profile, began: time.Now(),
		ttft:  func(l feature.Load) float64 { return 0.15 + 0.4*math.Tanh(l.Scraped.Waiting/8) },
		tpot:  func(l feature.Load) float64 { return 0.1 + 0.004*l.Scraped.Running },
		drift: 0.05, noise: 0.08,
	}
}

// honest makes the world one whose prior is right but for noise.
func (w *world) honest() *world {
	w.ttft = func(feature.Load) float64 { return 0 }
	w.tpot, w.drift = w.ttft, 0
	return w
}

// add makes n rows, the last one decided step before end.
func (w *world) add(n int, end time.Time, step time.Duration) *world {
	for i := range n {
		at := end.Add(-time.Duration(n-i) * step)
		d, o := w.row(at)
		w.decisions, w.outcomes = append(w.decisions, d), append(w.outcomes, o)
	}
	return w
}

// load is one endpoint's state and the request that comes to it.
func (w *world) load() (feature.Request, feature.Load) {
	between := func(low, high int) float64 { return float64(low + w.rng.IntN(high-low)) }
	decoding := between(0, 60)
	request := feature.Request{PromptTokens: between(200, 6000), ExpectedOutputTokens: between(10, 400), MaxOutputTokens: 1024, Completions: 1}
	request.CachedTokens = math.Floor(request.PromptTokens * w.rng.Float64())
	p := w.profile
	return request, feature.Load{
		Scraped: feature.Scraped{Waiting: between(0, 20), Running: decoding, KVUsed: w.rng.Float64(), Age: feature.Seconds(w.rng.Float64())},
		Ledger: feature.Ledger{Requests: decoding + between(0, 4), PrefillTokens: between(0, 8000), Decoding: decoding,
			ContextTokens: decoding * 2000, SinceScrape: between(0, 3), SinceScrapeTok: between(0, 3000)},
		Profile: feature.Profile{PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: float64(p.MaxBatchedTokens),
			MaxNumSeqs: float64(p.MaxNumSeqs), KVCapacityTokens: float64(p.KVCapacityTokens), SpeedFactor: 1},
	}
}

// row makes one decision with its outcome.
func (w *world) row(at time.Time) (feature.Decision, feature.Outcome) {
	at = time.UnixMicro(at.UnixMicro()).UTC()
	request, load := w.load()
	prior := physics.Estimate(w.profile.Coefficients, request, load)
	v := feature.Of(request, load, prior)
	drift := w.drift * at.Sub(w.began).Hours()
	ttft := prior.TTFT * feature.Seconds(math.Exp(w.ttft(load)+drift+w.noise*w.rng.NormFloat64()))
	tpot := prior.TPOT * feature.Seconds(math.Exp(w.tpot(load)+drift+w.noise*w.rng.NormFloat64()))
	output := request.ExpectedOutputTokens
	if w.oneOnly {
		output, tpot = 1, feature.Seconds(feature.Unknown)
	}
	e2e := ttft
	if output > 1 {
		e2e += tpot * feature.Seconds(output-1)
	}
	endpoint := fmt.Sprintf("http://10.0.0.%d:8000", w.rng.IntN(6))
	unknown := feature.Seconds(feature.Unknown)
	d := feature.Decision{
		ID: featurestoretest.NewID(w.rng, at), DecidedAt: at, LLM: llm, Router: "router-0", Mode: "live", Policy: "token-load",
		PolicyVersion: 1, Schema: feature.Schema, State: "cold", PromptTokens: request.PromptTokens, ExpectedOutputTokens: output,
		SLOTTFT: unknown, SLOTPOT: unknown, Chosen: endpoint, ChosenClass: "h100", ChosenVector: v, Propensity: 1, Complete: true,
		RestCostMin: feature.Unknown, RestCostMax: feature.Unknown,
		Candidates: []feature.Candidate{{Endpoint: endpoint, Class: "h100", Vector: v, Forecast: feature.NoForecast, Corrected: feature.NoForecast, Probability: 1}},
	}
	o := feature.Outcome{
		Decision: d.ID, DecidedAt: at, Attempt: 1, Status: feature.OK, HTTPStatus: 200, TTFT: ttft, TPOT: tpot, E2E: e2e,
		OutputTokens: output, CachedTokens: feature.Unknown, Endpoint: endpoint, CensoredAt: unknown, FinishedAt: at.Add(e2e.Duration()),
	}
	return d, o
}

// write stores the rows made so far and forgets them.
func (w *world) write(t testing.TB, s *store) {
	t.Helper()
	if err := errors.Join(s.WriteDecisions(t.Context(), w.decisions), s.WriteOutcomes(t.Context(), w.outcomes)); err != nil {
		t.Fatal(err)
	}
	w.decisions, w.outcomes = nil, nil
}

// store lets a trainer work on a feature store. The functions that are set
// run before the operation they are named for, or after all its rows, and may
// fail it.
type store struct {
	featurestoretest.Store
	onLease, onRenew, onPublish func() error
	onWindow                    func(llm string) error
	afterWindow                 func() error
	onTTL                       func(time.Duration)
}

func called(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (s *store) Window(ctx context.Context, llm string, from, to time.Time, limit int) iter.Seq2[feature.Row, error] {
	if s.onWindow != nil {
		if err := s.onWindow(llm); err != nil {
			return func(yield func(feature.Row, error) bool) { yield(feature.Row{}, err) }
		}
	}
	rows := s.Store.Window(ctx, llm, from, to, limit)
	if s.afterWindow == nil {
		return rows
	}
	return func(yield func(feature.Row, error) bool) {
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
		}
		if err := s.afterWindow(); err != nil {
			yield(feature.Row{}, err)
		}
	}
}

func (s *store) Served(ctx context.Context, llm string) (trainer.Served, error) {
	served, err := s.Store.Served(ctx, llm)
	if errors.Is(err, featurestore.ErrNotServed) {
		err = trainer.ErrNotServed
	}
	return trainer.Served{Version: served.Version, Validated: served.ValidatedAt, Pinned: served.Pinned, Bytes: served.Bytes}, err
}

func (s *store) LastVerdict(ctx context.Context, llm string) (int64, json.RawMessage, error) {
	newest, err := s.Bundles(ctx, llm, 1)
	if err != nil || len(newest) == 0 {
		return 0, nil, err
	}
	return newest[0].Version, newest[0].Verdict, nil
}

func (s *store) Lease(ctx context.Context, owner string, ttl time.Duration) (trainer.Lease, bool, error) {
	if err := called(s.onLease); err != nil {
		return nil, false, err
	}
	if s.onTTL != nil {
		s.onTTL(ttl)
	}
	l, ok, err := s.AcquireLease(ctx, leaseName, owner, ttl)
	return &lease{s, l}, ok, err
}

const leaseName = "refit"

type lease struct {
	store *store
	lease featurestore.Lease
}

func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := called(l.store.onRenew); err != nil {
		return err
	}
	_, err := l.store.RenewLease(ctx, l.lease, ttl)
	return err
}

func (l *lease) Release(ctx context.Context) error { return l.store.ReleaseLease(ctx, l.lease) }

func (l *lease) Publish(ctx context.Context, p trainer.Published) (int64, bool, error) {
	if err := called(l.store.onPublish); err != nil {
		return 0, false, err
	}
	return l.store.PublishBundle(ctx, l.lease, featurestore.Bundle{
		LLM: p.LLM, Bytes: p.Bytes, Metadata: p.Metadata, Verdict: p.Verdict, Accepted: p.Accepted, MaxAge: p.MaxAge,
	})
}

func (l *lease) Revalidate(ctx context.Context, llm string, version int64, at time.Time, reason string) error {
	return l.store.Revalidate(ctx, l.lease, llm, version, at, reason)
}

// small is a configuration whose fits take little time.
func small(t testing.TB) trainer.Config {
	t.Helper()
	c := trainer.Defaults()
	c.DefaultProfile = newWorld(t, 0).profile
	c.Fit.Trees, c.Fit.LearningRate, c.Fit.MinLeafRows = 15, 0.25, 20
	return c
}

// poor is a configuration whose fits are worth little: from the newest rows
// alone, half of them held out.
func poor(t testing.TB) trainer.Config {
	c := small(t)
	c.WindowRows, c.HeldOutShare = 200, 0.5
	return c
}

// started makes a trainer of the given name.
func started(t testing.TB, c trainer.Config, owner string, s trainer.Store) *trainer.Trainer {
	t.Helper()
	tr, err := trainer.New(c, owner, s, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// once runs a cycle of a new trainer and returns what it did for the only LLM.
func once(t testing.TB, c trainer.Config, s trainer.Store) trainer.Result {
	t.Helper()
	return again(t, started(t, c, "a", s))
}

// again runs a cycle of tr and returns what it did for the only LLM.
func again(t testing.TB, tr *trainer.Trainer) trainer.Result {
	t.Helper()
	results, err := tr.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0].LLM != llm {
		t.Fatalf("results %+v, want one for %s", results, llm)
	}
	return results[0]
}

// want ends the test unless r has the outcome.
func want(t testing.TB, r trainer.Result, outcome string) {
	t.Helper()
	if r.Outcome != outcome {
		t.Fatalf("outcome %s (%s), want %s", r.Outcome, r.Why, outcome)
	}
}

// pointer is what llm is served with; its version is 0 when nothing is.
func pointer(t testing.TB, s *store) featurestore.Pointer {
	t.Helper()
	p, err := s.ServedPointer(t.Context(), llm)
	if err != nil && !errors.Is(err, featurestore.ErrNotServed) {
		t.Fatal(err)
	}
	return p
}

// bundles are all that were stored for llm, oldest first.
func bundles(t testing.TB, s *store) []featurestore.Bundle {
	t.Helper()
	list, err := s.Bundles(t.Context(), llm, 100)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	for i := range list {
		if list[i], err = s.Bundle(t.Context(), list[i].Version); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// pass lets time go by in a bubble.
func pass(d time.Duration) { <-time.After(d) }
