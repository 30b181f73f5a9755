package main

import (
	"context"
	"errors"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/console"
)

// consoleStore lets the console look into the store.
type consoleStore struct{ store *featurestore.Store }

func (s consoleStore) Decision(ctx context.Context, id feature.ID) (feature.Decision, []feature.Outcome, error) {
	d, outcomes, err := s.store.Decision(ctx, id)
	if errors.Is(err, featurestore.ErrNotFound) {
		err = console.ErrNotFound
	}
	return d, outcomes, err
}

func (s consoleStore) Bundles(ctx context.Context, llm string, most int) ([]console.Bundle, error) {
	stored, err := s.store.Bundles(ctx, llm, most)
	bundles := make([]console.Bundle, len(stored))
	for i, b := range stored {
		bundles[i] = console.Bundle{Version: b.Version, CreatedAt: b.CreatedAt, Accepted: b.Accepted, Metadata: b.Metadata, Verdict: b.Verdict}
	}
	return bundles, err
}

func (s consoleStore) Turns(ctx context.Context, llm string, most int) ([]console.Turn, error) {
	pointers, err := s.store.ServedHistory(ctx, llm, most)
	turns := make([]console.Turn, len(pointers))
	for i, p := range pointers {
		turns[i] = console.Turn{Version: p.Version, ValidatedAt: p.ValidatedAt, Reason: p.Reason}
	}
	return turns, err
}
