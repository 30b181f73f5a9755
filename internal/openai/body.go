package openai

// maxMember is the longest `usage` or `error` of a whole response that is read.
const maxMember = 64 << 10

// bodyReader picks `usage` and `error` out of a JSON response that comes in
// chunks, in one pass and in bounded memory, however long the completion is.
// It follows only the nesting; it is no judge of the engine's JSON.
type bodyReader struct {
	depth    int
	inString bool
	escaped  bool
	wantKey  bool // the next string at depth 1 is a key
	inKey    bool
	key      [8]byte // the key at depth 1, as far as it fits
	keyLen   int
	holding  bool   // inside a value that is wanted
	held     []byte // {"key":value, for chunk.parse
	over     bool   // the value outgrew maxMember
	closed   bool   // the outermost object has ended
	skipped  int
}

// write reads p and calls found with each wanted member, as an object of one
// member that is valid during the call.
func (b *bodyReader) write(p []byte, found func(object []byte)) {
	for i := 0; i < len(p) && !b.closed; {
		if b.inString && !b.escaped {
			n := plain(p[i:])
			b.take(p[i : i+n])
			if i += n; i == len(p) {
				return
			}
		}
		c := p[i]
		i++
		if b.inString {
			b.stringByte(c)
			continue
		}
		if b.holding && b.depth == 1 && (c == ',' || c == '}') {
			b.release(found)
		}
		switch c {
		case '"':
			b.inString = true
			if b.inKey = b.depth == 1 && b.wantKey; b.inKey {
				b.keyLen, b.wantKey = 0, false
			}
		case '{', '[':
			b.depth++
			b.wantKey = b.depth == 1
		case '}', ']':
			b.depth--
			b.closed = b.depth <= 0
		case ',':
			b.wantKey = b.depth == 1
		case ':':
			if b.depth == 1 && b.wanted() {
				b.holding = true
				b.held = append(append(append(b.held[:0], `{"`...), b.key[:b.keyLen]...), `":`...)
				continue
			}
		}
		b.hold(c)
	}
}

func (b *bodyReader) wanted() bool {
	if b.keyLen > len(b.key) {
		return false
	}
	key := string(b.key[:b.keyLen])
	return key == "usage" || key == "error"
}

func (b *bodyReader) stringByte(c byte) {
	b.hold(c)
	switch {
	case b.escaped:
		b.escaped = false
	case c == '\\':
		b.escaped = true
	case c == '"':
		b.inString, b.inKey = false, false
		return
	}
	if b.inKey {
		b.keyLen = len(b.key) + 1 // no wanted key has escapes
	}
}

// take notes a stretch of a string without quotes and escapes.
func (b *bodyReader) take(p []byte) {
	if b.inKey {
		copy(b.key[min(b.keyLen, len(b.key)):], p)
		b.keyLen = min(b.keyLen+len(p), len(b.key)+1)
	}
	if !b.holding || b.over {
		return
	}
	if len(b.held)+len(p) > maxMember {
		b.over = true
		return
	}
	b.held = append(b.held, p...)
}

func (b *bodyReader) hold(c byte) {
	if b.holding && !b.over {
		if b.over = len(b.held) >= maxMember; !b.over {
			b.held = append(b.held, c)
		}
	}
}

func (b *bodyReader) release(found func([]byte)) {
	if b.over {
		b.skipped++
	} else {
		found(append(b.held, '}'))
	}
	b.holding, b.over = false, false
}
