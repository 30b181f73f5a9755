package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router/route"
	"github.com/spillway-llm/spillway/trainer"
)

// The parts declare what they need of each other; here those faces meet.

// forecaster lets the router ask a predictor.
type forecaster struct {
	ask interface {
		Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (predictor.Info, error)
	}
}

func (f forecaster) Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	info, err := f.ask.Forecast(ctx, llm, vectors, out)
	switch {
	case errors.Is(err, predictor.ErrUntrained):
		err = route.ErrUntrained
	case errors.Is(err, predictor.ErrSchema):
		err = route.ErrMismatch
	case errors.Is(err, predictor.ErrImpossible):
		err = route.ErrImplausible
	case errors.Is(err, predictor.ErrBusy):
		err = context.DeadlineExceeded // slow, not down: another request would have come too late
	}
	return route.Answer{Bundle: info.Bundle, Validated: info.ValidatedAt, MaxAge: info.MaxAge}, err
}

// bundleSource lets the predictor follow the store.
type bundleSource struct {
	store     *featurestore.Store
	listenURL string // empty: polling alone finds new bundles
}

func (s bundleSource) Published(ctx context.Context) ([]predictor.Published, error) {
	pointers, err := s.store.ServedLLMs(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]predictor.Published, len(pointers))
	for i, p := range pointers {
		out[i] = predictor.Published{LLM: p.LLM, Version: p.Version, SHA256: p.SHA256, ValidatedAt: p.ValidatedAt, MaxAge: p.MaxAge}
	}
	return out, nil
}

func (s bundleSource) Bundle(ctx context.Context, version int64) ([]byte, error) {
	b, err := s.store.Bundle(ctx, version)
	return b.Bytes, err
}

func (s bundleSource) Listen(ctx context.Context, changed func()) error {
	return s.store.Listen(ctx, s.listenURL, func(int64) { changed() })
}

// refitStore lets the trainer work on the store.
type refitStore struct{ *featurestore.Store }

func (s refitStore) Window(ctx context.Context, llm string, from, to time.Time, limit int) iter.Seq2[feature.Row, error] {
	return s.Store.Window(ctx, llm, from, to, limit)
}

func (s refitStore) Served(ctx context.Context, llm string) (trainer.Served, error) {
	served, err := s.Store.Served(ctx, llm)
	if errors.Is(err, featurestore.ErrNotServed) {
		err = trainer.ErrNotServed
	}
	return trainer.Served{Version: served.Version, Validated: served.ValidatedAt, Pinned: served.Pinned, Bytes: served.Bytes}, err
}

func (s refitStore) LastVerdict(ctx context.Context, llm string) (int64, json.RawMessage, error) {
	newest, err := s.Bundles(ctx, llm, 1)
	if err != nil || len(newest) == 0 {
		return 0, nil, err
	}
	return newest[0].Version, newest[0].Verdict, nil
}

// refitLease is the name of the lease trainers share.
const refitLease = "refit"

func (s refitStore) Lease(ctx context.Context, owner string, ttl time.Duration) (trainer.Lease, bool, error) {
	l, ok, err := s.AcquireLease(ctx, refitLease, owner, ttl)
	return &heldLease{s.Store, l}, ok, err
}

// heldLease is the store with the right to publish.
type heldLease struct {
	store *featurestore.Store
	lease featurestore.Lease
}

func (h *heldLease) Renew(ctx context.Context, ttl time.Duration) error {
	// What a lease is known by does not change, and its expiry is the store's.
	_, err := h.store.RenewLease(ctx, h.lease, ttl)
	return err
}

func (h *heldLease) Release(ctx context.Context) error { return h.store.ReleaseLease(ctx, h.lease) }

func (h *heldLease) Publish(ctx context.Context, p trainer.Published) (int64, bool, error) {
	return h.store.PublishBundle(ctx, h.lease, featurestore.Bundle{
		LLM: p.LLM, Bytes: p.Bytes, Metadata: p.Metadata, Verdict: p.Verdict, Accepted: p.Accepted, MaxAge: p.MaxAge,
	})
}

func (h *heldLease) Revalidate(ctx context.Context, llm string, version int64, at time.Time, reason string) error {
	return h.store.Revalidate(ctx, h.lease, llm, version, at, reason)
}
