package fleet_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// cpu is the CPU time that this process has used.
func cpu(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWorld runs mixed traffic at a load that endpoints can serve.
func BenchmarkWorld(b *testing.B) {
	for _, p := range []string{policy.RoundRobin, policy.TokenLoad, policy.Predicted} {
		b.Run(p, func(b *testing.B) {
			spec, err := workload.Named("mixed")
			if err != nil {
				b.Fatal(err)
			}
			spec.Duration = 5 * time.Minute
			requests, began := 0, cpu(b)
			for b.Loop() {
				r, err := fleet.Simulate(context.Background(), fleet.WorldConfig{
					Engines: engines(standard(b), 10),
					Router:  fleet.RouterConfig{Policy: p, Forecaster: fleet.PriorForecaster{}},
					Plan:    spec.Sessions(1, 4), Seed: 1,
					Sink: func(fleet.Outcome) {},
				})
				if err != nil {
					b.Fatal(err)
				}
				requests += r.Sent
			}
			used := cpu(b) - began
			b.ReportMetric(float64(requests)/used.Seconds(), "requests/cpu-s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

var _ = fmt.Sprint
