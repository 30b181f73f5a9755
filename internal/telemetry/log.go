package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger makes a logger that writes one record a line to w.
//
// Level is debug, info, warn or error; format is text or json. Both are read
// from configuration, so a wrong one is an error that says what would be right.
// Records below the level cost no formatting.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	switch level {
	case "debug":
		least = slog.LevelDebug
	case "info":
		least = slog.LevelInfo
	case "warn":
		least = slog.LevelWarn
	case "error":
		least = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q is not one of text, json", format)
}
