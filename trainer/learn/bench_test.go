package learn_test

import (
	"testing"

	"github.com/spillway-llm/spillway/trainer/learn"
)

// BenchmarkFit is one fit with the settings of production.
func BenchmarkFit(b *testing.B) {
	samples := world(b, 1, 2000, steady, crooked)
	for b.Loop() {
		if _, err := learn.Fit(b.Context(), learn.Task{LLM: "qwen", At: began, Samples: samples, Learned: all}, learn.Defaults()); err != nil {
			b.Fatal(err)
		}
	}
}
