package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/telemetry"
)

func TestNewLogger(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var out bytes.Buffer
		logger, err := telemetry.NewLogger(&out, level, "text")
		if err != nil {
			t.Fatal(err)
		}
		logger.Debug("d")
		logger.Info("i")
		logger.Warn("w")
		logger.Error("e")
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("level %s wrote %d lines, want %d:\n%s", level, got, want, &out)
		}
	}
}

func TestNewLoggerJSON(t *testing.T) {
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("endpoint added", "endpoint", "a:8000")
	var record map[string]any
	if err := json.Unmarshal(out.Bytes(), &record); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if record["msg"] != "endpoint added" || record["endpoint"] != "a:8000" || record["level"] != "INFO" {
		t.Errorf("got %v", record)
	}
}

func TestNewLoggerSaysWhatWouldBeRight(t *testing.T) {
	for _, wrong := range []struct{ level, format, want string }{
		{"verbose", "text", `log level "verbose" is not one of debug, info, warn, error`},
		{"INFO", "text", `log level "INFO" is not one of debug, info, warn, error`},
		{"info", "xml", `log format "xml" is not one of text, json`},
		{"info", "", `log format "" is not one of text, json`},
	} {
		_, err := telemetry.NewLogger(io.Discard, wrong.level, wrong.format)
		if err == nil || err.Error() != wrong.want {
			t.Errorf("NewLogger(%q, %q) = %v, want %s", wrong.level, wrong.format, err, wrong.want)
		}
	}
}

func TestReadBuildLeavesNothingEmpty(t *testing.T) {
	build := telemetry.ReadBuild()
	if build.Version == "" || build.Revision == "" || build.Time == "" {
		t.Errorf("empty fields in %+v", build)
	}
	if build.GoVersion != runtime.Version() {
		t.Errorf("go version %q, want %q", build.GoVersion, runtime.Version())
	}
	if telemetry.Version() != build.Version {
		t.Errorf("Version() = %q, want %q", telemetry.Version(), build.Version)
	}
}

func TestNewRegistry(t *testing.T) {
	registry := telemetry.NewRegistry()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, family := range families {
		seen[family.GetName()] = true
		if family.GetName() != "spillway_build_info" {
			continue
		}
		metric := family.GetMetric()[0]
		if got := metric.GetGauge().GetValue(); got != 1 {
			t.Errorf("spillway_build_info is %v, want 1", got)
		}
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["version"] != telemetry.Version() || labels["go_version"] != runtime.Version() || labels["revision"] == "" {
			t.Errorf("spillway_build_info has labels %v", labels)
		}
	}
	for _, want := range []string{"spillway_build_info", "go_goroutines"} {
		if !seen[want] {
			t.Errorf("%s is missing", want)
		}
	}

	// Two processes in one test binary must not share a registry.
	extra := prometheus.NewCounter(prometheus.CounterOpts{Name: "spillway_test_total", Help: "Test."})
	registry.MustRegister(extra)
	telemetry.NewRegistry().MustRegister(extra)
}
