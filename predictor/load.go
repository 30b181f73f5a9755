package predictor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/spillway-llm/spillway/internal/bundle"
)

// How an attempt to follow a pointer ends: labels of a metric, a closed set.
const (
	swapped     = "swapped"      // the published bundle is served
	fetchFailed = "fetch_failed" // the source gave no bytes; tried again at the next look
	badChecksum = "checksum"     // not the bytes that were published
	badBundle   = "corrupt"      // it does not decode
	badSchema   = "schema"       // its vectors are not those of this build
	badCheck    = "check"        // it does not pass its own check
	disagree    = "disagree"     // the evaluators do not agree
	withdrawn   = "withdrawn"    // the pointer is gone
)

// loadError is why a published bundle can't be served.
type loadError struct {
	result string // one of the labels above
	err    error
}

func (e *loadError) Error() string { return e.err.Error() }

// advance returns the row that follows old once p is published. Whatever goes
// wrong, the bundle of old stays.
func (s *Server) advance(ctx context.Context, old *served, p Published) *served {
	next := &served{}
	if old != nil {
		*next = *old
	}
	next.published = p
	switch {
	case next.evaluator != nil && next.info.Bundle == p.Version:
		next.info.ValidatedAt, next.info.MaxAge = p.ValidatedAt, p.MaxAge
		next.lastError, next.refused = "", 0
		return next
	case next.refused == p.Version:
		return next
	}
	evaluator, failure := s.load(ctx, p)
	if failure == nil {
		s.metrics.swaps.WithLabelValues(swapped).Inc()
		s.log.Info("bundle swapped in", "llm", p.LLM, "bundle", p.Version, "before", next.info.Bundle, "validated_at", p.ValidatedAt)
		return &served{published: p, evaluator: evaluator, info: Info{Bundle: p.Version, ValidatedAt: p.ValidatedAt, MaxAge: p.MaxAge}}
	}
	if ctx.Err() != nil && context.Cause(ctx) == context.Canceled {
		return next // shutting down
	}
	s.metrics.swaps.WithLabelValues(failure.result).Inc()
	next.refused = 0
	if failure.result != fetchFailed {
		next.refused = p.Version
	}
	text := fmt.Sprintf("bundle %d: %v", p.Version, failure)
	if next.lastError != text {
		s.log.Error("published bundle can't be served; what was served before stays", "llm", p.LLM, "bundle", p.Version, "reason", failure.result, "err", failure.err, "kept", next.info.Bundle)
	}
	next.lastError = text
	return next
}

// load fetches the published bundle and takes every hurdle before it may be
// served.
func (s *Server) load(ctx context.Context, p Published) (*bundle.Evaluator, *loadError) {
	if t := s.threads.Load(); t != nil {
		t.hurry()
	}
	data, err := s.source.Bundle(ctx, p.Version)
	if err != nil {
		return nil, &loadError{fetchFailed, fmt.Errorf("fetch: %w", err)}
	}
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], p.SHA256[:]) {
		return nil, &loadError{badChecksum, fmt.Errorf("its %d bytes have SHA-256 %x, published was %x", len(data), sum, p.SHA256)}
	}
	b, err := bundle.Decode(data)
	if errors.Is(err, bundle.ErrSchema) {
		return nil, &loadError{badSchema, err}
	}
	if err != nil {
		return nil, &loadError{badBundle, err}
	}
	if b.LLM != p.LLM {
		return nil, &loadError{badCheck, fmt.Errorf("it was fitted for %q, published for %q", b.LLM, p.LLM)}
	}
	flat, err := b.EvaluatorWith(ReadLeaves)
	if err != nil {
		return nil, &loadError{badCheck, err}
	}
	reference, err := leavesEvaluator(b)
	if err != nil {
		return nil, &loadError{disagree, err}
	}
	if s.config.Evaluator == Flat {
		return flat, nil
	}
	return reference, nil
}
