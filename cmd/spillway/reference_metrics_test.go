package main

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/trainer"
)

const metricsHead = `# Metrics

Each process shows its metrics as ` + "`/metrics`" + ` on its admin listener (` + "`router.admin`" + `,
` + "`predictor.admin`, `trainer.admin`" + `), beside those of the Go runtime (` + "`go_`" + `) and of the
process (` + "`process_`" + `). Labels have closed sets of values, but for ` + "`llm`" + `, which names what
the fleet serves; none holds an id of a request or a name of a user.

This page is generated from what the processes register: ` + "`make generate`" + `.
`

// metricsPage lists the metrics of each process, as they register them.
func metricsPage(t *testing.T) string {
	c := defaultConfig()
	log := slog.New(slog.DiscardHandler)
	var page strings.Builder
	page.WriteString(metricsHead)
	section := func(title, about string, reg *prometheus.Registry, less map[string]metric) {
		page.WriteString("\n## " + title + "\n\n" + about + "\n\n" + header("metric", "type", "labels", "meaning"))
		all := metricsOf(t, reg)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if m := all[name]; less[name].name == "" {
				page.WriteString(row(code(m.name), m.kind, code(strings.Join(m.labels, "`, `")), m.help))
			}
		}
	}
	every := telemetry.NewRegistry()
	section("Every process", "What was built.", every, nil)
	common := metricsOf(t, every)

	configured := telemetry.NewRegistry()
	if _, err := access.GuardHTTP(access.Config{TokenFile: write(t, "token", "a-token-of-the-house")}, log, configured); err != nil {
		t.Fatal(err)
	}
	spans := c.Tracing
	spans.Endpoint = "http://127.0.0.1:1"
	_, end, err := spans.open(t.Context(), "router", "", log, configured)
	if err != nil {
		t.Fatal(err)
	}
	end()
	section("Where `access` or `tracing` is configured", "", configured, common)

	section("Router", "With both front doors and sharing on. A router with `predictor: in-process` has those of the predictor too.", routerMetrics(t, &c, log), common)

	away, err := featurestore.Open(t.Context(), "postgres://127.0.0.1:1/none", featurestore.Options{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	store := telemetry.NewRegistry()
	writer, err := featurestore.NewWriter(away, featurestore.WriterConfig{SpoolDir: t.TempDir(), SpoolBytes: c.Store.SpoolBytes, Logger: log, Registerer: store})
	if err != nil {
		t.Fatal(err)
	}
	done, stop := context.WithCancel(t.Context())
	stop()
	if err := writer.Run(done); err != nil {
		t.Fatal(err)
	}
	section("Router: rows on their way to the store", "", store, common)

	forecasts := telemetry.NewRegistry()
	predictor.New(c.Predictor.config(log, forecasts), nil)
	section("Predictor", "", forecasts, common)

	refits := telemetry.NewRegistry()
	config, err := c.trainer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.New(config, "reference", nil, log, refits); err != nil {
		t.Fatal(err)
	}
	section("Trainer", "", refits, common)
	return strings.ReplaceAll(page.String(), "\n\n\n", "\n")
}

// routerMetrics is the registry of a router that has every part.
func routerMetrics(t *testing.T, c *Config, log *slog.Logger) *prometheus.Registry {
	t.Helper()
	config, err := c.router()
	if err != nil {
		t.Fatal(err)
	}
	const anyPort = "127.0.0.1:0"
	config.Listen, config.Picker, config.Admin, config.Share.Listen = anyPort, anyPort, anyPort, anyPort
	config.Share.Salt = []byte("0123456789abcdef")
	config.Pool.Endpoints = []pool.Endpoint{{URL: "http://127.0.0.1:1", LLMs: []string{llm}}}
	config.Recorder, config.Log, config.Metrics = norows{}, log, telemetry.NewRegistry()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	config.Ready = func(router.Serving) { end() }
	if err := router.Run(ctx, config); err != nil {
		t.Fatal(err)
	}
	return config.Metrics
}

// norows records nothing.
type norows struct{}

func (norows) RecordDecision(feature.Decision) {}
func (norows) RecordOutcome(feature.Outcome)   {}

type metric struct {
	name, kind, help string
	labels           []string
}

// histogramsByLLM are histograms that a router without requests has no series of.
var histogramsByLLM = []string{"spillway_router_ttft_seconds", "spillway_router_tpot_seconds", "spillway_router_forecast_error_ratio"}

// descText is how the library writes a description.
var descText = regexp.MustCompile(`^Desc\{fqName: ("[^"]*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// metricsOf are the product's own metrics of a registry by name.
func metricsOf(t *testing.T, reg *prometheus.Registry) map[string]metric {
	t.Helper()
	kinds := map[string]string{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		kinds[family.GetName()] = strings.ToLower(family.GetType().String())
	}
	descriptions := make(chan *prometheus.Desc, 1000)
	reg.Describe(descriptions)
	close(descriptions)
	all := map[string]metric{}
	for d := range descriptions {
		parts := descText.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("the library describes a metric otherwise than this test reads: %s", d)
		}
		name, err := strconv.Unquote(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		help, err := strconv.Unquote(parts[2])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(name, "spillway_") {
			continue
		}
		// What was never moved is not gathered: then it has labels.
		kind := "gauge"
		switch {
		case strings.HasSuffix(name, "_total"):
			kind = "counter"
		case slices.Contains(histogramsByLLM, name):
			kind = "histogram"
		}
		m := metric{name: name, kind: cmp.Or(kinds[name], kind), help: help}
		for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(parts[3], -1) {
			m.labels = append(m.labels, constant[1])
		}
		if parts[4] != "" {
			m.labels = append(m.labels, strings.Split(parts[4], ",")...)
		}
		all[name] = m
	}
	return all
}
