package prefix

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// DefaultBlockBytes is about 64 tokens of English text: four blocks of vLLM's
// 16 tokens.
const DefaultBlockBytes = 256

// Seed is what must be equal, beside the text, for two requests to share
// cache entries. Empty fields are as good as any other value.
type Seed struct {
	// Deployment is a secret of those who share an index, so that their hashes
	// tell nobody else which prompts are alike. Empty: hashes stay in here.
	Deployment string

	LLM  string
	Salt string // the request's cache salt
	LoRA string // adapter name
}

// Hasher makes the chain of one prompt after another. The prompt is written
// in the order the engine's template puts it together: tools, system text,
// messages with their roles. Writing in other pieces gives the same chain.
// The zero Hasher is not ready: call Reset first.
type Hasher struct {
	digest     xxhash.Digest
	blockBytes int
	filled     int // bytes of the block begun
	chain      []uint64
	opaque     [8]byte // digest of the piece that WriteOpaque was last given
}

// Reset begins a new prompt with blocks of blockBytes (DefaultBlockBytes when
// below 1). It keeps memory: the chain of the prompt before is overwritten.
func (h *Hasher) Reset(seed Seed, blockBytes int) {
	if blockBytes < 1 {
		blockBytes = DefaultBlockBytes
	}
	h.blockBytes = blockBytes
	h.filled = 0
	h.chain = h.chain[:0]
	first := uint64(blockBytes)
	if seed.Deployment != "" {
		h.digest.ResetWithSeed(first)
		h.digest.WriteString(seed.Deployment)
		first = h.digest.Sum64()
	}
	for _, s := range [...]string{seed.LLM, seed.Salt, seed.LoRA} {
		h.digest.ResetWithSeed(first) // one after the other, so that no two seeds run together
		h.digest.WriteString(s)
		first = h.digest.Sum64()
	}
	h.digest.ResetWithSeed(first)
}

// Write adds bytes of the prompt. It keeps no reference to span and never
// fails.
func (h *Hasher) Write(span []byte) (int, error) {
	n := len(span)
	for len(span) > 0 {
		part := span[:min(len(span), h.blockBytes-h.filled)]
		h.digest.Write(part)
		h.advance(len(part))
		span = span[len(part):]
	}
	return n, nil
}

// WriteString is Write for a string.
func (h *Hasher) WriteString(span string) (int, error) {
	n := len(span)
	for len(span) > 0 {
		part := span[:min(len(span), h.blockBytes-h.filled)]
		h.digest.WriteString(part)
		h.advance(len(part))
		span = span[len(part):]
	}
	return n, nil
}

// WriteOpaque adds a piece of the prompt whose length says nothing about its
// tokens, such as an image or a token id, as if it were size bytes long. All
// of the piece tells it apart, in every block from the one it begins in.
func (h *Hasher) WriteOpaque(piece []byte, size int) {
	binary.LittleEndian.PutUint64(h.opaque[:], xxhash.Sum64(piece))
	h.digest.Write(h.opaque[:])
	for size > 0 {
		n := min(size, h.blockBytes-h.filled)
		h.advance(n)
		size -= n
	}
}

// advance ends the block begun when it is full: its hash joins the chain and
// seeds the next block.
func (h *Hasher) advance(bytes int) {
	h.filled += bytes
	if h.filled < h.blockBytes {
		return
	}
	sum := h.digest.Sum64()
	h.chain = append(h.chain, sum)
	h.digest.ResetWithSeed(sum)
	h.filled = 0
}

// Chain returns one hash per full block; a last part of a block is not in it.
// It is valid until the next Reset and grows with further writes, so text
// that is generated later can be added to its prompt.
func (h *Hasher) Chain() []uint64 { return h.chain }
