package featurestore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Rows a second over one connection, by the size of the candidate set.
func BenchmarkWriteDecisions(b *testing.B) {
	for _, candidates := range []int{16, 100, 200} {
		b.Run(fmt.Sprintf("candidates=%d", candidates), func(b *testing.B) {
			store := featurestoretest.New(b)
			rng := rand.New(rand.NewPCG(1, 2))
			batch := make([]feature.Decision, 512)
			at := noon
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range batch {
					at = at.Add(time.Millisecond)
					batch[i] = featurestoretest.Decision(rng, at, "qwen", candidates)
				}
				b.StartTimer()
				if err := store.WriteDecisions(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkWindow(b *testing.B) {
	store := featurestoretest.New(b)
	rng := rand.New(rand.NewPCG(1, 2))
	const rows = 20_000
	for at := 0; at < rows; at += 500 {
		var decisions []feature.Decision
		var outcomes []feature.Outcome
		for i := range 500 {
			d := featurestoretest.Decision(rng, noon.Add(time.Duration(at+i)*time.Millisecond), "qwen", 16)
			decisions = append(decisions, d)
			outcomes = append(outcomes, featurestoretest.Outcome(rng, d))
		}
		if err := store.WriteDecisions(b.Context(), decisions); err != nil {
			b.Fatal(err)
		}
		if err := store.WriteOutcomes(b.Context(), outcomes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range store.Window(b.Context(), "qwen", noon, noon.Add(time.Hour), rows) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != rows {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
}
