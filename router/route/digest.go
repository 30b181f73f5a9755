package route

import (
	"crypto/rand"
	"crypto/sha256"

	"github.com/spillway-llm/spillway/router/prefix"
)

// digestKey is what digests of prompts are written under: of routers with one
// salt the same, otherwise one that ends with this process, so that nobody can
// try texts against its digests afterwards.
func digestKey(salt string) (key [16]byte) {
	if salt == "" {
		rand.Read(key[:])
		return key
	}
	sum := sha256.Sum256([]byte("digests of prompts\x00" + salt))
	copy(key[:], sum[:])
	return key
}

// digest is that of the request's prompt.
func (s *scratch) digest() []byte {
	if len(s.hashed) == 0 {
		return nil
	}
	known := int32(0)
	for _, e := range s.known {
		known = max(known, s.matches[e.slot])
	}
	return s.digester.Append(make([]byte, 0, prefix.MaxDigest), s.hashed, int(known))
}
