package fleet

import (
	"encoding/binary"
	"math/bits"
)

// Multipliers and rotation of the block hash. Any odd constants without
// structure do; these are digits of pi and of the golden ratio. The hash is
// not meant to resist an adversary.
const (
	chainMul1 = 0x9e3779b97f4a7c15
	chainMul2 = 0x243f6a8885a308d3
)

// ChainSeed starts a chain from everything besides the tokens that keeps two
// prompts from sharing cache entries, such as the LLM and a cache salt.
func ChainSeed(parts ...string) uint64 {
	h := uint64(chainMul1)
	for _, p := range parts {
		h = hashBytes(h, []byte(p))
	}
	return h
}

// ExtendChain returns the hash of a block with the given content that follows
// a block with hash parent. Traces that name their blocks use it directly.
func ExtendChain(parent, content uint64) uint64 {
	hi, lo := bits.Mul64(parent^chainMul2, content^bits.RotateLeft64(parent, 23)^chainMul1)
	return mix(hi ^ lo ^ parent)
}

// ChainOf appends to dst the hash of every full block of blockBytes bytes of
// text, each over all blocks before it. A last, partial block has none.
func ChainOf(dst []uint64, seed uint64, text []byte, blockBytes int) []uint64 {
	h := seed
	for ; len(text) >= blockBytes; text = text[blockBytes:] {
		h = hashBytes(h, text[:blockBytes])
		dst = append(dst, h)
	}
	return dst
}

func hashBytes(h uint64, b []byte) uint64 {
	h ^= uint64(len(b)) * chainMul2
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64((h^binary.LittleEndian.Uint64(b))*chainMul1, 31) + chainMul2
	}
	var last [8]byte
	copy(last[:], b)
	return mix(h ^ binary.LittleEndian.Uint64(last[:]))
}

// mix is the finaliser of a 64-bit hash: every input bit reaches every output
// bit (shift-multiply rounds, as splitmix64 uses them).
func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}
