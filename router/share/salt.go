package share

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/spillway-llm/spillway/router/prefix"
)

// version is of the contract: routers of another one refuse each other, and
// snapshots of another one are not read.
const version = 1

// derive makes a secret for one purpose from the salt.
func derive(salt []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// HashSalt is what hashes of prompts begin with: route.Config.Salt.
func HashSalt(salt []byte) string { return hex.EncodeToString(derive(salt, "prefix")) }

// proof shows that two routers hash alike, and says nothing of the salt.
func proof(salt []byte) []byte {
	return derive(salt, fmt.Sprintf("proof of hashes version %d, blocks of %d bytes", version, prefix.DefaultBlockBytes))
}
