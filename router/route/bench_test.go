package route_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// forgetful records nothing, so that only the router's own work is measured.
type forgetful struct{}

func (forgetful) RecordDecision(feature.Decision) {}
func (forgetful) RecordOutcome(feature.Outcome)   {}

// instant is a predictor that answers at once and keeps nothing: what served
// will say was measured.
type instant struct{}

func (instant) Forecast(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	for i := range v {
		out[i] = exactly(&v[i], 0.2, 0.02)
	}
	return route.Answer{Bundle: 7, Validated: time.Now()}, nil
}

// exactly is a forecast of the latencies given, p90 20 % above.
func exactly(v *feature.Vector, ttft, tpot feature.Seconds) feature.Forecast {
	p := v.Prior()
	quantiles := func(s, prior feature.Seconds) (feature.Quantiles, feature.LogQuantiles) {
		r := math.Log(float64(s / prior))
		return feature.Quantiles{P50: s, P90: 1.2 * s}, feature.LogQuantiles{P50: r, P90: r + math.Log(1.2)}
	}
	f := feature.Forecast{Support: 1}
	f.TTFT, f.Residual.TTFT = quantiles(ttft, p.TTFT)
	f.TPOT, f.Residual.TPOT = quantiles(tpot, p.TPOT)
	return f
}

// awaited is a log that tells when an LLM went live.
type awaited struct {
	slog.Handler
	live chan struct{}
}

func (awaited) Enabled(context.Context, slog.Level) bool { return true }

func (a awaited) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(x slog.Attr) bool {
		if x.Key == "to" && x.Value.String() == "live" {
			close(a.live)
		}
		return true
	})
	return nil
}

// bare is a router over n endpoints that asks the predictor in every request
// when asking, and its requests: 4,000 bytes of prompt each, of 64 prefixes.
func bare(t testing.TB, n int, asking bool) (*route.Router, []*route.Query) {
	t.Helper()
	c := route.Defaults()
	c.Name, c.DefaultProfile, c.Fallback = "bench", class, policy.CombinedLoad
	c.ForecastDeadline, c.ScrapeMaxAge, c.ProbeInterval = time.Minute, time.Hour, time.Millisecond
	log := awaited{slog.DiscardHandler, make(chan struct{})}
	r, err := route.New(c, newWorld(t, n, nil).fleet, instant{}, forgetful{}, slog.New(log), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var queries []*route.Query
	for i := range 64 {
		queries = append(queries, query(fmt.Sprint("prefix ", i)))
		round(t, r, queries[i], policy.CombinedLoad)
	}
	if asking {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		<-log.live
		stop()
		<-done
	}
	return r, queries
}

// round decides and ends one request.
func round(t testing.TB, r *route.Router, q *route.Query, by string) {
	ticket, err := r.Begin(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	if ticket.Policy() != by {
		t.Fatalf("decided by %s", ticket.Policy())
	}
	ticket.End(served(1000, 10))
}

func BenchmarkBegin(b *testing.B) {
	for _, n := range []int{16, 200} {
		for _, asking := range []bool{false, true} {
			by := map[bool]string{false: policy.CombinedLoad, true: policy.Predicted}[asking]
			b.Run(fmt.Sprintf("%d/%s", n, by), func(b *testing.B) {
				r, queries := bare(b, n, asking)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					round(b, r, queries[i%len(queries)], by)
					i++
				}
			})
		}
	}
}

// TestBeginAllocatesLittle: what a decision allocates is its row and its
// ticket, however many endpoints there are. It is about 15 times, one more for
// each candidate of a complete row, and up to 20 more under the race detector.
func TestBeginAllocatesLittle(t *testing.T) {
	const most = 60
	for _, n := range []int{16, 200} {
		for _, asking := range []bool{false, true} {
			by := map[bool]string{false: policy.CombinedLoad, true: policy.Predicted}[asking]
			r, queries := bare(t, n, asking)
			i := 0
			if got := testing.AllocsPerRun(500, func() {
				round(t, r, queries[i%len(queries)], by)
				i++
			}); got > most {
				t.Errorf("%d endpoints, %s: %v allocations a request, want at most %d", n, by, got, most)
			}
		}
	}
}
