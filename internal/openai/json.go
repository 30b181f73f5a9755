package openai

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of arrays and objects that is read. Engines
// written in Python and Rust refuse bodies at 200 to 1,000 levels; real
// requests (tool schemas are the deepest part) stay under 40.
const MaxDepth = 512

// maxEscapedKey is six bytes (\u0061) for each letter of the longest known
// key, rounded up.
const maxEscapedKey = 256

// cursor walks over one JSON text. Its methods leave i after what they read
// and return false once the text is malformed; the first complaint is kept in
// why, and at is the byte it is about. Nothing is decoded or copied.
type cursor struct {
	b     []byte
	i     int
	depth int
	why   string
	at    int
}

func (c *cursor) fail(why string) bool {
	if c.why == "" {
		c.why, c.at = why, c.i
	}
	return false
}

// space skips white space and reports the byte that follows, 0 at the end. A
// literal NUL byte is no valid start of anything, so 0 is not ambiguous.
func (c *cursor) space() byte {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\n', '\t', '\r':
			c.i++
		default:
			return c.b[c.i]
		}
	}
	return 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns how many leading bytes of b are neither a quote, a backslash
// nor a control character: the part of a JSON string that needs no thought. It
// looks at many bytes at a time, because prompts are long.
func plain(b []byte) int {
	n := 0
	if len(b) >= 8 { // most strings are keys and short values
		if hit := special(b); hit != 0 {
			return bits.TrailingZeros64(hit) / 8
		}
		n = 8
	}
	for ; len(b)-n >= 32; n += 32 {
		p := b[n : n+32 : n+32]
		s0, s1, s2, s3 := special(p[0:]), special(p[8:]), special(p[16:]), special(p[24:])
		if s0|s1|s2|s3 != 0 {
			// Without a branch for each word: where it is, nobody can foresee.
			return n + bits.TrailingZeros32(gathered(s0)|gathered(s1)<<8|gathered(s2)<<16|gathered(s3)<<24)
		}
	}
	for ; len(b)-n >= 8; n += 8 {
		if hit := special(b[n:]); hit != 0 {
			return n + bits.TrailingZeros64(hit)/8
		}
	}
	for n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= 0x20 {
		n++
	}
	return n
}

// special marks, by its high bit, the first of 8 bytes that is a quote, a
// backslash or a control character, and perhaps later ones too: 0 means none.
//
// Each difference has a byte's high bit set where the byte matches, or where it
// was set before; then it is no match, for all that is looked for is ASCII.
func special(b []byte) uint64 {
	w := binary.LittleEndian.Uint64(b)
	quote := (w ^ ones*'"') - ones
	slash := (w ^ ones*'\\') - ones
	control := w - ones*0x20
	return (quote | slash | control) &^ w & highs
}

// gathered moves the high bits of 8 bytes into one byte, in their order.
func gathered(highBits uint64) uint32 {
	return uint32((highBits >> 7) * 0x0102040810204080 >> 56)
}

// text reads a string and returns the raw bytes between its quotes, escapes as
// they stand, and whether there are any.
func (c *cursor) text() (raw []byte, escaped, ok bool) {
	if c.space() != '"' {
		return nil, false, c.fail("expected a string")
	}
	c.i++
	start := c.i
	for {
		c.i += plain(c.b[c.i:])
		if c.i >= len(c.b) {
			return nil, false, c.fail("the string is not closed")
		}
		switch c.b[c.i] {
		case '"':
			c.i++
			return c.b[start : c.i-1], escaped, true
		case '\\':
			escaped = true
			if !c.escape() {
				return nil, false, false
			}
		default:
			return nil, false, c.fail("control character in a string")
		}
	}
}

func (c *cursor) escape() bool {
	if c.i+1 >= len(c.b) {
		c.i = len(c.b)
		return c.fail("the string is not closed")
	}
	switch c.b[c.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.i += 2
		return true
	case 'u':
		if c.i+6 > len(c.b) {
			return c.fail("short \\u escape")
		}
		if _, ok := hex4(c.b[c.i+2:]); !ok {
			return c.fail("bad \\u escape")
		}
		c.i += 6
		return true
	}
	return c.fail("unknown escape")
}

// number reads a number and returns its bytes.
func (c *cursor) number() ([]byte, bool) {
	c.space()
	start := c.i
	if c.i < len(c.b) && c.b[c.i] == '-' {
		c.i++
	}
	switch {
	case c.i < len(c.b) && c.b[c.i] == '0':
		c.i++
	case !c.digits():
		return nil, c.fail("expected a value")
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		if !c.digits() {
			return nil, c.fail("expected a digit after the decimal point")
		}
	}
	if c.i < len(c.b) && (c.b[c.i] == 'e' || c.b[c.i] == 'E') {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		if !c.digits() {
			return nil, c.fail("expected a digit in the exponent")
		}
	}
	return c.b[start:c.i], true
}

func (c *cursor) digits() bool {
	start := c.i
	for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i > start
}

func (c *cursor) literal(word string) bool {
	if len(c.b)-c.i < len(word) || string(c.b[c.i:c.i+len(word)]) != word {
		return c.fail("expected a value")
	}
	c.i += len(word)
	return true
}

// null reads a null if one stands here, and reports whether it did.
func (c *cursor) null() bool {
	if c.space() == 'n' && len(c.b)-c.i >= 4 && string(c.b[c.i:c.i+4]) == "null" {
		c.i += 4
		return true
	}
	return false
}

// skip reads any one value.
func (c *cursor) skip() bool {
	switch c.space() {
	case '"':
		_, _, ok := c.text()
		return ok
	case '{':
		for o := c.object(); o.next(c); {
			if !c.skip() {
				return false
			}
		}
		return c.why == ""
	case '[':
		for a := c.array(); a.next(c); {
			if !c.skip() {
				return false
			}
		}
		return c.why == ""
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	}
	_, ok := c.number()
	return ok
}

// end checks that nothing but white space is left.
func (c *cursor) end() bool {
	if c.space(); c.i < len(c.b) {
		return c.fail("unexpected bytes after the JSON value")
	}
	return true
}

// members steps through an object (with keys) or an array (without). After
// next has returned true the caller reads exactly one value.
type members struct {
	close byte
	begun bool
	key   []byte // of the current member of an object, decoded
}

func (c *cursor) object() members { return c.open('{', '}') }
func (c *cursor) array() members  { return c.open('[', ']') }

func (c *cursor) open(open, close byte) members {
	switch {
	case c.space() != open:
		c.fail("expected " + string(rune(open)))
	case c.depth >= MaxDepth:
		c.fail("nested too deeply")
	default:
		c.i++
		c.depth++
	}
	return members{close: close}
}

func (m *members) next(c *cursor) bool {
	if c.why != "" {
		return false
	}
	b := c.space()
	if b == m.close {
		c.i++
		c.depth--
		return false
	}
	if m.begun {
		if b != ',' {
			return c.fail("expected , or " + string(rune(m.close)))
		}
		c.i++
		c.space()
	}
	m.begun = true
	if m.close == ']' {
		return true
	}
	raw, escaped, ok := c.text()
	if !ok {
		return false
	}
	m.key = raw
	// Longer keys stay as they are: with a backslash in them they equal no key
	// that anyone asks for, and nor would their decoded forms.
	if escaped && len(raw) <= maxEscapedKey {
		m.key = unescape(nil, raw)
	}
	if c.space() != ':' {
		return c.fail("expected :")
	}
	c.i++
	return true
}

// unescape appends the decoded form of a raw string to dst. Invalid UTF-8 and
// lone surrogates become U+FFFD, as encoding/json does it. raw must have
// passed cursor.text.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		switch e := raw[i+1]; e {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(raw[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw)-i >= 6 && raw[i] == '\\' && raw[i+1] == 'u' {
					low, _ = hex4(raw[i+2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		default:
			dst = append(dst, e)
		}
		i += 2
	}
	return dst
}

func hex4(b []byte) (rune, bool) {
	var r rune
	for _, d := range b[:4] {
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// integer returns the whole number that raw spells, also as 1e2 or 100.0, if
// it is one and lies within +-2^53.
func integer(raw []byte) (int, bool) {
	if len(raw) <= 15 {
		n, neg, digits := 0, false, raw
		if len(raw) > 0 && raw[0] == '-' {
			neg, digits = true, raw[1:]
		}
		for _, d := range digits {
			if d < '0' || d > '9' {
				return fraction(raw)
			}
			n = n*10 + int(d-'0')
		}
		if neg {
			n = -n
		}
		return n, len(digits) > 0
	}
	return fraction(raw)
}

func fraction(raw []byte) (int, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int(f), true
}
