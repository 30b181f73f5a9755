package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	leastToken  = 16          // bytes
	lookAgain   = time.Second // for a changed file
	largestFile = 64 << 10
)

// Token is a secret in a file: one a line, each of which is accepted, the first
// is shown. With two lines it can be replaced while both are in use. The file
// is read again when it has changed; while that can't be used the last good one
// stays. A Token is safe for concurrent use.
type Token struct {
	file string
	log  *slog.Logger

	mu       sync.Mutex
	first    string
	accepted [][sha256.Size]byte
	read     mark
	looked   time.Time
}

// OpenToken reads a token; nil for no file.
func OpenToken(file string, log *slog.Logger) (*Token, error) {
	if file == "" {
		return nil, nil
	}
	t := &Token{file: file, log: log, looked: time.Now()}
	if err := t.renew(); err != nil {
		return nil, err
	}
	return t, nil
}

// renew reads the file if it has changed. Called under mu, or before anyone
// else has t. Errors hold nothing of the file.
func (t *Token) renew() error {
	now, err := markOf(t.file)
	if err != nil {
		return err
	}
	if now == t.read {
		return nil
	}
	if now.size > largestFile {
		return fmt.Errorf("%s has %d bytes; want a token a line", t.file, now.size)
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	t.read = now
	var first string
	var accepted [][sha256.Size]byte
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case len(line) < leastToken:
			return fmt.Errorf("%s holds a token of %d bytes; want at least %d that nobody can guess: head -c 32 /dev/urandom | base64", t.file, len(line), leastToken)
		case strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			return fmt.Errorf("%s holds a token that no header can carry; want letters, digits and signs of ASCII, one token a line", t.file)
		}
		if first == "" {
			first = line
		}
		accepted = append(accepted, sha256.Sum256([]byte(line)))
	}
	if first == "" {
		return fmt.Errorf("%s holds no token: head -c 32 /dev/urandom | base64", t.file)
	}
	t.first, t.accepted = first, accepted
	return nil
}

// look reads a changed file. Called under mu.
func (t *Token) look() {
	now := time.Now()
	if now.Sub(t.looked) < lookAgain {
		return
	}
	t.looked = now
	if err := t.renew(); err != nil {
		t.log.Warn("a changed token can't be used; the one before it stays", "error", err)
	}
}

// Accepts reports whether a token that was shown is one of the file's. It takes
// as long for every one that is not.
func (t *Token) Accepts(shown string) bool {
	digest := sha256.Sum256([]byte(shown))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	good := 0
	for i := range t.accepted {
		good |= subtle.ConstantTimeCompare(digest[:], t.accepted[i][:])
	}
	return good == 1
}

// show is the header of who asks.
func (t *Token) show() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look()
	return bearer + t.first
}

// bearer is what an Authorization header begins with.
const bearer = "Bearer "

// bearerOf is the token in an Authorization header, "" for none.
func bearerOf(header string) string {
	if len(header) <= len(bearer) || !strings.EqualFold(header[:len(bearer)], bearer) {
		return ""
	}
	return strings.TrimSpace(header[len(bearer):])
}
