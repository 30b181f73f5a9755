package kube

import (
	"context"
	"log/slog"
)

// hushed logs everything as debug.
type hushed struct{ slog.Handler }

// Enabled reports whether debug is logged.
func (h hushed) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle logs r as debug.
func (h hushed) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

// WithAttrs adds to what is logged.
func (h hushed) WithAttrs(attrs []slog.Attr) slog.Handler { return hushed{h.Handler.WithAttrs(attrs)} }

// WithGroup puts what follows into a group.
func (h hushed) WithGroup(name string) slog.Handler { return hushed{h.Handler.WithGroup(name)} }
