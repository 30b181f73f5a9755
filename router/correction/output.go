package correction

import "math/bits"

const (
	// ColdOutput is the expected output in tokens before anything was seen.
	ColdOutput    = 500.0
	outputMemory  = 0.05    // weight of the newest output length in its bucket
	outputLongest = 1 << 22 // no engine generates more: such a number is an error
)

// Output expects output lengths by prompt length: a moving mean for each
// power of two of prompt tokens. The zero value has seen nothing.
type Output struct {
	mean [24]float64
	seen [24]bool
}

func outputBucket(promptTokens float64) int {
	return min(23, bits.Len64(uint64(max(0, promptTokens))))
}

// Observe adds a request that ended: its prompt and its output in tokens. An
// output that is unknown, or no engine's, is skipped.
func (o *Output) Observe(promptTokens, outputTokens float64) {
	if !(outputTokens >= 0 && outputTokens <= outputLongest) {
		return
	}
	b := outputBucket(promptTokens)
	if !o.seen[b] {
		o.mean[b], o.seen[b] = outputTokens, true
		return
	}
	o.mean[b] += outputMemory * (outputTokens - o.mean[b])
}

// Expect is the mean output of prompts of that length, of the nearest length
// seen where there were none, and never above the request's own limit (NaN:
// it has none). It is at least 1.
func (o *Output) Expect(promptTokens, limit float64) float64 {
	b := outputBucket(promptTokens)
	expected := ColdOutput
	for d := range len(o.mean) {
		if lower := b - d; lower >= 0 && o.seen[lower] {
			expected = o.mean[lower]
			break
		}
		if upper := b + d; upper < len(o.mean) && o.seen[upper] {
			expected = o.mean[upper]
			break
		}
	}
	if limit >= 0 { // false for NaN
		expected = min(expected, limit)
	}
	return max(1, expected)
}
