package splitmix_test

import (
	"testing"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// The sequence is that of the published generator from state 1234567.
func TestNext(t *testing.T) {
	state := uint64(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := splitmix.Next(&state); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

// Different lists of small numbers, and the same in another order, give
// different numbers.
func TestMix(t *testing.T) {
	seen := map[uint64][]uint64{}
	note := func(values ...uint64) {
		h := splitmix.Mix(values...)
		if other, ok := seen[h]; ok {
			t.Fatalf("%v and %v give %d", values, other, h)
		}
		seen[h] = append([]uint64{}, values...)
	}
	note()
	for a := range uint64(100) {
		note(a)
		for b := range uint64(100) {
			note(a, b)
			note(a, b, 0)
		}
	}
}

func TestMixAllocatesNothing(t *testing.T) {
	sum := uint64(0)
	if n := testing.AllocsPerRun(100, func() { sum += splitmix.Mix(sum, 'x', 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
