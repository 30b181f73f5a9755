// Package splitmix is SplitMix64, as a sequence and as a hash: all the numbers that
// a seed stands for.
package splitmix

// golden and scramble are SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
const golden = 0x9E3779B97F4A7C15

func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Next moves state on and returns the next number of its SplitMix64 sequence.
func Next(state *uint64) uint64 {
	*state += golden
	return scramble(*state)
}

// Mix returns one number that stands for several, in their order.
func Mix(values ...uint64) uint64 {
	var h uint64
	for _, v := range values {
		h = scramble((h + golden) ^ scramble(v+golden))
	}
	return h
}
