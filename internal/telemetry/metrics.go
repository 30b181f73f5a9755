package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry makes the registry of one process. It holds the Go runtime's and
// the process's own metrics and spillway_build_info, a constant 1 whose labels
// name the build. Packages register what they move themselves.
func NewRegistry() *prometheus.Registry {
	build := ReadBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spillway_build_info",
		Help: "Constant 1; the labels name the build.",
		ConstLabels: prometheus.Labels{
			"version":    build.Version,
			"revision":   build.Revision,
			"go_version": build.GoVersion,
		},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
	)
	return registry
}
