package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
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
type Token struct{ kept kept[tokens] }

// tokens are those of a file.
type tokens struct {
	first    string
	accepted [][sha256.Size]byte
}

// OpenToken reads a token; nil for no file.
func OpenToken(file string, log *slog.Logger) (*Token, error) {
	if file == "" {
		return nil, nil
	}
	t := &Token{kept[tokens]{what: "a token", files: []string{file}, every: lookAgain, log: log, load: func() (tokens, error) { return readTokens(file) }}}
	if err := t.kept.begin(); err != nil {
		return nil, err
	}
	return t, nil
}

// readTokens reads a file. Errors hold nothing of it.
func readTokens(name string) (t tokens, err error) {
	file, err := os.Open(name)
	if err != nil {
		return t, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, largestFile+1))
	if err != nil {
		return t, err
	}
	if len(text) > largestFile {
		return t, fmt.Errorf("%s has more than %d bytes; want a token a line", name, largestFile)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case len(line) < leastToken:
			return t, fmt.Errorf("%s holds a token of %d bytes; want at least %d that nobody can guess: head -c 32 /dev/urandom | base64", name, len(line), leastToken)
		case strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			return t, fmt.Errorf("%s holds a token that no header can carry; want letters, digits and signs of ASCII, one token a line", name)
		}
		if t.first == "" {
			t.first = line
		}
		t.accepted = append(t.accepted, sha256.Sum256([]byte(line)))
	}
	if t.first == "" {
		return t, fmt.Errorf("%s holds no token: head -c 32 /dev/urandom | base64", name)
	}
	return t, nil
}

// Accepts reports whether a token that was shown is one of the file's. It takes
// as long for every one that is not.
func (t *Token) Accepts(shown string) bool {
	digest := sha256.Sum256([]byte(shown))
	accepted := t.kept.now().accepted
	good := 0
	for i := range accepted {
		good |= subtle.ConstantTimeCompare(digest[:], accepted[i][:])
	}
	return good == 1
}

// show is the header of who asks.
func (t *Token) show() string {
	return bearer + t.kept.now().first
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
