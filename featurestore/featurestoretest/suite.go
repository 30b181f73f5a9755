package featurestoretest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Store is what the store and its twin both do.
type Store interface {
	WriteDecisions(context.Context, []feature.Decision) error
	WriteOutcomes(context.Context, []feature.Outcome) error
	Window(ctx context.Context, llm string, from, to time.Time, limit int) iter.Seq2[feature.Row, error]
	LLMs(context.Context) ([]string, error)
	Decisions(ctx context.Context, from, to time.Time, completeOnly bool) iter.Seq2[feature.Decision, error]
	Decision(context.Context, feature.ID) (feature.Decision, []feature.Outcome, error)
	Count(ctx context.Context, from, to time.Time) (featurestore.Counts, error)
	Sweep(ctx context.Context, router string, olderThan time.Time) (int64, error)
	AcquireLease(ctx context.Context, name, owner string, ttl time.Duration) (featurestore.Lease, bool, error)
	RenewLease(context.Context, featurestore.Lease, time.Duration) (featurestore.Lease, error)
	ReleaseLease(context.Context, featurestore.Lease) error
	PublishBundle(context.Context, featurestore.Lease, featurestore.Bundle) (version int64, served bool, err error)
	Bundle(ctx context.Context, version int64) (featurestore.Bundle, error)
	Bundles(ctx context.Context, llm string, limit int) ([]featurestore.Bundle, error)
	Served(ctx context.Context, llm string) (featurestore.Served, error)
	ServedPointer(ctx context.Context, llm string) (featurestore.Pointer, error)
	ServedLLMs(context.Context) ([]featurestore.Pointer, error)
	ServedHistory(ctx context.Context, llm string, limit int) ([]featurestore.Pointer, error)
	Revalidate(ctx context.Context, lease featurestore.Lease, llm string, version int64, at time.Time, reason string) error
	Rollback(ctx context.Context, llm string, version int64) error
	Release(ctx context.Context, llm string) error
}

var (
	_ Store = (*featurestore.Store)(nil)
	_ Store = (*Memory)(nil)
)

// Bits compares floats by their bits, so that NaN equals itself and -0 does
// not equal 0.
var Bits = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b feature.Seconds) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
}

// noon is in the middle of a day, so that a test's rows share it.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// Suite is what any Store promises; make returns an empty one.
func Suite(t *testing.T, make func(*testing.T) Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Store)
	}{
		{"a decision comes back bit for bit", roundTrip},
		{"writing again changes nothing", idempotent},
		{"a real outcome replaces a lost one", sweep},
		{"an outcome of any attempt ends being lost", lateOutcome},
		{"a sweep of any router", sweepAny},
		{"a window joins, orders and limits", window},
		{"awkward text is repaired", awkwardText},
		{"a lease has one holder", leases},
		{"publishing needs the lease", publish},
		{"the pointer moves and moves back", rollback},
		{"a pinned pointer stays until it is released", pin},
		{"what is missing says so", missing},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, make(t)) })
	}
}

func rng() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func roundTrip(t *testing.T, s Store) {
	r := rng()
	var want []feature.Decision
	for i, n := range []int{0, 1, 3, 40, 200} {
		d := Decision(r, noon.Add(time.Duration(i)*time.Second), "qwen", n)
		d.Complete = n != 40
		want = append(want, d)
	}
	must(t, s.WriteDecisions(t.Context(), want))
	if diff := cmp.Diff(want, collect(t, s.Decisions(t.Context(), noon, noon.Add(time.Hour), false)), Bits); diff != "" {
		t.Errorf("decisions (-written +read):\n%s", diff)
	}
	if got := collect(t, s.Decisions(t.Context(), noon, noon.Add(time.Hour), true)); len(got) != 4 {
		t.Errorf("%d complete decisions, want 4", len(got))
	}
	o := Outcome(r, want[3])
	first := Outcome(r, want[3])
	first.Status, first.HTTPStatus, first.CensoredAt, first.FinishedAt = feature.UpstreamError, 0, 2.5, time.Time{}
	o.Attempt = 2
	must(t, s.WriteOutcomes(t.Context(), []feature.Outcome{o, first}))
	d, outcomes, err := s.Decision(t.Context(), want[3].ID)
	must(t, err)
	if diff := cmp.Diff(want[3], d, Bits); diff != "" {
		t.Errorf("decision (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff([]feature.Outcome{first, o}, outcomes, Bits); diff != "" {
		t.Errorf("outcomes (-written +read):\n%s", diff)
	}

	// An id whose time says nothing of the decision's is found all the same.
	odd := Decision(r, noon, "qwen", 1)
	odd.ID = NewID(r, noon.AddDate(-1, 0, 0))
	must(t, s.WriteDecisions(t.Context(), []feature.Decision{odd}))
	d, _, err = s.Decision(t.Context(), odd.ID)
	must(t, err)
	if d.ID != odd.ID {
		t.Errorf("found %s, want %s", d.ID, odd.ID)
	}
}

func idempotent(t *testing.T, s Store) {
	r := rng()
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	for i := range 20 {
		d := Decision(r, noon.Add(time.Duration(i)*time.Second+777), "qwen", 2)
		decisions = append(decisions, d, d)
		o := Outcome(r, d)
		again := o
		again.Status = feature.ClientAbort
		outcomes = append(outcomes, o)
		if i%2 == 0 {
			must(t, s.WriteOutcomes(t.Context(), []feature.Outcome{o}))
			outcomes[len(outcomes)-1] = again
		}
	}
	for range 3 {
		must(t, s.WriteOutcomes(t.Context(), outcomes))
		must(t, s.WriteDecisions(t.Context(), decisions))
	}
	got, err := s.Count(t.Context(), noon, noon.Add(time.Hour))
	must(t, err)
	if diff := cmp.Diff(featurestore.Counts{Decisions: 20, Outcomes: 20, Joined: 20}, got); diff != "" {
		t.Error(diff)
	}
	for row := range s.Window(t.Context(), "qwen", noon, noon.Add(time.Hour), 0) {
		if row.Outcome.Status != feature.OK {
			t.Errorf("%s has %s: the first outcome was overwritten", row.Decision, row.Outcome.Status)
		}
	}
	must(t, s.WriteDecisions(t.Context(), nil))
	must(t, s.WriteOutcomes(t.Context(), nil))
}

func sweep(t *testing.T, s Store) {
	r := rng()
	var d []feature.Decision
	for i := range 4 {
		d = append(d, Decision(r, noon.Add(time.Duration(i)*time.Minute), "qwen", 1))
	}
	d[3].Router = "router-1"
	must(t, s.WriteDecisions(t.Context(), d))
	must(t, s.WriteOutcomes(t.Context(), []feature.Outcome{Outcome(r, d[0])}))
	for _, want := range []int64{1, 0} { // d[1]; d[2] is too young, d[3] another's
		n, err := s.Sweep(t.Context(), "router-0", noon.Add(90*time.Second))
		must(t, err)
		if n != want {
			t.Errorf("swept %d, want %d", n, want)
		}
	}
	_, outcomes, err := s.Decision(t.Context(), d[1].ID)
	must(t, err)
	unknown := feature.Seconds(feature.Unknown)
	lost := feature.Outcome{Decision: d[1].ID, DecidedAt: d[1].DecidedAt, Attempt: 1, Status: feature.Lost,
		TTFT: unknown, TPOT: unknown, E2E: unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown,
		Endpoint: d[1].Chosen, CensoredAt: unknown}
	if diff := cmp.Diff([]feature.Outcome{lost}, outcomes, Bits); diff != "" {
		t.Errorf("lost outcome (-want +got):\n%s", diff)
	}
	real := Outcome(r, d[1])
	must(t, s.WriteOutcomes(t.Context(), []feature.Outcome{lost, real, lost}))
	must(t, s.WriteOutcomes(t.Context(), []feature.Outcome{lost}))
	_, outcomes, err = s.Decision(t.Context(), d[1].ID)
	must(t, err)
	if diff := cmp.Diff([]feature.Outcome{real}, outcomes, Bits); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func window(t *testing.T, s Store) {
	r := rng()
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	var want []feature.Row
	for i := range 30 {
		// Pairs of one instant are ordered by id.
		d := Decision(r, noon.Add(time.Duration(i/2)*time.Second), []string{"qwen", "llama"}[i%5/4], 1+i%3)
		decisions = append(decisions, d)
		if i%7 == 6 {
			continue // no outcome yet
		}
		o := Outcome(r, d)
		outcomes = append(outcomes, o)
		if i%4 == 0 {
			o = Outcome(r, d)
			o.Attempt, o.Endpoint = 2, "http://elsewhere:8000"
			outcomes = append(outcomes, o)
		}
		if d.LLM != "qwen" || i/2 < 2 || i/2 >= 14 {
			continue
		}
		chosen := d.Candidates[slices.IndexFunc(d.Candidates, func(c feature.Candidate) bool { return c.Endpoint == d.Chosen })]
		want = append(want, feature.Row{Decision: d.ID, DecidedAt: d.DecidedAt, LLM: d.LLM, Endpoint: d.Chosen, Class: d.ChosenClass,
			Schema: d.Schema, Vector: d.ChosenVector, Explored: d.Explored, Forecast: chosen.Forecast, Corrected: chosen.Corrected,
			BundleUsed: d.Bundle, Outcome: o})
	}
	shed := Decision(r, noon.Add(5*time.Second), "qwen", 0)
	decisions = append(decisions, shed)
	outcomes = append(outcomes, Outcome(r, shed))
	slices.SortFunc(want, func(a, b feature.Row) int {
		if c := a.DecidedAt.Compare(b.DecidedAt); c != 0 {
			return c
		}
		return slices.Compare(a.Decision[:], b.Decision[:])
	})
	must(t, s.WriteDecisions(t.Context(), decisions))
	must(t, s.WriteOutcomes(t.Context(), outcomes))

	from, to := noon.Add(2*time.Second), noon.Add(14*time.Second)
	if diff := cmp.Diff(want, collect(t, s.Window(t.Context(), "qwen", from, to, 0)), Bits); diff != "" {
		t.Errorf("window (-want +got):\n%s", diff)
	}
	newest := want[len(want)-5:]
	if diff := cmp.Diff(newest, collect(t, s.Window(t.Context(), "qwen", from, to, 5)), Bits); diff != "" {
		t.Errorf("newest five (-want +got):\n%s", diff)
	}
	for range s.Window(t.Context(), "qwen", from, to, 0) {
		break // ends the query
	}
	llms, err := s.LLMs(t.Context())
	must(t, err)
	if diff := cmp.Diff([]string{"llama", "qwen"}, llms); diff != "" {
		t.Error(diff)
	}
}

func awkwardText(t *testing.T, s Store) {
	r := rng()
	d := Decision(r, noon, "q\x00\xffwen", 2)
	d.Reason = "it's \"{quoted}\", \\ and\nbroken \xc3"
	must(t, s.WriteDecisions(t.Context(), []feature.Decision{d}))
	got, _, err := s.Decision(t.Context(), d.ID)
	must(t, err)
	d.LLM, d.Reason = "q\uFFFD\uFFFDwen", "it's \"{quoted}\", \\ and\nbroken \uFFFD"
	if diff := cmp.Diff(d, got, Bits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func leases(t *testing.T, s Store) {
	ctx := t.Context()
	first, ok, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	if must(t, err); !ok {
		t.Fatal("a free lease was refused")
	}
	if _, ok, err = s.AcquireLease(ctx, "refit", "b", time.Minute); ok || err != nil {
		t.Fatalf("a held lease: %v %v, want refused", ok, err)
	}
	renewed, err := s.RenewLease(ctx, first, time.Hour)
	must(t, err)
	if !renewed.ExpiresAt.After(first.ExpiresAt) {
		t.Errorf("renewed until %v, was %v", renewed.ExpiresAt, first.ExpiresAt)
	}
	again, ok, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	if must(t, err); !ok || again.Generation <= first.Generation {
		t.Fatalf("the owner anew: %v generation %d, want above %d", ok, again.Generation, first.Generation)
	}
	if _, err := s.RenewLease(ctx, first, time.Minute); !errors.Is(err, featurestore.ErrLeaseLost) {
		t.Errorf("renewing an earlier generation: %v, want ErrLeaseLost", err)
	}
	must(t, s.ReleaseLease(ctx, first)) // no effect on the present holder
	if _, ok, _ = s.AcquireLease(ctx, "refit", "b", time.Minute); ok {
		t.Fatal("an earlier generation released the lease")
	}
	must(t, s.ReleaseLease(ctx, again))
	other, ok, err := s.AcquireLease(ctx, "refit", "b", -time.Second)
	if must(t, err); !ok || other.Generation <= again.Generation {
		t.Fatalf("a released lease: %v generation %d", ok, other.Generation)
	}
	if _, err := s.RenewLease(ctx, other, time.Minute); !errors.Is(err, featurestore.ErrLeaseLost) {
		t.Errorf("renewing an expired lease: %v, want ErrLeaseLost", err)
	}
	if _, ok, _ = s.AcquireLease(ctx, "refit", "c", time.Minute); !ok {
		t.Error("an expired lease was refused")
	}
}

func publish(t *testing.T, s Store) {
	ctx := t.Context()
	lease, _, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	must(t, err)
	b := featurestore.Bundle{LLM: "qwen", Bytes: []byte{1, 2, 3}, Metadata: json.RawMessage(`{"rows": 10}`),
		Verdict: json.RawMessage(`{"pinball": 0.1}`), Accepted: true, MaxAge: 30 * time.Minute}
	v1, moved, err := s.PublishBundle(ctx, lease, b)
	if must(t, err); !moved {
		t.Error("an accepted bundle is not served")
	}
	served, err := s.Served(ctx, "qwen")
	must(t, err)
	want := featurestore.Served{
		Pointer: featurestore.Pointer{LLM: "qwen", Version: v1, SHA256: sha256.Sum256(b.Bytes), ValidatedAt: served.ValidatedAt, MaxAge: 30 * time.Minute, Reason: "published"},
		Bytes:   b.Bytes,
	}
	if diff := cmp.Diff(want, served); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}

	refused := b
	refused.Accepted, refused.Bytes, refused.Metadata = false, nil, nil
	v2, moved, err := s.PublishBundle(ctx, lease, refused)
	if must(t, err); moved {
		t.Error("a refused bundle is served")
	}
	if p, err := s.ServedPointer(ctx, "qwen"); err != nil || p != want.Pointer {
		t.Errorf("after a refusal %v %v, want %v", p, err, want.Pointer)
	}
	list, err := s.Bundles(ctx, "qwen", 10)
	must(t, err)
	if len(list) != 2 || list[0].Version != v2 || list[0].Accepted || list[1].Version != v1 || !list[1].Accepted || list[1].Bytes != nil {
		t.Errorf("bundles %+v", list)
	}
	stored, err := s.Bundle(ctx, v1)
	must(t, err)
	if diff := cmp.Diff(b.Bytes, stored.Bytes); diff != "" {
		t.Error(diff)
	}

	at := served.ValidatedAt.Add(time.Minute)
	must(t, s.Revalidate(ctx, lease, "qwen", v1, at, "quiet"))
	must(t, s.Revalidate(ctx, lease, "qwen", v1, at.Add(-time.Hour), "validated")) // never back
	if p, err := s.ServedPointer(ctx, "qwen"); err != nil || !p.ValidatedAt.Equal(at) || p.Reason != "validated" {
		t.Errorf("after revalidation %+v %v, want %v", p, err, at)
	}
	if err := s.Revalidate(ctx, lease, "qwen", v2, at, "validated"); !errors.Is(err, featurestore.ErrNotServed) {
		t.Errorf("revalidating another version: %v, want ErrNotServed", err)
	}

	// The same owner anew, another owner, and an expired lease.
	anew, _, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	must(t, err)
	other := anew
	other.Owner = "b"
	expired, _, err := s.AcquireLease(ctx, "old", "a", -time.Second)
	must(t, err)
	for _, l := range []featurestore.Lease{lease, other, expired, {}} {
		if _, _, err := s.PublishBundle(ctx, l, b); !errors.Is(err, featurestore.ErrLeaseLost) {
			t.Errorf("publishing with lease %+v: %v, want ErrLeaseLost", l, err)
		}
		if err := s.Revalidate(ctx, l, "qwen", v1, at, "x"); !errors.Is(err, featurestore.ErrLeaseLost) {
			t.Errorf("revalidating with lease %+v: %v, want ErrLeaseLost", l, err)
		}
	}
	if list, err = s.Bundles(ctx, "qwen", 10); err != nil || len(list) != 2 {
		t.Errorf("%d bundles %v, want the 2 published under the lease", len(list), err)
	}
}

func rollback(t *testing.T, s Store) {
	ctx := t.Context()
	lease, _, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	must(t, err)
	var versions []int64
	for i, accepted := range []bool{true, false, true} {
		v, _, err := s.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "qwen", Bytes: []byte{byte(i)}, Accepted: accepted, MaxAge: time.Minute})
		must(t, err)
		versions = append(versions, v)
	}
	other, _, err := s.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "llama", Bytes: []byte{9}, Accepted: true, MaxAge: time.Minute})
	must(t, err)
	must(t, s.Rollback(ctx, "qwen", versions[0]))
	served, err := s.Served(ctx, "qwen")
	must(t, err)
	if served.Version != versions[0] || served.Reason != "rollback" || served.SHA256 != sha256.Sum256([]byte{0}) || served.Bytes[0] != 0 {
		t.Errorf("served %+v, want version %d", served.Pointer, versions[0])
	}
	for _, v := range []int64{versions[1], other, 999} { // refused, another LLM's, none
		if err := s.Rollback(ctx, "qwen", v); !errors.Is(err, featurestore.ErrNotFound) {
			t.Errorf("roll back to %d: %v, want ErrNotFound", v, err)
		}
	}
	pointers, err := s.ServedLLMs(ctx)
	must(t, err)
	if len(pointers) != 2 || pointers[0].LLM != "llama" || pointers[1].LLM != "qwen" {
		t.Errorf("served %+v", pointers)
	}
	history, err := s.ServedHistory(ctx, "qwen", 10)
	must(t, err)
	var got []int64
	for _, p := range history {
		got = append(got, p.Version)
	}
	if want := []int64{versions[0], versions[2], versions[0]}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

func missing(t *testing.T, s Store) {
	ctx := t.Context()
	if _, _, err := s.Decision(ctx, feature.ID{1}); !errors.Is(err, featurestore.ErrNotFound) {
		t.Errorf("decision: %v", err)
	}
	if _, err := s.Bundle(ctx, 1); !errors.Is(err, featurestore.ErrNotFound) {
		t.Errorf("bundle: %v", err)
	}
	if _, err := s.Served(ctx, "qwen"); !errors.Is(err, featurestore.ErrNotServed) {
		t.Errorf("served: %v", err)
	}
	if _, err := s.ServedPointer(ctx, "qwen"); !errors.Is(err, featurestore.ErrNotServed) {
		t.Errorf("pointer: %v", err)
	}
	if llms, err := s.LLMs(ctx); err != nil || len(llms) != 0 {
		t.Errorf("LLMs: %v %v", llms, err)
	}
	if rows := collect(t, s.Window(ctx, "qwen", noon, noon.Add(time.Hour), 0)); len(rows) != 0 {
		t.Errorf("window: %v", rows)
	}
	lease, _, err := s.AcquireLease(ctx, "refit", "a", time.Minute)
	must(t, err)
	if _, _, err := s.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "qwen", Accepted: true}); err == nil {
		t.Error("an accepted bundle without a max age was published")
	}
	huge := featurestore.Bundle{LLM: "qwen", Bytes: make([]byte, featurestore.MaxBundleBytes+1)}
	if _, _, err := s.PublishBundle(ctx, lease, huge); err == nil {
		t.Errorf("a bundle of %d bytes was published", len(huge.Bytes))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		must(t, err)
		all = append(all, v)
	}
	return all
}
