package calibrate

import (
	_ "embed"
	"math/rand/v2"
	"strings"
)

//go:embed words.txt
var wordList string

var words = strings.Fields(wordList)

// Text returns n bytes of common English words in random order. Two texts share
// the first k words with probability 1/len(words)^k, so that no prefix cache
// holds more than a few tokens of one, and a tokenizer makes about as many
// tokens of a byte as it does of prose.
func Text(rng *rand.Rand, n int) string {
	var b strings.Builder
	b.Grow(n + 16)
	for b.Len() < n {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()[:n]
}
