package fleet_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
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

// busy is mixed traffic at a load that endpoints can serve, for a world of n.
func busy(t testing.TB, p string, n int, seed uint64, length time.Duration) fleet.WorldConfig {
	s := spec(t, "mixed")
	s.Duration = length
	return fleet.WorldConfig{
		Engines: engines(standard(t), n),
		Router:  fleet.RouterConfig{Policy: p, Forecaster: fleet.PriorForecaster{}},
		Plan:    s.Sessions(seed, 0.4*float64(n)), Seed: seed,
		Sink: func(fleet.Outcome) {},
	}
}

// BenchmarkWorld says how many requests of mixed traffic one second of CPU
// simulates, all included. The bar is 2,500.
func BenchmarkWorld(b *testing.B) {
	for _, p := range []string{policy.RoundRobin, policy.TokenLoad, policy.Predicted} {
		b.Run(p, func(b *testing.B) {
			requests, began := 0, cpu(b)
			for b.Loop() {
				r, err := fleet.Simulate(context.Background(), busy(b, p, 10, 1, 30*time.Minute))
				if err != nil {
					b.Fatal(err)
				}
				requests += r.Sent
			}
			b.ReportMetric(float64(requests)/(cpu(b)-began).Seconds(), "requests/cpu-s")
			b.ReportMetric(float64(requests)/float64(b.N), "requests")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkWorldSize runs the same load per endpoint on fleets of every size,
// and says what a request costs outside policy.Decide, of that for describing
// the candidates, and in policy.Decide for each candidate. It is CPU time,
// divided as a clock on the wall says: others may use the machine too, and slow
// every part alike.
func BenchmarkWorldSize(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var sum fleet.Costs
			requests := 0.0
			began, used := time.Now(), cpu(b)
			clock := func() time.Duration { return time.Since(began) }
			for b.Loop() {
				for seed := range uint64(max(1, 100/n)) { // a few sessions more or less matter in a small fleet
					c := busy(b, policy.TokenLoad, n, seed+1, 2*time.Minute)
					r, costs, err := fleet.SimulateTimed(context.Background(), c, clock)
					if err != nil {
						b.Fatal(err)
					}
					requests += float64(r.Sent)
					sum.Outside += costs.Outside
					sum.Viewing += costs.Viewing
					sum.Deciding += costs.Deciding
				}
			}
			share := (cpu(b) - used).Seconds() / clock().Seconds()
			per := func(d time.Duration) float64 { return share * float64(d) / requests }
			b.ReportMetric(per(sum.Outside+sum.Viewing), "ns/request-outside")
			b.ReportMetric(per(sum.Viewing), "ns/request-view")
			b.ReportMetric(per(sum.Deciding)/float64(n), "ns/candidate-Decide")
			b.ReportMetric(requests/float64(b.N), "requests")
			b.ReportMetric(0, "ns/op")
		})
	}
}
