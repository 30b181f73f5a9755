package main

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// window is a store that holds the rows of one window and, maybe, a bundle
// that is served.
type window struct {
	rows   []feature.Row
	served trainer.Served // its version is 0 when nothing is
}

func (w *window) LLMs(context.Context) ([]string, error) { return []string{llm}, nil }

func (w *window) Window(context.Context, string, time.Time, time.Time, int) iter.Seq2[feature.Row, error] {
	return func(yield func(feature.Row, error) bool) {
		for i := range w.rows {
			if !yield(w.rows[i], nil) {
				return
			}
		}
	}
}

func (w *window) Served(context.Context, string) (trainer.Served, error) {
	if w.served.Version == 0 {
		return trainer.Served{}, trainer.ErrNotServed
	}
	return w.served, nil
}

func (w *window) LastVerdict(context.Context, string) (int64, json.RawMessage, error) {
	return 0, nil, nil
}

func (w *window) Lease(context.Context, string, time.Duration) (trainer.Lease, bool, error) {
	return w, true, nil
}

func (w *window) Renew(context.Context, time.Duration) error { return nil }
func (w *window) Release(context.Context) error              { return nil }

func (w *window) Publish(_ context.Context, p trainer.Published) (int64, bool, error) {
	if p.Accepted {
		w.served = trainer.Served{Version: w.served.Version + 1, Validated: time.Now(), Bytes: p.Bytes}
	}
	return w.served.Version, p.Accepted, nil
}

func (w *window) Revalidate(context.Context, string, int64, time.Time, string) error { return nil }
