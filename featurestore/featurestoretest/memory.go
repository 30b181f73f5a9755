package featurestoretest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Memory is a store in memory that does what featurestore.Store does for
// routers and trainers. The zero value is empty and ready; it is safe for
// concurrent use.
type Memory struct {
	mu        sync.Mutex
	decisions map[rowKey]feature.Decision
	outcomes  map[rowKey]map[int]feature.Outcome
	bundles   []featurestore.Bundle // version is the index + 1
	served    map[string]featurestore.Pointer
	history   []featurestore.Pointer
	leases    map[string]featurestore.Lease
}

type rowKey struct {
	micro int64
	id    feature.ID
}

func keyOf(at time.Time, id feature.ID) rowKey { return rowKey{at.UnixMicro(), id} }

func (k rowKey) compare(l rowKey) int {
	return cmp.Or(cmp.Compare(k.micro, l.micro), slices.Compare(k.id[:], l.id[:]))
}

// repair does to text what the store does.
func repair(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

func cut(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// WriteDecisions does what the store's does.
func (m *Memory) WriteDecisions(_ context.Context, decisions []feature.Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.decisions == nil {
		m.decisions = map[rowKey]feature.Decision{}
	}
	for _, d := range decisions {
		k := keyOf(d.DecidedAt, d.ID)
		if _, ok := m.decisions[k]; ok {
			continue
		}
		d.DecidedAt = cut(d.DecidedAt)
		for _, s := range []*string{&d.LLM, &d.Router, &d.Mode, &d.Policy, &d.State, &d.Reason, &d.Chosen, &d.ChosenClass} {
			*s = repair(*s)
		}
		if d.Chosen == "" {
			d.ChosenVector = unknownVector()
		}
		d.Candidates, d.States = slices.Clone(d.Candidates), slices.Clone(d.States)
		d.PromptDigest = slices.Clone(d.PromptDigest)
		m.decisions[k] = d
	}
	return nil
}

// WriteOutcomes does what the store's does.
func (m *Memory) WriteOutcomes(_ context.Context, outcomes []feature.Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range outcomes {
		o.DecidedAt, o.FinishedAt, o.Endpoint = cut(o.DecidedAt), cut(o.FinishedAt), repair(o.Endpoint)
		m.addOutcome(o)
	}
	return nil
}

func (m *Memory) addOutcome(o feature.Outcome) {
	if m.outcomes == nil {
		m.outcomes = map[rowKey]map[int]feature.Outcome{}
	}
	k := keyOf(o.DecidedAt, o.Decision)
	if m.outcomes[k] == nil {
		m.outcomes[k] = map[int]feature.Outcome{}
	}
	attempts := m.outcomes[k]
	if o.Status == feature.Lost && len(attempts) > 0 {
		return
	}
	maps.DeleteFunc(attempts, func(_ int, old feature.Outcome) bool { return old.Status == feature.Lost })
	if _, ok := attempts[o.Attempt]; !ok {
		attempts[o.Attempt] = o
	}
}

// sorted lists the keys of decisions made in [from, to), in order.
func (m *Memory) sorted(from, to time.Time) []rowKey {
	keys := slices.SortedFunc(maps.Keys(m.decisions), rowKey.compare)
	return slices.DeleteFunc(keys, func(k rowKey) bool {
		at := time.UnixMicro(k.micro)
		return at.Before(from) || !at.Before(to)
	})
}

// Window does what the store's does.
func (m *Memory) Window(_ context.Context, llm string, from, to time.Time, limit int) iter.Seq2[feature.Row, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []feature.Row
	for _, k := range m.sorted(from, to) {
		d, attempts := m.decisions[k], m.outcomes[k]
		if d.LLM != llm || d.Chosen == "" || len(attempts) == 0 {
			continue
		}
		row := feature.Row{Decision: d.ID, DecidedAt: d.DecidedAt, LLM: d.LLM, Endpoint: d.Chosen, Class: d.ChosenClass,
			Schema: d.Schema, Vector: d.ChosenVector, Explored: d.Explored, BundleUsed: d.Bundle,
			Forecast: feature.NoForecast, Corrected: feature.NoForecast,
			Outcome: attempts[slices.Max(slices.Collect(maps.Keys(attempts)))]}
		for _, c := range d.Candidates {
			if c.Endpoint == d.Chosen {
				row.Forecast, row.Corrected = c.Forecast, c.Corrected
			}
		}
		rows = append(rows, row)
	}
	if limit > 0 && len(rows) > limit {
		rows = rows[len(rows)-limit:]
	}
	return each(rows)
}

func each[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// LLMs does what the store's does.
func (m *Memory) LLMs(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]bool{}
	for _, d := range m.decisions {
		known[d.LLM] = true
	}
	return slices.Sorted(maps.Keys(known)), nil
}

// Decisions does what the store's does.
func (m *Memory) Decisions(_ context.Context, from, to time.Time, completeOnly bool) iter.Seq2[feature.Decision, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []feature.Decision
	for _, k := range m.sorted(from, to) {
		if d := m.decisions[k]; d.Complete || !completeOnly {
			all = append(all, d)
		}
	}
	return each(all)
}

// Decision does what the store's does.
func (m *Memory) Decision(_ context.Context, id feature.ID) (feature.Decision, []feature.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, d := range m.decisions {
		if k.id != id {
			continue
		}
		var outcomes []feature.Outcome
		for _, attempt := range slices.Sorted(maps.Keys(m.outcomes[k])) {
			outcomes = append(outcomes, m.outcomes[k][attempt])
		}
		return d, outcomes, nil
	}
	return feature.Decision{}, nil, fmt.Errorf("decision %s: %w", id, featurestore.ErrNotFound)
}

// Count does what the store's does.
func (m *Memory) Count(_ context.Context, from, to time.Time) (featurestore.Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var c featurestore.Counts
	for _, k := range m.sorted(from, to) {
		c.Decisions++
		if len(m.outcomes[k]) > 0 {
			c.Joined++
		}
	}
	for k, attempts := range m.outcomes {
		if at := time.UnixMicro(k.micro); !at.Before(from) && at.Before(to) {
			c.Outcomes += int64(len(attempts))
		}
	}
	return c, nil
}

// Sweep does what the store's does.
func (m *Memory) Sweep(_ context.Context, router string, olderThan time.Time) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int64
	for _, k := range m.sorted(time.Time{}, olderThan) {
		d := m.decisions[k]
		if router != "" && d.Router != router || len(m.outcomes[k]) > 0 {
			continue
		}
		unknown := feature.Seconds(feature.Unknown)
		m.addOutcome(feature.Outcome{Decision: d.ID, DecidedAt: d.DecidedAt, Attempt: 1, Status: feature.Lost,
			TTFT: unknown, TPOT: unknown, E2E: unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown,
			Endpoint: d.Chosen, CensoredAt: unknown})
		n++
	}
	return n, nil
}

// AcquireLease does what the store's does.
func (m *Memory) AcquireLease(_ context.Context, name, owner string, ttl time.Duration) (featurestore.Lease, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.leases[name]
	if held.Owner != owner && held.ExpiresAt.After(time.Now()) {
		return featurestore.Lease{}, false, nil
	}
	if m.leases == nil {
		m.leases = map[string]featurestore.Lease{}
	}
	l := featurestore.Lease{Name: name, Owner: owner, Generation: held.Generation + 1, ExpiresAt: cut(time.Now().Add(ttl))}
	m.leases[name] = l
	return l, true, nil
}

func (m *Memory) check(l featurestore.Lease) error {
	held := m.leases[l.Name]
	if held.Owner != l.Owner || held.Generation != l.Generation || !held.ExpiresAt.After(time.Now()) {
		return fmt.Errorf("lease %q of %q: %w", l.Name, l.Owner, featurestore.ErrLeaseLost)
	}
	return nil
}

// RenewLease does what the store's does.
func (m *Memory) RenewLease(_ context.Context, l featurestore.Lease, ttl time.Duration) (featurestore.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(l); err != nil {
		return featurestore.Lease{}, err
	}
	l.ExpiresAt = cut(time.Now().Add(ttl))
	m.leases[l.Name] = l
	return l, nil
}

// ReleaseLease does what the store's does.
func (m *Memory) ReleaseLease(_ context.Context, l featurestore.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.check(l) == nil {
		l.ExpiresAt = time.Time{}
		m.leases[l.Name] = l
	}
	return nil
}

// PublishBundle does what the store's does, but notifies nobody.
func (m *Memory) PublishBundle(_ context.Context, lease featurestore.Lease, b featurestore.Bundle) (int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.Accepted && b.MaxAge <= 0 {
		return 0, false, fmt.Errorf("publish a bundle of %s: max age %v of an accepted bundle must be above 0", b.LLM, b.MaxAge)
	}
	if len(b.Bytes) > featurestore.MaxBundleBytes {
		return 0, false, fmt.Errorf("publish a bundle of %s: %d bytes, and no bundle may have more than %d", b.LLM, len(b.Bytes), featurestore.MaxBundleBytes)
	}
	if err := m.check(lease); err != nil {
		return 0, false, err
	}
	b.Version = int64(len(m.bundles) + 1)
	b.SHA256, b.Bytes, b.CreatedAt = sha256.Sum256(b.Bytes), slices.Clone(b.Bytes), cut(time.Now())
	m.bundles = append(m.bundles, b)
	if !b.Accepted || m.served[b.LLM].Pinned {
		return b.Version, false, nil
	}
	m.point(featurestore.Pointer{LLM: b.LLM, Version: b.Version, ValidatedAt: b.CreatedAt, MaxAge: b.MaxAge, Reason: "published"})
	return b.Version, true, nil
}

func (m *Memory) point(p featurestore.Pointer) {
	if m.served == nil {
		m.served = map[string]featurestore.Pointer{}
	}
	p.SHA256 = m.bundles[p.Version-1].SHA256
	m.served[p.LLM] = p
	p.Pinned = false
	m.history = append(m.history, p)
}

// Bundle does what the store's does.
func (m *Memory) Bundle(_ context.Context, version int64) (featurestore.Bundle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version < 1 || version > int64(len(m.bundles)) {
		return featurestore.Bundle{}, fmt.Errorf("bundle %d: %w", version, featurestore.ErrNotFound)
	}
	return m.bundles[version-1], nil
}

// Bundles does what the store's does.
func (m *Memory) Bundles(_ context.Context, llm string, limit int) ([]featurestore.Bundle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []featurestore.Bundle
	for _, b := range slices.Backward(m.bundles) {
		if (llm == "" || b.LLM == llm) && len(list) < limit {
			b.Bytes = nil
			list = append(list, b)
		}
	}
	return list, nil
}

// Served does what the store's does.
func (m *Memory) Served(ctx context.Context, llm string) (featurestore.Served, error) {
	p, err := m.ServedPointer(ctx, llm)
	if err != nil {
		return featurestore.Served{}, err
	}
	b, err := m.Bundle(ctx, p.Version)
	return featurestore.Served{Pointer: p, Bytes: b.Bytes}, err
}

// ServedPointer does what the store's does.
func (m *Memory) ServedPointer(_ context.Context, llm string) (featurestore.Pointer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.served[llm]
	if !ok {
		return p, fmt.Errorf("a bundle of %q: %w", llm, featurestore.ErrNotServed)
	}
	return p, nil
}

// ServedLLMs does what the store's does.
func (m *Memory) ServedLLMs(context.Context) ([]featurestore.Pointer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []featurestore.Pointer
	for _, llm := range slices.Sorted(maps.Keys(m.served)) {
		all = append(all, m.served[llm])
	}
	return all, nil
}

// ServedHistory does what the store's does.
func (m *Memory) ServedHistory(_ context.Context, llm string, limit int) ([]featurestore.Pointer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []featurestore.Pointer
	for _, p := range slices.Backward(m.history) {
		if p.LLM == llm && len(all) < limit {
			all = append(all, p)
		}
	}
	return all, nil
}

// Revalidate does what the store's does.
func (m *Memory) Revalidate(_ context.Context, lease featurestore.Lease, llm string, version int64, at time.Time, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(lease); err != nil {
		return err
	}
	p, ok := m.served[llm]
	if !ok || p.Version != version {
		return fmt.Errorf("bundle %d of %s: %w", version, llm, featurestore.ErrNotServed)
	}
	if at = cut(at); at.After(p.ValidatedAt) {
		p.ValidatedAt = at
	}
	p.Reason = reason
	m.point(p)
	return nil
}

// Rollback does what the store's does.
func (m *Memory) Rollback(_ context.Context, llm string, version int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.served[llm]
	if !ok || version < 1 || version > int64(len(m.bundles)) || m.bundles[version-1].LLM != llm || !m.bundles[version-1].Accepted {
		return fmt.Errorf("an accepted bundle %d of %s: %w", version, llm, featurestore.ErrNotFound)
	}
	p.Version, p.ValidatedAt, p.Reason, p.Pinned = version, cut(time.Now()), "rollback", true
	m.point(p)
	return nil
}

// Release does what the store's does.
func (m *Memory) Release(_ context.Context, llm string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.served[llm]
	if !p.Pinned {
		return fmt.Errorf("release what %s is served with: %w", llm, featurestore.ErrNotPinned)
	}
	p.Reason, p.Pinned = "released", false
	m.point(p)
	return nil
}
