package prefix

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	digestVersion = 1
	tagSize       = 4 // bytes: among a million prompts a few hundred pairs are taken for alike at some depth

	// deepestMark is the last depth of the grid, in blocks: a million tokens.
	deepestMark = 1 << 14
)

// MaxDigest is the most bytes of a digest: 28 depths of the grid, two more, and
// what says how many blocks there are.
const MaxDigest = 1 + 2*binary.MaxVarintLen32 + tagSize*30

// Digester writes digests: what is kept of a prompt so that one can later tell
// how much of it another prompt has in common with it, and nothing else. Of the
// chain's hashes at some depths a digest has four bytes each, encrypted under a
// key; who lacks the key can't try texts against them.
//
// The depths are 1, 2, 3, 4, 6, 8, 12 and so on, the whole prompt, and how much of it
// the index knew of an earlier one. A Digester is not safe for concurrent use;
// copies of it are.
type Digester struct {
	cipher  cipher.Block
	in, out [aes.BlockSize]byte
}

// NewDigester writes digests under a key. Those of different keys have nothing in
// common.
func NewDigester(key [16]byte) Digester {
	c, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 16 bytes are a key
	}
	return Digester{cipher: c}
}

// Append appends the digest of a prompt with this chain, of which the first known
// blocks were those of an earlier one, at most MaxDigest bytes. Of an empty chain
// there is none.
func (d *Digester) Append(dst []byte, chain []uint64, known int) []byte {
	if len(chain) == 0 {
		return dst
	}
	known = min(max(0, known), len(chain))
	dst = append(dst, digestVersion)
	dst = binary.AppendUvarint(dst, uint64(len(chain)))
	dst = binary.AppendUvarint(dst, uint64(known))
	for depth := range depths(len(chain), known) {
		binary.LittleEndian.PutUint64(d.in[:], chain[depth-1])
		binary.LittleEndian.PutUint64(d.in[8:], uint64(depth))
		d.cipher.Encrypt(d.out[:], d.in[:])
		dst = append(dst, d.out[:tagSize]...)
	}
	return dst
}

// depths are those that a digest tells of, ascending.
func depths(blocks, known int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		last := 0
		for at := 1; ; {
			next := blocks
			if at <= deepestMark {
				next = min(next, at)
			}
			if known > last {
				next = min(next, known)
			}
			if next > last && !yield(next) {
				return
			}
			last = next
			if next == blocks {
				return
			}
			if next == at {
				at = markAfter(at)
			}
		}
	}
}

// markAfter is the next depth of the grid: 1, 2, 3, 4, 6, 8, 12, ...
func markAfter(depth int) int {
	switch {
	case depth == 1:
		return 2
	case depth&(depth-1) == 0: // a power of two
		return depth + depth/2
	default:
		return depth / 3 * 4
	}
}

// A Digest is what is kept of a prompt.
type Digest struct {
	Blocks int // full blocks of it
	Known  int // of them, those that the index knew of earlier prompts; these or more they had in common
	Marks  []Mark
}

// A Mark stands for the first Depth blocks: prompts with equal marks have these in
// common.
type Mark struct {
	Depth int
	Tag   uint32
}

var errDigest = errors.New("it is cut off, or longer than it says")

// ParseDigest reads what a Digester wrote; of no bytes it is the empty digest.
func ParseDigest(b []byte) (Digest, error) {
	var d Digest
	if len(b) == 0 {
		return d, nil
	}
	if b[0] != digestVersion {
		return d, fmt.Errorf("digest of a prompt: version %d, this build reads %d", b[0], digestVersion)
	}
	b = b[1:]
	for _, n := range []*int{&d.Blocks, &d.Known} {
		v, size := binary.Uvarint(b)
		if size <= 0 || v > 1<<31-1 {
			return Digest{}, fmt.Errorf("digest of a prompt: %w", errDigest)
		}
		*n, b = int(v), b[size:]
	}
	if d.Blocks == 0 || d.Known > d.Blocks {
		return Digest{}, fmt.Errorf("digest of a prompt: %d of its %d blocks were known", d.Known, d.Blocks)
	}
	d.Marks = make([]Mark, 0, len(b)/tagSize)
	for depth := range depths(d.Blocks, d.Known) {
		if len(b) < tagSize {
			return Digest{}, fmt.Errorf("digest of a prompt: %w", errDigest)
		}
		d.Marks = append(d.Marks, Mark{depth, binary.LittleEndian.Uint32(b)})
		b = b[tagSize:]
	}
	if len(b) > 0 {
		return Digest{}, fmt.Errorf("digest of a prompt: %w", errDigest)
	}
	return d, nil
}
